"""What all connections of one server share: bounds, the turn, the lines before the disk, delayed operations.

It knows asyncio by the few calls of an event loop only, so that the simulator drives it, and the connections, as they
are.

Invariants: connections are bounded in all and per address; an idle connection, or one whose frame does not
arrive in time, is closed by a sweep that costs nothing per request. While others wait for room, so is one
that holds room and makes no use of it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from semel.config import ServerSettings
from semel.server.arriving import Arriving
from semel.server.bounded_log import BoundedLog
from semel.server.broker import Broker
from semel.server.budget import Budget
from semel.server.changes import Changes, ChangesByTopic
from semel.server.durability import SYNC_THREADS, GroupCommit
from semel.server.event_loop import EventLoop, Threads, Timer
from semel.server.frame_pool import FramePool
from semel.server.offenders import Held, Offenders
from semel.server.operations import Operations
from semel.server.purgatory import Purgatory
from semel.server.storage.aside import Change
from semel.server.turn import Turn
from semel.types import TopicPartition

log = logging.getLogger(__name__)

SCRATCH_BYTES: Final = 256 * 1024
FRAME_POOL_BYTES: Final = 16 * 1024 * 1024


class Connected(Held, Protocol):
    """A connection, as far as this file needs to know it."""

    active_at_s: float

    def close(self, reason: str) -> None: ...

    def close_when_answered(self) -> None: ...

    def resume(self) -> None: ...

    @property
    def arriving(self) -> Arriving: ...

    @property
    def owes_answers(self) -> bool: ...

    @property
    def place_in_line(self) -> tuple[bool, int]: ...

    def is_deaf(self, now_s: float, patience_s: float) -> bool: ...


class _Alarm:
    """Calls a coordinator when its earliest deadline is due; what it is told last counts."""

    def __init__(self, loop: EventLoop, tick: Callable[[], None]) -> None:
        self._loop, self._tick = loop, tick
        self._timer: Timer | None = None

    def ring_in(self, delay_ms: int) -> None:
        self.cancel()
        # A millisecond more than is left: the two clocks need not agree on fractions of one.
        self._timer = self._loop.call_later((delay_ms + 1) / 1000, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._tick()


class Shell:
    """One server's: everything between its sockets and its broker.

    ``threads(name, count)`` are threads of that name, ``count`` at most; ``now_s`` is a clock for durations, which they
    may read; ``on_durable`` hears first what was synced.
    """

    def __init__(
        self,
        settings: ServerSettings,
        broker: Broker,
        loop: EventLoop,
        threads: Callable[[str, int], Threads],
        *,
        wall_clock_ms: Callable[[], int],
        now_s: Callable[[], float],
        on_durable: Callable[[Sequence[TopicPartition]], None] | None = None,
        scratch_bytes: int = SCRATCH_BYTES,
    ) -> None:
        self.settings: Final = settings
        self.broker: Final = broker
        self.loop: Final = loop
        self.wall_clock_ms: Final = wall_clock_ms
        self.frame_pool: Final = FramePool(FRAME_POOL_BYTES)
        self.budget: Final = Budget(settings.queued_max_request_bytes, self._on_release)
        self.purgatory: Final = Purgatory(loop)
        syncing, snapshots = threads("semel-sync", SYNC_THREADS), threads("semel-snapshots", 1)
        changing, compressing = threads("semel-change", 1), threads("semel-compress", 1)
        self._threads: Final = (syncing, snapshots, changing, compressing)
        self.durability: Final = GroupCommit(
            loop, syncing, snapshots, self._synced, broker.counters.observe_sync_seconds, now_s
        )
        self.changes: Final = Changes(loop, changing)
        self.compressing: Final = ChangesByTopic(loop, compressing)
        self.operations: Final = Operations(self.durability, self.purgatory, self.changes, changing)
        self.lines: Final = BoundedLog(log, loop.time)
        self.turn: Final = Turn(broker, loop, wall_clock_ms, self.lines, scratch_bytes)
        self.offenders: Final = Offenders(loop)
        self.held_up: Final[dict[Connected, None]] = {}  # wait for the budget
        self.connections: Final[dict[Connected, None]] = {}
        self._per_address: Counter[str] = Counter()
        self._when_none_left: list[Callable[[], None]] = []
        self._resume_scheduled = False
        self._on_durable = on_durable
        broker.when_readable(self.purgatory.wake)
        broker.coordinator.when_happened(self.purgatory.wake)
        broker.coordinator.write_in(loop.call_soon)
        groups = _Alarm(loop, lambda: broker.coordinator.tick(wall_clock_ms()))
        broker.coordinator.when_due(groups.ring_in)
        broker.transactions.when_happened(self.purgatory.wake)
        broker.transactions.carry_out_by(lambda steps: self.operations.begin(steps, lambda _: None))
        broker.transactions.recover(broker.storage, wall_clock_ms())
        transactions = _Alarm(loop, lambda: broker.transactions.tick(wall_clock_ms()))
        broker.transactions.when_due(transactions.ring_in)
        self._alarms: Final = (groups, transactions)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for a thread."""
        return self.durability.is_idle and self.changes.is_idle and self.compressing.is_idle

    def _synced(self, partitions: Sequence[TopicPartition]) -> None:
        if self._on_durable is not None:
            self._on_durable(partitions)
        self.purgatory.wake(partitions)

    # -- the connections' side

    def admit(self, connection: Connected) -> str | None:
        """Count a new connection in; or say why it cannot be."""
        host, settings = connection.peer_host, self.broker.settings
        if len(self.connections) >= settings.connections_max and not self.offenders.make_room(None):
            self.broker.counters.connections_refused += 1
            return f"max.connections is {settings.connections_max}"
        if self._per_address[host] >= settings.connections_per_ip_max and not self.offenders.make_room(host):
            self.broker.counters.connections_refused += 1
            return f"max.connections.per.ip is {settings.connections_per_ip_max}"
        self.connections[connection] = None
        self._per_address[host] += 1
        return None

    def forget(self, connection: Connected) -> None:
        """It has gone; also twice."""
        self.offenders.forget(connection)
        if connection not in self.connections:
            return
        del self.connections[connection]
        self.held_up.pop(connection, None)
        self._per_address[connection.peer_host] -= 1
        if not self._per_address[connection.peer_host]:
            del self._per_address[connection.peer_host]
        self._look_for_the_last()

    # -- the clock's side

    def sweep(self) -> None:
        """Close who is idle, or slow while others wait. Once a second or so."""
        idle_s = self.settings.connections_max_idle_ms / 1000
        arrival_s = self.settings.frame_arrival_max_ms / 1000
        now_s = self.loop.time()
        self.lines.sum_up()
        for partition in self.broker.forget_room_again():
            self.lines.tell(logging.INFO, "", "room", f"{partition.name} is written again")
        requests_wait = bool(self.held_up) and self.budget.requests_are_tight
        answers_wait = self.budget.answers_are_tight
        for connection in list(self.connections):
            started_at_s = connection.arriving.started_at_s
            if requests_wait and connection.arriving.lags(now_s, arrival_s):
                connection.close("its request comes in too slowly while others wait for room")
            elif answers_wait and connection.is_deaf(now_s, arrival_s):
                connection.close(f"it took nothing of its answers for {arrival_s:g} s while others wait")
            elif started_at_s is not None and now_s - started_at_s > arrival_s:
                connection.close(f"a request did not arrive within {arrival_s:g} s")
            elif now_s - connection.active_at_s > idle_s and not connection.owes_answers:
                connection.close(f"idle for {idle_s:g} s")

    def expire_leases(self) -> None:
        """Log which leases are over by now, and judge by it once it is synced."""
        producer_ids = self.broker.storage.producer_ids
        to_sync = producer_ids.expire_leases(self.wall_clock_ms())
        if to_sync is not None:
            self.durability.request([to_sync.partition], producer_ids.judge_by_log)

    def maintain(self, done: Callable[[], None]) -> None:
        """Retention, forgotten producers."""

        def sync() -> None:
            # Where the page cache is trusted nothing else syncs, and a restart would scan all of it.
            self.durability.request([one for one in self.broker.storage if one.needs_sync], None)
            done()

        self._carry_out(self.broker.storage.upkeep(self.wall_clock_ms()), sync)

    def compact(self, done: Callable[[], None]) -> None:
        """The logs of which that is due."""

        def tell() -> None:
            self._tell_of_the_cleaner()
            done()

        self._carry_out(self.broker.storage.compaction(self.wall_clock_ms()), tell)

    def _carry_out(self, changes: Iterator[Callable[[], Change[object]]], done: Callable[[], None]) -> None:
        """One after another, with others between them."""

        def go_on(_: object) -> None:
            begin = next(changes, None)
            if begin is None:
                done()
            else:
                self.changes.request(begin, go_on)

        go_on(None)

    def _tell_of_the_cleaner(self) -> None:
        """A log that could not be compacted says so, once."""
        untold = self.broker.storage.cleaner.untold
        while untold:
            failure = untold.popleft()
            again = "it is left alone until a restart" if failure.is_final else "it is tried again"
            reason = f"{failure.partition} could not be compacted; {again}: {failure.reason}"
            self.lines.tell(logging.WARNING, "", "compaction", reason)

    # -- the end

    def stop(self, done: Callable[[], None]) -> None:
        """Read no more and answer what is open, then call ``done``."""
        self.offenders.let_all_go()
        self.purgatory.expire_all()
        self._when_none_left.append(done)
        for connection in list(self.connections):
            connection.close_when_answered()
        self._look_for_the_last()

    def drain(self, done: Callable[[], None]) -> None:
        """Close who is left, begin no other change, and call ``done`` when nothing waits for the disk."""
        for connection in list(self.connections):
            connection.close("the server stops")
        self.turn.end()
        self.operations.close()
        self.broker.coordinator.when_due(lambda delay_ms: None)
        self.broker.transactions.when_due(lambda delay_ms: None)
        for alarm in self._alarms:
            alarm.cancel()
        self.compressing.close(lambda: self.changes.close(lambda: self.durability.drain(done)))

    def close(self) -> None:
        """Let go of the threads; this waits for a snapshot that is being written."""
        for threads in self._threads:
            threads.close()
        self.lines.sum_up(at_once=True)

    # -- within

    def _look_for_the_last(self) -> None:
        if not self.connections:
            waiting, self._when_none_left = self._when_none_left, []
            for done in waiting:
                done()

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
