"""What the connector's shells have of the process that they run in: its clock, its name, its clients, its memory.

Spark's Python workers are pooled, so clients and what was read of the decision log outlive a task; a fork shares
neither. All of it is in one place because the simulator has many processes in one: each works :func:`inside` a
:class:`SinkProcess` of its own, on a simulated clock and network, and runs the very same shells.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

from semel.client.blocking import Cluster
from semel.core.sink.history import SinkHistory
from semel.core.sink.litter import SWEPT_AT
from semel.core.sink.run import Planned
from semel.spark.options import Connection
from semel.types import TopicPartition


class Clock(Protocol):
    """The only time that a shell knows."""

    def now_ms(self) -> int:
        """By the wall, for records."""

    def elapsed_ms(self) -> int:
        """Since some moment; never goes back."""

    def pause(self, pause_ms: int) -> None:
        """Do nothing for a while."""


class SystemClock:
    """The machine's."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def pause(self, pause_ms: int) -> None:
        time.sleep(pause_ms / 1000)


def _new_cluster(connection: Connection) -> Cluster:
    return Cluster(
        connection.bootstrap,
        client_id=connection.client_id,
        request_timeout_ms=connection.request_timeout_ms,
    )


@dataclass(slots=True, eq=False)
class SinkProcess:
    """One process. ``owner`` is who holds a sink, for the error of whoever lost it; ``family`` is what all planner
    processes of a Spark session have in common."""

    owner: str
    family: str
    clock: Clock = field(default_factory=SystemClock)
    new_cluster: Callable[[Connection], Cluster] = _new_cluster
    clusters: dict[Connection, Cluster] = field(default_factory=dict)
    histories: dict[tuple[Connection, str], SinkHistory] = field(default_factory=dict)  # by log and sink
    homes: dict[tuple[Connection, str], TopicPartition] = field(default_factory=dict)  # of sinks in their log
    trimmed: dict[tuple[Connection, TopicPartition], int] = field(
        default_factory=dict
    )  # what it asked to delete
    runs: dict[tuple[Connection, str, str], Planned] = field(default_factory=dict)  # by log, sink, checkpoint
    swept_at: int = SWEPT_AT  # settled keys of a sink, while a run goes on

    def cluster(self, connection: Connection) -> Cluster:
        """The process's client for ``connection``."""
        if connection not in self.clusters:
            self.clusters[connection] = self.new_cluster(connection)
        return self.clusters[connection]


_OF_THIS_PROCESS: Final[dict[int, SinkProcess]] = {}  # by process id: a fork must not share a socket
_SIMULATED: Final[ContextVar[SinkProcess | None]] = ContextVar("sink_process", default=None)


def this_process() -> SinkProcess:
    """The process that the caller runs in."""
    simulated = _SIMULATED.get()
    if simulated is not None:
        return simulated
    process_id = os.getpid()
    if process_id not in _OF_THIS_PROCESS:
        host = socket.gethostname()
        # Planner processes of one Spark session are the children of one daemon.
        _OF_THIS_PROCESS[process_id] = SinkProcess(
            f"process {process_id} on {host}", f"{host}:{os.getppid()}"
        )
    return _OF_THIS_PROCESS[process_id]


@contextmanager
def inside(process: SinkProcess) -> Iterator[None]:
    """Run as ``process``, in this thread."""
    token = _SIMULATED.set(process)
    try:
        yield
    finally:
        _SIMULATED.reset(token)


def connect(connection: Connection) -> Cluster:
    """This process's client for ``connection``."""
    return this_process().cluster(connection)
