"""The listening socket, and what the clock asks of the shell: asyncio's side of the server.

Invariant: stopping answers what is open first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from semel.config import Address, ServerSettings
from semel.server.broker import Broker
from semel.server.connection import Connection
from semel.server.event_loop import LoopThreads
from semel.server.free_space import CHECK_S, FreeSpace
from semel.server.shell import Shell
from semel.server.storage.partition import Partition

log = logging.getLogger(__name__)

_BACKLOG: Final = 512
_SWEEP_S: Final = 1.0
_LEASE_TICK_S: Final = 1.0


class Listener:
    """One server's network side."""

    def __init__(self, settings: ServerSettings, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self.settings: Final = settings
        self.address = settings.listen  # with the port that was taken, once it listens
        self.broker: Final = broker
        self.shell: Final = Shell(
            settings,
            broker,
            loop,
            partial(LoopThreads, loop),
            wall_clock_ms=self.wall_clock_ms,
            now_s=time.perf_counter,
        )
        self.free_space: Final = FreeSpace(settings.data_dir, settings.data_dir_free_bytes_low)
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._ticking: list[asyncio.Task[None]] = []
        broker.when_storage_fails(self._storage_failed)

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def start(self) -> Address:
        """Listen; the address with the port that was taken."""
        listen, settings, shell = self.settings.listen, self.settings, self.shell
        self._server = await self._loop.create_server(
            lambda: Connection(shell), listen.host, listen.port, backlog=_BACKLOG
        )
        idle_s, arrival_s = settings.connections_max_idle_ms / 1000, settings.frame_arrival_max_ms / 1000
        self._tick(min(_SWEEP_S, idle_s / 4, arrival_s / 4), shell.sweep, "connections were not looked at")
        self._tick(CHECK_S, self.free_space.look, "free space was not looked at", at_once=True)
        lease_tick_s = min(_LEASE_TICK_S, settings.producer_lease_ms / 4000)
        self._tick(lease_tick_s, shell.expire_leases, "no lease expired")
        retention_s = settings.log_retention_check_interval_ms / 1000
        self._tick(retention_s, lambda: _end_of(shell.maintain), "retention failed")
        self._tick(self._cleaner_backoff_s, lambda: _end_of(shell.compact), "compaction failed")
        port: int = self._server.sockets[0].getsockname()[1]
        self.address = Address(listen.host, port)
        return self.address

    async def stop(self, deadline_s: float | None = None) -> bool:
        """Accept nothing new, answer what is open in half of the time until then, close; whether all has ended.

        ``deadline_s`` is by the loop's clock: in ``max.shutdown.ms`` unless it is given.
        """
        assert self._server is not None
        now_s = self._loop.time()
        if deadline_s is None:
            deadline_s = now_s + self.settings.shutdown_max_ms / 1000
        for task in self._ticking:
            task.cancel()
        self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout_at((now_s + deadline_s) / 2):
                await _end_of(self.shell.stop)
        try:
            async with asyncio.timeout_at(deadline_s):
                await _end_of(self.shell.drain)
        except TimeoutError:
            return False
        self.shell.close()
        return True

    # -- within

    def _cleaner_backoff_s(self) -> float:
        return self.broker.settings.log_cleaner_backoff_ms / 1000  # it can change meanwhile

    def _tick(
        self,
        period_s: float | Callable[[], float],
        work: Callable[[], Awaitable[None] | None],
        failed: str,
        *,
        at_once: bool = False,
    ) -> None:
        async def wait() -> None:
            await asyncio.sleep(period_s() if callable(period_s) else period_s)

        async def tick() -> None:
            if not at_once:
                await wait()
            while True:
                try:
                    ending = work()
                    if ending is not None:
                        await ending
                except Exception:
                    log.exception("%s; the next round tries again", failed)
                await wait()

        self._ticking.append(self._loop.create_task(tick()))

    def _storage_failed(self, partition: Partition | None, reason: str) -> None:
        if partition is None:
            cause = "change"
            text = (
                f"a topic could not be changed: {reason}. Whoever asked for it was told KAFKA_STORAGE_ERROR"
            )
        elif not partition.is_online:
            cause = f"offline {partition.name}"
            text = (
                f"{partition.name} is offline: {reason}. Nothing of it is read or written before the next start, "
                f"which checks what is on the disk"
            )
        else:
            self.free_space.look()
            cause = "not written"
            text = (
                f"{partition.name} cannot be written: {reason}. Producers are told KAFKA_STORAGE_ERROR and send "
                f"again, readers go on; make room in {self.settings.data_dir}, and it goes on by itself"
            )
        self.shell.lines.tell(logging.ERROR, "", cause, text)


async def _end_of(begin: Callable[[Callable[[], None]], None]) -> None:
    """Until what ``begin`` begins has called back."""
    ended = asyncio.Event()
    begin(ended.set)
    await ended.wait()
