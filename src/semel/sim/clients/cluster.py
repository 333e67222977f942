"""The real low-level client (``client/cluster``) over a simulated session, and coroutines in simulated time.

Only what touches asyncio is replaced: where a request goes out, and the pause between two attempts. What is
asked, what an answer means and what is tried again is the client's own code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from typing import Any, Final, TypeVar

from semel.client.brokers import CLIENT_VERSION
from semel.client.cluster import Cluster
from semel.client.model import BrokerAddress, Produced
from semel.client.routing import Again
from semel.errors import ConnectionLost, ErrorCode
from semel.sim.clients.session import RECONNECT_MS, Session
from semel.sim.world.process import Process
from semel.types import TopicPartition
from semel.wire.api import SERVED, ApiKey
from semel.wire.api_versions import FEATURES
from semel.wire.frames import Buffer

_V = TypeVar("_V")
_T = TypeVar("_T")
_THE_NODE: Final = 0


class Later:
    """Something that will be known: await it inside a coroutine that :func:`drive` runs."""

    def __init__(self) -> None:
        self._result: Any = None
        self._is_known = False
        self._wake: Callable[[], None] | None = None

    def know(self, result: Any) -> None:
        self._result, self._is_known = result, True
        wake, self._wake = self._wake, None  # not to hold who waits for it: that one holds this
        if wake is not None:
            wake()

    def when_known(self, wake: Callable[[], None]) -> None:
        if self._is_known:
            wake()
        else:
            self._wake = wake

    def __await__(self) -> Generator[Later, None, Any]:
        if not self._is_known:
            yield self
        return self._result


def drive(work: Coroutine[Later, None, _T], done: Callable[[_T | None, Exception | None], None]) -> None:
    """Run ``work`` as its awaited values become known; ``done`` gets its result or its exception."""
    try:
        awaited = work.send(None)
    except StopIteration as ended:
        done(ended.value, None)
    except Exception as error:
        done(None, error)
    else:
        awaited.when_known(lambda: drive(work, done))


class SimulatedBrokers:
    """``client/brokers``, as far as :class:`Cluster` asks it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_closed = False
        self.were_reached = True  # nobody is to be told that an address may be wrong
        self.addresses: dict[int, BrokerAddress] = {}
        self.connections_opened = 1

    def serves(self, api_key: ApiKey) -> bool:
        return api_key in SERVED

    def has_feature(self, name: str) -> bool:
        return name in FEATURES

    def serves_version(self, api_key: ApiKey, version: int) -> bool:
        return SERVED[api_key].serves(version)

    async def ask(
        self,
        node_id: int,
        api_key: ApiKey,
        body: list[Buffer],
        *,
        wait_ms: int = 0,
        version: int | None = None,
    ) -> memoryview:
        return await self.wait(self.send(api_key, version or CLIENT_VERSION[api_key], body), 0)

    # -- what ``begin_produce`` asks of a connection: there is one, and it is the session's ----------------

    name: Final = "simulated:9092"

    async def connection(self, node_id: int) -> SimulatedBrokers:
        return self

    def check(self, api_key: ApiKey, name: str) -> None:
        """The server is of this version."""

    def send(self, api_key: ApiKey, version: int, body: list[Buffer], *, answered: bool = True) -> Later:
        answer = Later()
        self._session.request(api_key, version, body, lambda got, sent: answer.know(got))
        return answer

    async def wait(self, answer: Later, timeout_ms: int) -> memoryview:
        """The session has a time-out of its own."""
        got: memoryview | None = await answer
        if got is None:
            self.connections_opened += 1  # the session goes on by another one
            raise ConnectionLost("no answer")
        return got


class SimulatedCluster(Cluster):
    """A cluster of one server."""

    def __init__(self, process: Process, session: Session, request_timeout_ms: int) -> None:
        super().__init__("simulated:9092", request_timeout_ms=request_timeout_ms)
        self._process = process
        self.brokers = SimulatedBrokers(session)  # type: ignore[assignment]

    async def produce(
        self, batches: Mapping[TopicPartition, Buffer], **options: Any
    ) -> dict[TopicPartition, Produced]:
        try:
            return await self.produce_to(_THE_NODE, batches, **options)
        except ConnectionLost as error:
            return dict.fromkeys(batches, Produced(ErrorCode.NETWORK_EXCEPTION, -1, -1, -1, str(error)))

    async def _coordinator(self, key_type: int, key: str) -> int:
        return _THE_NODE

    async def _by_leader(
        self,
        tps: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, _V]]],
    ) -> dict[TopicPartition, _V]:
        wanted = sorted(tps)
        return await self.retried(lambda: ask(_THE_NODE, wanted))

    async def retried(self, ask: Callable[[], Awaitable[_T]], *, missing_max_ms: int = 0) -> _T:
        """Its topics are made before anybody asks: none is missing for good."""
        give_up_ms = self._process.now_ms + self.request_timeout_ms
        while True:
            try:
                return await ask()
            except (Again, ConnectionLost):
                if self._process.now_ms >= give_up_ms:
                    raise
            await self.pause(RECONNECT_MS)

    async def pause(self, pause_ms: int) -> None:
        over = Later()
        self._process.after(pause_ms, lambda: over.know(None))
        await over
