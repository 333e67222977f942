"""The server's shell in simulated time: what connection, group commit, changes and parked fetches do with asyncio.

Invariants, those of the real shell: requests of a connection take effect in their order, and their answers leave in
it; a request waits for a sync that STARTED after its append; changes go one at a time; a parked fetch is answered
exactly once. While a thread works on files the event loop goes on: what arrives meanwhile is handled INSIDE the disk's
fsync, as by the other thread it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, Final, TypeVar

from semel.config import Address
from semel.errors import StorageError
from semel.server.broker import Broker
from semel.server.connection import REQUEST_BYTES_MIN
from semel.server.durability import Syncable
from semel.server.in_order import InOrder
from semel.server.outcome import (
    AfterSync,
    Answer,
    AnswerInFiles,
    Compressing,
    Disconnect,
    Handled,
    InTurn,
    WhenReadable,
    framed,
)
from semel.server.storage.aside import Aside, Change
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Mount
from semel.sim.world.faults import Counts, Fault, FaultMix
from semel.sim.world.network import Link
from semel.sim.world.scheduler import Event
from semel.types import TopicPartition
from semel.wire.api import ApiKey
from semel.wire.frames import INT16, INT32, LENGTH_BYTES, MalformedMessage

T = TypeVar("T")
ADDRESS: Final = Address("simulated", 9092)
ANSWER_BYTES_MAX: Final = 1 << 20
SYNC_MS_MAX: Final = 4
COMPRESS_MS_MAX: Final = 3
SLOW_SYNC_MS: Final = (500, 60_000)
_PRODUCE: Final = int(ApiKey.PRODUCE)


class _Owed:
    __slots__ = ("frame", "is_write")

    def __init__(self, *, is_write: bool) -> None:
        self.frame: bytes | None = None
        self.is_write = is_write


class _Connection:
    """One connection's bytes and the answers it is owed."""

    __slots__ = ("frames", "in_order", "is_good", "owed", "received")

    def __init__(self) -> None:
        self.is_good = False  # whether one of its requests was answered
        self.received = bytearray()
        self.frames: deque[memoryview] = deque()  # that came and have not begun
        self.in_order = InOrder()
        self.owed: deque[_Owed] = deque()


class _Parked:
    __slots__ = ("answer_with", "timer", "wait")

    def __init__(self, wait: WhenReadable, answer_with: Callable[[Answer], None]) -> None:
        self.wait = wait
        self.answer_with = answer_with
        self.timer: Event | None = None


class ServerShell:
    """One life of the server process, from ready to dead."""

    def __init__(
        self,
        broker: Broker,
        mount: Mount,
        random: Random,
        counts: Counts,
        mix: Callable[[], FaultMix],
        clock: Callable[[], int],
        after_sync: Callable[[Sequence[TopicPartition]], None],
        later: Callable[[int, Callable[[], None]], Event],
    ) -> None:
        self._broker = broker
        self._random = random
        self._clock = clock
        self._counts = counts
        self._mix = mix
        self._after_sync = after_sync
        self._later = later  # runs only while this process lives, and may lose its power inside
        self._connections: dict[Link, _Connection] = {}
        self._dropped: set[Link] = set()  # what still comes on them was never read
        self._dirty: dict[TopicPartition, Syncable] = {}
        self._waiting: list[Callable[[], None]] = []
        self._syncing = False
        self._changes: deque[Callable[[], None]] = deque()  # each begins one
        self._changing = False
        self._compressing: deque[Callable[[], None]] = deque()  # each begins one; the first has begun
        self._in_other_thread = False
        self._held_back: deque[tuple[Link, bytes]] = deque()  # to be handled inside the next fsync
        self._parked: list[_Parked] = []
        mount.meanwhile = self._meanwhile

    @property
    def is_idle(self) -> bool:
        """Neither a sync nor a change goes on, and nothing is compressed."""
        return not self._syncing and not self._changing and not self._compressing

    @property
    def links(self) -> list[Link]:
        return list(self._connections)

    # -- bytes ------------------------------------------------------------------------------------------

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        if link in self._dropped:
            return
        connection = self._connections.setdefault(link, _Connection())
        if (self._syncing or self._changing) and (self._held_back or self._random.random() < 0.5):
            self._held_back.append((link, data))
            return
        self._feed(link, connection, data)

    def link_closed(self, link: Link) -> None:
        self._connections.pop(link, None)

    def _feed(self, link: Link, connection: _Connection, data: bytes) -> None:
        connection.received += data
        while link in self._connections:
            try:
                frames = connection.frames = connection.frames or self._cut(connection)
                if not frames or not self._may_begin(link, connection, frames[0]):
                    return
                now_ms = self._clock()
                handled = self._broker.handle_next(frames, ADDRESS, now_ms, lambda: ANSWER_BYTES_MAX)
            except MalformedMessage:
                self._drop(link)
                return
            for _ in range(handled.requests):
                frames.popleft()
            connection.is_good = connection.is_good or not isinstance(handled.outcome, Disconnect)
            self._carry_out(link, connection, handled)

    def _may_begin(self, link: Link, connection: _Connection, frame: memoryview) -> bool:
        """Whether the next request may; if not, the end of one before it comes back to it."""
        in_order, is_produce = connection.in_order, INT16.unpack_from(frame)[0] == _PRODUCE
        unseen = [] if is_produce else in_order.take_unseen()
        if unseen:
            self._sync_soon(unseen, self._ending(link, connection, is_produce=False))
        return in_order.admits(is_produce)

    def _ending(self, link: Link, connection: _Connection, *, is_produce: bool) -> Callable[[], None]:
        """Begin something that others must wait for; call the result at its end."""
        connection.in_order.begin(is_produce)

        def end() -> None:
            connection.in_order.end(is_produce)
            self._feed(link, connection, b"")

        return end

    def _cut(self, connection: _Connection) -> deque[memoryview]:
        """The whole frames that have come; a client's first comes alone, for it decides how long others may be."""
        received = connection.received
        settings = self._broker.settings
        length_max = (
            settings.socket_request_max_bytes if connection.is_good else settings.first_request_max_bytes
        )
        frames: deque[memoryview] = deque()
        while len(received) >= LENGTH_BYTES and (connection.is_good or not frames):
            (length,) = INT32.unpack_from(received)
            if not REQUEST_BYTES_MIN <= length <= length_max:
                if frames:  # those before it are answered
                    break
                raise MalformedMessage(f"a request of {length} bytes")
            end = LENGTH_BYTES + length
            if len(received) < end:
                break
            frames.append(memoryview(bytearray(received[LENGTH_BYTES:end])))
            del received[:end]
        return frames

    def _drop(self, link: Link) -> None:
        self._dropped.add(link)
        self._connections.pop(link, None)
        link.close()

    def maintain(self) -> None:
        """What the server's housekeeping task does every few minutes."""
        for begin in self._broker.storage.upkeep(self._clock()):
            self._change_in_turn(begin, lambda _: None)

    def change(self, begin: Callable[[Storage], Change[object]]) -> None:
        """What an administrator has asked for somewhere else, who is told nothing."""

        async def carried_out() -> object:
            with suppress(StorageError):
                return await begin(self._broker.storage)
            return None

        self._change_in_turn(carried_out, lambda _: None)

    def expire_leases(self) -> None:
        """What the server's clock of leases does every second."""
        ids = self._broker.storage.producer_ids
        to_sync = ids.expire_leases(self._clock())
        if to_sync is not None:
            self._sync_soon([to_sync.partition], lambda: ids.judge_by_log())

    # -- outcomes ---------------------------------------------------------------------------------------

    def _carry_out(self, link: Link, connection: _Connection, handled: Handled) -> None:
        outcome = handled.outcome
        if isinstance(outcome, Disconnect):
            if outcome.behind:
                self._sync_soon(outcome.behind, None)
            self._drop(link)
            return
        if isinstance(outcome, AfterSync) and outcome.finish is None:
            connection.in_order.unanswered.update(outcome.partitions)
            self._sync_soon(outcome.partitions, None)
            if outcome.answer is not None:
                self._carry_out(link, connection, handled._replace(outcome=outcome.answer))
            return
        owed = _Owed(is_write=isinstance(outcome, AfterSync | Compressing))
        connection.owed.append(owed)

        def answer_with(answer: Answer) -> None:
            owed.frame = b"".join(framed(answer, handled))
            self._flush(link, connection)

        def end_with(answer: Answer) -> None:
            answer_with(answer)
            end()

        match outcome:
            case Answer():
                answer_with(outcome)
            case AnswerInFiles():
                answer_with(outcome.read())
            case AfterSync(partitions, finish) if finish is not None:
                end = self._ending(link, connection, is_produce=handled.api_key == _PRODUCE)
                self._sync_soon(partitions, lambda: end_with(finish()))
            case InTurn(begin):
                end = self._ending(link, connection, is_produce=False)
                self._change_in_turn(begin, end_with)
            case Compressing(begin):
                end = self._ending(link, connection, is_produce=False)

                def appended(then: Answer | AfterSync | Disconnect) -> None:
                    assert connection.owed[-1] is owed, "something began before what was in front of it"
                    connection.owed.pop()
                    self._carry_out(link, connection, handled._replace(outcome=then))
                    end()

                self._compress_in_turn(lambda: begin(self._clock), appended)
            case WhenReadable():
                parked = _Parked(outcome, answer_with)
                self._parked.append(parked)
                parked.timer = self._later(outcome.wait_ms, lambda: self._expire(parked))

    def _flush(self, link: Link, connection: _Connection) -> None:
        owed = connection.owed
        while owed and owed[0].frame is not None:
            first = owed.popleft()
            assert first.frame is not None
            link.send(first.frame, executed=first.is_write)

    # -- syncs ------------------------------------------------------------------------------------------

    def _sync_soon(self, partitions: Sequence[Syncable], done: Callable[[], None] | None) -> None:
        self._dirty.update((partition.name, partition) for partition in partitions)
        if done is not None:
            self._waiting.append(done)
        if not self._syncing:
            self._start_round()

    def _start_round(self) -> None:
        self._syncing = True
        dirty, self._dirty = self._dirty, {}
        waiting, self._waiting = self._waiting, []
        self._later(self._sync_ms(), lambda: self._round(dirty, waiting))

    def _sync_ms(self) -> int:
        if self._counts.bites(Fault.SLOW_SYNC, self._random, self._mix().slow_sync):
            return self._random.randint(*SLOW_SYNC_MS)
        return self._random.randint(1, SYNC_MS_MAX)

    def _round(self, dirty: dict[TopicPartition, Syncable], waiting: list[Callable[[], None]]) -> None:
        self._in_other_thread = True
        for partition in dirty.values():
            partition.sync()
        self._in_other_thread = False
        self._after_sync(list(dirty))
        for done in waiting:
            done()
        for parked in list(self._parked):
            answer = parked.wait.attempt(False)
            if answer is not None:
                self._unpark(parked)
                parked.answer_with(answer)
        while self._held_back:
            self._take_held_back(1)
        self._syncing = False
        if self._dirty or self._waiting:
            self._start_round()

    def _meanwhile(self) -> None:
        """What the event loop does while another thread waits for the disk."""
        if self._in_other_thread:  # else the event loop itself waits for this sync
            self._in_other_thread = False
            self._take_held_back(len(self._held_back))
            self._in_other_thread = True

    def _take_held_back(self, requests: int) -> None:
        """What came on one connection meanwhile comes in one read."""
        taken = [self._held_back.popleft() for _ in range(requests)]
        for link, pieces in groupby(taken, itemgetter(0)):
            data = b"".join(data for _, data in pieces)
            connection = self._connections.get(link)
            if connection is not None:
                self._feed(link, connection, data)

    # -- changes ----------------------------------------------------------------------------------------

    def _change_in_turn(self, begin: Callable[[], Change[T]], done: Callable[[T], None]) -> None:
        self._changes.append(lambda: self._go_on(begin(), done))
        self._run_changes()

    def _run_changes(self) -> None:
        """One after the other, up to one that waits for work aside: a whole line of them may need none."""
        while self._changes and not self._changing:
            self._changing = True
            self._changes.popleft()()

    def _go_on(self, change: Change[T], done: Callable[[T], None]) -> None:
        try:
            work = change.send(None)
        except StopIteration as ended:
            done(ended.value)
            self._changing = False
        else:
            self._later(self._sync_ms(), lambda: self._work_aside(work, change, done))

    def _work_aside(self, work: Aside[Any], change: Change[T], done: Callable[[T], None]) -> None:
        self._in_other_thread = True
        work.run()
        self._in_other_thread = False
        while self._held_back:
            self._take_held_back(1)
        self._go_on(change, done)
        self._run_changes()

    # -- batches that are compressed again ---------------------------------------------------------------

    def _compress_in_turn(self, begin: Callable[[], Change[T]], done: Callable[[T], None]) -> None:
        self._compressing.append(lambda: self._go_on_compressing(begin(), done))
        if len(self._compressing) == 1:
            self._compressing[0]()

    def _go_on_compressing(self, change: Change[T], done: Callable[[T], None]) -> None:
        """The line of changes again; but a thread that compresses holds no arrival back."""
        try:
            work = change.send(None)
        except StopIteration as ended:
            done(ended.value)
            self._compressing.popleft()
            if self._compressing:
                self._compressing[0]()
        else:

            def compressed() -> None:
                work.run()
                self._go_on_compressing(change, done)

            self._later(self._random.randint(0, COMPRESS_MS_MAX), compressed)

    # -- parked fetches ---------------------------------------------------------------------------------

    def _expire(self, parked: _Parked) -> None:
        if parked not in self._parked:
            return  # the process stood still, and something to read came first
        self._unpark(parked)
        answer = parked.wait.attempt(True)
        assert answer is not None, "the last attempt of a fetch gave no answer"
        parked.answer_with(answer)

    def _unpark(self, parked: _Parked) -> None:
        self._parked.remove(parked)
        if parked.timer is not None:
            parked.timer.cancel()
