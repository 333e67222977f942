"""The listening socket and what all connections share: bounds, scratch buffer, lines, parked fetches.

Invariants: connections are bounded in all and per address; an idle connection, or one whose frame does not
arrive in time, is closed by a sweep that costs nothing per request. While others wait for room, so is one
that holds room and makes no use of it. Stopping answers what is open first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from typing import Final

from semel.config import Address, ServerSettings
from semel.server.bounded_log import BoundedLog
from semel.server.broker import Broker
from semel.server.budget import Budget
from semel.server.changes import Changes
from semel.server.connection import Connection
from semel.server.durability import GroupCommit
from semel.server.frame_pool import FramePool
from semel.server.free_space import CHECK_S, FreeSpace
from semel.server.offenders import Offenders
from semel.server.parked import ParkedFetches
from semel.server.storage.partition import Partition

log = logging.getLogger(__name__)

SCRATCH_BYTES: Final = 256 * 1024
FRAME_POOL_BYTES: Final = 16 * 1024 * 1024
_BACKLOG: Final = 512
_SWEEP_S: Final = 1.0
_LEASE_TICK_S: Final = 1.0


class Listener:
    """One server's network side."""

    def __init__(self, settings: ServerSettings, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self.settings: Final = settings
        self.address = settings.listen  # with the port that was taken, once it listens
        self.broker: Final = broker
        self.loop: Final = loop
        self.scratch: Final = memoryview(bytearray(SCRATCH_BYTES))
        self.frame_pool: Final = FramePool(FRAME_POOL_BYTES)
        self.budget: Final = Budget(settings.queued_max_request_bytes, self._on_release)
        self.parked: Final = ParkedFetches(loop)
        self.durability: Final = GroupCommit(loop, self.parked.wake, broker.counters.observe_sync_seconds)
        self.changes: Final = Changes(loop)
        self.compressing: Final = Changes(loop, thread_name="semel-compress")
        self.lines: Final = BoundedLog(log, loop.time)
        self.offenders: Final = Offenders(loop)
        self.free_space: Final = FreeSpace(settings.data_dir, settings.data_dir_free_bytes_low)
        self.held_up: Final[set[Connection]] = set()  # wait for the budget
        self.connections: Final[set[Connection]] = set()
        self._per_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._space_watch: asyncio.Task[None] | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._lease_clock: asyncio.Task[None] | None = None
        self._resume_scheduled = False
        self._none_left = asyncio.Event()
        self._none_left.set()
        broker.when_readable(self.parked.wake)
        broker.when_storage_fails(self._storage_failed)

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def start(self) -> Address:
        """Listen; the address with the port that was taken."""
        listen = self.settings.listen
        self._server = await self.loop.create_server(
            lambda: Connection(self), listen.host, listen.port, backlog=_BACKLOG
        )
        self._sweeper = self.loop.create_task(self._sweep())
        self._space_watch = self.loop.create_task(self._watch_space())
        self._upkeep = self.loop.create_task(self._maintain())
        self._lease_clock = self.loop.create_task(self._expire_leases())
        port: int = self._server.sockets[0].getsockname()[1]
        self.address = Address(listen.host, port)
        return self.address

    async def stop(self) -> None:
        """Accept nothing new, answer what is open within ``max.shutdown.ms``, close."""
        assert self._server is not None
        for task in (self._sweeper, self._space_watch, self._upkeep, self._lease_clock):
            if task is not None:
                task.cancel()
        self._server.close()
        self.offenders.let_all_go()
        self.parked.expire_all()
        for connection in list(self.connections):
            connection.close_when_answered()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_max_ms / 1000):
                await self._none_left.wait()
        for connection in list(self.connections):
            connection.close("the server stops")
        await self.compressing.close()
        await self.changes.close()
        await self.durability.drain()
        self.durability.close()
        self.lines.sum_up(at_once=True)

    # -- the connections' side

    def admit(self, connection: Connection) -> str | None:
        """Count a new connection in; or say why it cannot be."""
        host = connection.peer_host
        if len(self.connections) >= self.settings.connections_max and not self._make_room(None):
            self.broker.counters.connections_refused += 1
            return f"max.connections is {self.settings.connections_max}"
        if self._per_address[host] >= self.settings.connections_per_ip_max and not self._make_room(host):
            self.broker.counters.connections_refused += 1
            return f"max.connections.per.ip is {self.settings.connections_per_ip_max}"
        self.connections.add(connection)
        self._none_left.clear()
        self._per_address[host] += 1
        return None

    def _make_room(self, host: str | None) -> bool:
        """For a new connection, at the cost of one that is held for an offence."""
        held = self.offenders.make_room(host)
        if isinstance(held, Connection):
            self.forget(held)
        return held is not None

    def forget(self, connection: Connection) -> None:
        self.offenders.forget(connection)
        if connection in self.connections:
            self.connections.discard(connection)
            self.held_up.discard(connection)
            if not self.connections:
                self._none_left.set()
            self._per_address[connection.peer_host] -= 1
            if not self._per_address[connection.peer_host]:
                del self._per_address[connection.peer_host]

    # -- within

    def _on_release(self) -> None:
        if self.held_up and not self._resume_scheduled:
            self._resume_scheduled = True
            self.loop.call_soon(self._resume_held_up)

    def _resume_held_up(self) -> None:
        self._resume_scheduled = False
        # Who is known and wants little first: whoever claims much and sends little keeps only his like waiting.
        held_up = sorted(self.held_up, key=lambda connection: connection.place_in_line)
        self.held_up.clear()
        for connection in held_up:
            connection.resume()

    async def _sweep(self) -> None:
        idle_s = self.settings.connections_max_idle_ms / 1000
        arrival_s = self.settings.frame_arrival_max_ms / 1000
        period_s = min(_SWEEP_S, idle_s / 4, arrival_s / 4)
        while True:
            await asyncio.sleep(period_s)
            now_s = self.loop.time()
            self.lines.sum_up()
            for partition in self.broker.forget_room_again():
                self.lines.tell(logging.INFO, "", "room", f"{partition.name} is written again")
            requests_wait = bool(self.held_up) and self.budget.requests_are_tight
            answers_wait = self.budget.answers_are_tight
            for connection in list(self.connections):
                started_at_s = connection.frame_started_at_s
                if requests_wait and connection.lags(now_s, arrival_s):
                    connection.close("its request comes in too slowly while others wait for room")
                elif answers_wait and connection.is_deaf(now_s, arrival_s):
                    connection.close(f"it took nothing of its answers for {arrival_s:g} s while others wait")
                elif started_at_s is not None and now_s - started_at_s > arrival_s:
                    connection.close(f"a request did not arrive within {arrival_s:g} s")
                elif now_s - connection.active_at_s > idle_s and not connection.owes_answers:
                    connection.close(f"idle for {idle_s:g} s")

    async def _watch_space(self) -> None:
        while True:
            self.free_space.look()
            await asyncio.sleep(CHECK_S)

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
        self.lines.tell(logging.ERROR, "", cause, text)

    async def _expire_leases(self) -> None:
        producer_ids = self.broker.storage.producer_ids
        period_s = min(_LEASE_TICK_S, self.settings.producer_lease_ms / 4000)
        while True:
            await asyncio.sleep(period_s)
            try:
                to_sync = producer_ids.expire_leases(self.wall_clock_ms())
                if to_sync is not None:
                    self.durability.request([to_sync.partition], producer_ids.judge_by_log)
            except Exception:
                log.exception("no lease expired; the next round tries again")

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(self.settings.log_retention_check_interval_ms / 1000)
            try:
                for begin in self.broker.storage.upkeep(self.wall_clock_ms()):
                    await self.changes.carry_out(begin)
                # Where the page cache is trusted nothing else syncs, and a restart would scan all of it.
                self.durability.request([one for one in self.broker.storage if one.needs_sync], None)
            except Exception:
                log.exception("retention failed; the next round tries again")
