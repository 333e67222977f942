"""One Python process of Spark's: a connection, what it remembers, and the blocking calls that run in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from semel.client.blocking import Cluster
from semel.sim.clients.cluster import SimulatedCluster
from semel.sim.clients.session import Session
from semel.sim.world.fiber import Fiber, FiberClock, FiberLoop
from semel.sim.world.network import Network
from semel.sim.world.process import Process
from semel.sim.world.scheduler import Scheduler
from semel.spark.options import Connection
from semel.spark.process import SinkProcess, inside

_T = TypeVar("_T")

REQUEST_TIMEOUT_MS: Final = 15_000


class _BlockingCluster(Cluster):
    """The blocking client, in fibers instead of threads of a real loop."""

    def __init__(self, inner: SimulatedCluster) -> None:
        self.inner = inner
        self._background = FiberLoop()  # type: ignore[assignment]
        self._closed = False


class Worker:
    """Planner, commit or task; ``family`` is that of its driver."""

    def __init__(self, name: str, family: str, scheduler: Scheduler, network: Network) -> None:
        self.name: Final = name
        self.process: Final = Process(scheduler)
        self._network = network
        self._sessions: dict[str, Session] = {}  # by address
        self._fibers: list[Fiber] = []
        self.memory: Final = SinkProcess(
            name,
            family,
            FiberClock(self.process),
            self._new_cluster,  # what a pooled process keeps
        )

    @property
    def is_busy(self) -> bool:
        return self.process.alive and bool(self._fibers)

    def run(self, work: Callable[[], _T], done: Callable[[_T | None, Exception | None], None]) -> None:
        """Begin a blocking call; ``done`` is not called when this process dies before it is over."""

        def in_process() -> _T:
            with inside(self.memory):
                return work()

        def over(result: Any, error: Exception | None) -> None:
            self._fibers.remove(fiber)
            done(result, error)

        fiber = Fiber(self.process, in_process, over)
        self._fibers.append(fiber)
        fiber.start()

    def die(self) -> None:
        """Killed, without a word."""
        if self.process.alive:
            self.process.alive = False
            for session in self._sessions.values():
                session.die()
            fibers, self._fibers = self._fibers, []
            for fiber in fibers:
                fiber.end()

    def _new_cluster(self, connection: Connection) -> Cluster:
        if connection.bootstrap not in self._sessions:
            self._sessions[connection.bootstrap] = self._new_session(connection.bootstrap)
        session = self._sessions[connection.bootstrap]
        return _BlockingCluster(SimulatedCluster(self.process, session, connection.request_timeout_ms))

    def _new_session(self, bootstrap: str) -> Session:
        """There is one server, whatever it is called."""
        return Session(self.name, self.process, self._network)


def connection_of(request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> Connection:
    """The options' address; every worker has its own session there."""
    return Connection("simulated:9092", request_timeout_ms=request_timeout_ms)
