"""The real low-level client (``client/cluster``) over a simulated session, and coroutines in simulated time.

Only what touches asyncio is replaced: where a request goes out, and the runtime. What is asked and of whom, what an
answer means and what is tried again is the client's own code.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Final, Generic, TypeVar

from semel.client.brokers import CLIENT_VERSION
from semel.client.cluster import Cluster
from semel.client.model import BrokerAddress
from semel.errors import ConnectionLost
from semel.sim.clients.session import Session
from semel.sim.world.process import Process
from semel.wire.api import SERVED, ApiKey
from semel.wire.api_versions import FEATURES
from semel.wire.frames import Buffer

_T = TypeVar("_T")


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


class SimulatedRuntime:
    """Of one process: its clock, and its coroutines side by side."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return self._process.now_ms

    async def pause(self, pause_ms: int) -> None:
        over = Later()
        self._process.after(pause_ms, lambda: over.know(None))
        await over

    async def gather(self, works: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
        running = [_Running(work) for work in works]
        return [await one.result() for one in running]


class _Running(Generic[_T]):
    """A coroutine that was begun."""

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self._over = Later()
        drive(work, lambda result, error: self._over.know((result, error)))

    async def result(self) -> _T:
        result, error = await self._over
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


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
        connection = await self.connection(node_id)
        return await self.wait(connection.send(api_key, version or CLIENT_VERSION[api_key], body), 0)

    # -- what ``begin_produce`` asks of a connection: there is one, and it is the session's ----------------

    name: Final = "simulated:9092"

    async def connection(self, node_id: int) -> SimulatedBrokers:
        is_there = Later()
        self._session.when_connected(is_there.know)
        if not await is_there:
            raise ConnectionLost("no connection")
        return self

    def check(self, api_key: ApiKey, name: str) -> None:
        """The server is of this version."""

    def send(self, api_key: ApiKey, version: int, body: list[Buffer], *, answered: bool = True) -> Later:
        answer = Later()
        self._session.request(api_key, version, body, answer.know)
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
        super().__init__(
            "simulated:9092", request_timeout_ms=request_timeout_ms, runtime=SimulatedRuntime(process)
        )
        self.brokers = SimulatedBrokers(session)  # type: ignore[assignment]
