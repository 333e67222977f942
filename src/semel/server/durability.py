"""Group commit: one fdatasync of a partition serves every request that waits for it when it starts.

Invariants
- A request is told only after syncs of all its partitions that STARTED after its append have ended: while a
  partition's sync runs, newcomers collect for its next one. Partitions do not wait for each other.
- A sync that failed leaves its partition offline (the storage's rule: the page cache can no longer be
  trusted); who waited for it is told like everybody else and finds that out from the partition.
- The loop never blocks on a disk: syncs run in a few threads, one partition each.
- Nobody waits for a large producer snapshot: one more thread writes those, after the sync that they need, and
  partitions are synced meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from semel.server.event_loop import EventLoop, Threads
from semel.types import TopicPartition

log = logging.getLogger(__name__)

SYNC_THREADS: Final = 4
LATER_MS: Final = 50  # what no answer waits for goes together, and leaves the disk to what one does


class Syncable(Protocol):
    """A partition, as far as this file needs to know it."""

    @property
    def name(self) -> TopicPartition: ...

    @property
    def owes_snapshot(self) -> bool: ...

    @property
    def has_unseen(self) -> bool:
        """Whether something was appended that readers cannot see before a sync."""

    def sync(self) -> None:
        """Make durable what was appended before the call; on failure the partition goes offline."""

    def write_snapshot(self) -> None:
        """Write the snapshot that it owes. Syncs may go on meanwhile."""


class _Waiter:
    """Somebody who is told when the last of its partitions is synced."""

    __slots__ = ("done", "partitions_left")

    def __init__(self, done: Callable[[], None], partitions: int) -> None:
        self.done = done
        self.partitions_left = partitions


class _Line:
    """One partition's line: who waits for the sync that runs, and who for the next."""

    __slots__ = ("_ended", "_now_s", "is_due", "is_running", "next", "now", "partition", "seconds")

    def __init__(
        self, partition: Syncable, now_s: Callable[[], float], ended: Callable[[_Line], None]
    ) -> None:
        self.partition: Final = partition
        self._now_s = now_s
        self._ended = ended
        self.is_due = False
        self.is_running = False
        self.now: list[_Waiter] = []
        self.next: list[_Waiter] = []
        self.seconds = 0.0  # that the last sync took

    def sync(self) -> None:
        """In a thread."""
        began_s = self._now_s()
        self.partition.sync()
        self.seconds = self._now_s() - began_s

    def ended(self) -> None:
        self._ended(self)


class GroupCommit:
    """The waiting lines before the disk."""

    def __init__(
        self,
        loop: EventLoop,
        syncing: Threads,
        snapshots: Threads,
        on_durable: Callable[[Sequence[TopicPartition]], None],
        observe_seconds: Callable[[float], None],
        now_s: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._syncing = syncing
        self._snapshots = snapshots
        self._on_durable = on_durable
        self._observe_seconds = observe_seconds
        self._now_s = now_s  # read in threads
        self._lines: dict[Syncable, _Line] = {}  # those that are due or running
        self._starting: list[_Line] = []
        self._to_write: set[Syncable] = set()  # whose snapshots wait for their thread
        self._when_idle: list[Callable[[], None]] = []
        self._later: dict[Syncable, None] = {}  # to be synced when the time comes, unless they are before

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for a sync."""
        return not self._lines

    def request(self, partitions: Iterable[Syncable], done: Callable[[], None] | None) -> None:
        """Sync ``partitions`` soon, then call ``done``."""
        asked = dict.fromkeys(partitions)
        waiter = None if done is None else _Waiter(done, len(asked))
        if not asked:
            if waiter is not None:
                self._loop.call_soon(_tell, waiter)
            return
        for partition in asked:
            line = self._lines.get(partition)
            if line is None:
                line = self._lines[partition] = _Line(partition, self._now_s, self._end)
            if waiter is not None:
                line.next.append(waiter)
            if not line.is_due:
                line.is_due = True
                if not line.is_running:
                    self._start_soon(line)

    def request_later(self, partitions: Iterable[Syncable]) -> None:
        """Sync ``partitions`` within :data:`LATER_MS`."""
        if not self._later:
            self._loop.call_later(LATER_MS / 1000, self._sync_later)
        self._later.update(dict.fromkeys(partitions))

    def _sync_later(self) -> None:
        due, self._later = self._later, {}
        self.request([partition for partition in due if partition.has_unseen], None)

    def drain(self, done: Callable[[], None]) -> None:
        """Call ``done`` once nothing waits."""
        if self._lines:
            self._when_idle.append(done)
        else:
            done()

    def _start_soon(self, line: _Line) -> None:
        """Not at once: what else arrives in this turn of the loop joins the sync."""
        if not self._starting:
            self._loop.call_soon(self._start)
        self._starting.append(line)

    def _start(self) -> None:
        starting, self._starting = self._starting, []
        for line in starting:
            line.is_due, line.is_running = False, True
            line.now, line.next = line.next, []
            self._syncing.run(line.sync, line.ended)

    def _end(self, line: _Line) -> None:
        """A sync has ended: tell who waited for it, and go on with who came meanwhile."""
        line.is_running = False
        self._observe_seconds(line.seconds)
        waiters, line.now = line.now, []
        if line.is_due:
            self._start_soon(line)
        else:
            del self._lines[line.partition]
        if line.partition.owes_snapshot:
            self._write_snapshot(line.partition)
        self._on_durable((line.partition.name,))
        for waiter in waiters:
            _tell(waiter)
        if not self._lines:
            idle, self._when_idle = self._when_idle, []
            for done in idle:
                done()

    def _write_snapshot(self, partition: Syncable) -> None:
        def write() -> None:
            self._to_write.discard(partition)  # before the work: what becomes due meanwhile comes again
            partition.write_snapshot()

        if partition not in self._to_write:
            self._to_write.add(partition)
            self._snapshots.run(write, _nothing)


def _nothing() -> None:
    pass


def _tell(waiter: _Waiter) -> None:
    waiter.partitions_left -= 1
    if waiter.partitions_left > 0:
        return
    try:
        waiter.done()
    except Exception:  # the others must still be told
        log.exception("an answer after a sync failed")
