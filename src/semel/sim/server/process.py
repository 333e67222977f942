"""One life of the server's process, from ready to dead: the real shell and its real connections in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from semel.errors import StorageError
from semel.server.broker import Broker
from semel.server.shell import Shell
from semel.server.storage.aside import Change
from semel.server.storage.storage import Storage
from semel.sim.server.event_loop import Later, Meanwhile, SimulatedLoop, SimulatedThreads
from semel.sim.server.transport import SimulatedTransport
from semel.sim.world.disk import Mount
from semel.sim.world.faults import Counts, Fault, FaultMix
from semel.sim.world.network import Link
from semel.types import TopicPartition

SYNC_MS_MAX: Final = 4
TURN_MS: Final = (0, 0, 1, 4)  # of the event loop; it is busy at times
COMPRESS_MS_MAX: Final = 3
SLOW_SYNC_MS: Final = (500, 60_000)
SCRATCH_BYTES: Final = 1 << 16
_COMPRESS: Final = "semel-compress"


class ServerProcess:
    """``later`` runs what is asked for only while this process lives, which may end inside."""

    def __init__(
        self,
        broker: Broker,
        mount: Mount,
        random: Random,
        counts: Counts,
        mix: Callable[[], FaultMix],
        clock: Callable[[], int],
        after_sync: Callable[[Sequence[TopicPartition]], None],
        later: Later,
        now_ms: Callable[[], int],
    ) -> None:
        self._random = random
        self._counts = counts
        self._mix = mix
        self._later = later
        self._loop = SimulatedLoop(later, now_ms)
        self._meanwhile = Meanwhile(self._loop, self._deliver)
        self._threads: list[SimulatedThreads] = []
        self._shell: Final = Shell(
            broker.settings,
            broker,
            self._loop,
            self._threads_of,
            wall_clock_ms=clock,
            now_s=lambda: 0.0,
            on_durable=after_sync,
            scratch_bytes=SCRATCH_BYTES,
        )
        self._transports: dict[Link, SimulatedTransport] = {}
        mount.meanwhile = self._meanwhile.inside_sync

    @property
    def is_idle(self) -> bool:
        """Neither a sync nor a change goes on, and nothing is compressed."""
        return self._shell.is_idle and all(threads.is_idle for threads in self._threads)

    @property
    def links(self) -> list[Link]:
        return [link for link, transport in self._transports.items() if not transport.is_closing()]

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        random = self._random
        self._meanwhile.arrive(link, data, turn_ms=random.choice(TURN_MS), may_wait=random.random() < 0.5)

    def link_closed(self, link: Link) -> None:
        transport = self._transports.get(link)
        if transport is not None:
            self._loop.enter(transport.lost)

    def maintain(self) -> None:
        """What the server's housekeeping tasks do, every few minutes and seconds."""
        self._loop.enter(self._shell.maintain, _nothing)
        self._loop.enter(self._shell.compact, _nothing)

    def expire_leases(self) -> None:
        """What the server's clock of leases does every second."""
        self._loop.enter(self._shell.expire_leases)

    def change(self, begin: Callable[[Storage], Change[object]]) -> None:
        """What an administrator has asked for somewhere else, who is told nothing."""

        async def carried_out() -> None:
            with suppress(StorageError):
                await begin(self._shell.broker.storage)

        self._loop.enter(self._shell.changes.request, carried_out, _nothing)

    def _deliver(self, link: Link, data: bytes) -> None:
        transport = self._transports.get(link)
        if transport is None:
            transport = self._transports[link] = SimulatedTransport(link, self._loop, self._shell)
        transport.deliver(data)

    def _threads_of(self, name: str, count: int) -> SimulatedThreads:
        is_compressing = name == _COMPRESS
        work_ms = self._compress_ms if is_compressing else self._sync_ms
        meanwhile = None if is_compressing else self._meanwhile
        threads = SimulatedThreads(self._loop, self._later, count, work_ms, meanwhile)
        self._threads.append(threads)
        return threads

    def _compress_ms(self) -> int:
        return self._random.randint(0, COMPRESS_MS_MAX)

    def _sync_ms(self) -> int:
        if self._counts.bites(Fault.SLOW_SYNC, self._random, self._mix().slow_sync):
            return self._random.randint(*SLOW_SYNC_MS)
        return self._random.randint(1, SYNC_MS_MAX)


def _nothing(*_: object) -> None:
    pass
