"""One copy of a job: a process with a connection to each cluster, in which ``run_copy`` runs until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from semel.copy import Copied, run_copy
from semel.errors import SemelError
from semel.sim.clients.session import Done, Session
from semel.sim.copies.sites import Sites
from semel.sim.copies.story import ADDRESSES, DESTINATION, SOURCE, CopyJob
from semel.sim.server.verdicts import COPY_GREW_OLD, COPY_JOURNAL_CUT
from semel.sim.sinks.worker import Worker
from semel.sim.world.network import Network
from semel.sim.world.process import Process
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.surroundings import Surroundings
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer

LATE_MS: Final = 35_000  # so long after it was sent a request may come
LAST_REQUEST_MS_MAX: Final = 25  # from when it is sent until the process is killed


class CopyWorker(Worker):
    """``on_request`` is told of each that it sends."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        networks: dict[str, Network],
        on_request: Callable[[ApiKey], None],
    ) -> None:
        super().__init__(name, name, scheduler, networks[ADDRESSES[DESTINATION]])
        self._networks = networks
        self._on_request = on_request

    def _new_session(self, bootstrap: str) -> Session:
        return _Told(self.name, self.process, self._networks[bootstrap], self._on_request)


class _Told(Session):
    def __init__(
        self, name: str, process: Process, network: Network, on_request: Callable[[ApiKey], None]
    ) -> None:
        super().__init__(name, process, network)
        self._on_request = on_request

    def request(self, api_key: ApiKey, version: int, body: list[Buffer], done: Done) -> None:  # type: ignore[override]
        super().request(api_key, version, body, done)
        self._on_request(api_key)


class CopyLife:
    """``on_end`` gets the error that it ended with, or ``None``; it is not called when the process is killed.

    ``on_doom`` is called a moment after the last request that it was to send.
    """

    def __init__(
        self,
        job: CopyJob,
        name: str,
        random: Random,
        sites: Sites,
        around: Surroundings,
        *,
        until_end: bool,
        on_doom: Callable[[CopyLife], None],
        on_end: Callable[[CopyLife, SemelError | None], None],
    ) -> None:
        self.job: Final = job
        self.name: Final = name
        self.until_end: Final = until_end
        self.began_ms: Final = around.scheduler.elapsed_ms
        self.goes_on_after_loss: Final = job.goes_on_after_loss
        self.ended_ms: int | None = None
        self.requests_left = -1  # it is doomed behind so many more; -1: not by their number
        self.counts_only: ApiKey | None = None  # of which kind they are; None: of all
        self.copied_rows = 0
        self._runs_ms: list[int] = []
        self._random = random
        self._around = around
        self._on_doom = on_doom
        self._on_end = on_end
        self._stop = threading.Event()
        networks = {
            ADDRESSES[SOURCE]: sites.source.network,
            ADDRESSES[DESTINATION]: sites.destination.network,
        }
        self.worker: Final = CopyWorker(name, around.scheduler, networks, self._asked)
        job.lives.append(self)

    @property
    def is_alive(self) -> bool:
        return self.ended_ms is None

    @property
    def had_rival(self) -> bool:
        """Whether something of another copy of the job may have come while this one lived."""
        return any(
            other is not self
            and (self.ended_ms is None or other.began_ms <= self.ended_ms)
            and (other.ended_ms is None or other.ended_ms + LATE_MS >= self.began_ms)
            for other in self.job.lives
        )

    def run_began_ms(self, at_ms: int) -> int:
        """When the run of the job began that was under way at ``at_ms``; of run after run, each looks at both clusters
        first."""
        return max((began_ms for began_ms in self._runs_ms if began_ms <= at_ms), default=at_ms)

    @property
    def process(self) -> Process:
        return self.worker.process

    def start(self) -> None:
        self._around.trace.note(self.name, f"starts{', to the end' if self.until_end else ''}")
        work = partial(run_copy, self.job.plan, until_end=self.until_end, stop=self._stop, told=self._told)
        self.worker.run(work, self._over)

    def stop_in_order(self) -> None:
        """As by a signal."""
        self._stop.set()

    def die(self) -> None:
        """Killed, without a word."""
        if self.is_alive:
            self.ended_ms = self._around.scheduler.elapsed_ms
            self._around.trace.note(self.name, "dies")
            self.worker.die()

    def _told(self, copied: Copied) -> None:
        self._around.counts.operations += copied.rows - self.copied_rows
        self.copied_rows = copied.rows

    def _asked(self, api_key: ApiKey) -> None:
        self._count(api_key)
        if self.requests_left < 0 or self.counts_only not in (None, api_key):
            return
        self.requests_left -= 1
        if self.requests_left < 0:
            delay_ms = self._random.randint(0, LAST_REQUEST_MS_MAX)
            self._around.scheduler.after(delay_ms, lambda: self._on_doom(self))

    def _count(self, api_key: ApiKey) -> None:
        """What copies do now and then, by what they ask for."""
        now_ms, counts = self._around.scheduler.now_ms, self._around.counts
        if api_key is ApiKey.DELETE_RECORDS:
            counts.verdict(COPY_JOURNAL_CUT)
        elif api_key is ApiKey.DESCRIBE_CLUSTER:
            if self._runs_ms and now_ms - self._runs_ms[-1] > self.job.upkeep.run_ms_max:
                counts.verdict(COPY_GREW_OLD)
            self._runs_ms.append(now_ms)

    def _over(self, result: object, error: Exception | None) -> None:
        if error is not None and not isinstance(error, SemelError):
            raise error
        self.ended_ms = self._around.scheduler.elapsed_ms
        self._around.trace.note(
            self.name, f"ends: {'in order' if error is None else f'{type(error).__name__}: {error}'}"
        )
        self.worker.die()
        self._on_end(self, error)
