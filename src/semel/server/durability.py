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

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final, Protocol

from semel.types import TopicPartition

log = logging.getLogger(__name__)

SYNC_THREADS: Final = 4


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

    __slots__ = ("is_due", "is_running", "next", "now", "partition", "seconds")

    def __init__(self, partition: Syncable) -> None:
        self.partition: Final = partition
        self.is_due = False
        self.is_running = False
        self.now: list[_Waiter] = []
        self.next: list[_Waiter] = []
        self.seconds = 0.0  # that the last sync took


class GroupCommit:
    """The waiting lines before the disk."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Sequence[TopicPartition]], None],
        observe_seconds: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._on_durable = on_durable
        self._observe_seconds = observe_seconds
        self._lines: dict[Syncable, _Line] = {}  # those that are due or running
        self._starting: list[_Line] = []
        self._idle = asyncio.Event()
        self._idle.set()
        # A pool of futures would cost more than the syncs of small appends do.
        self._threads: list[Thread] = []
        self._to_sync: SimpleQueue[_Line | None] = SimpleQueue()
        self._snapshots = _Snapshots()
        self._synced: deque[_Line] = deque()
        self._will_tell = False

    def request(self, partitions: Iterable[Syncable], done: Callable[[], None] | None) -> None:
        """Sync ``partitions`` soon, then call ``done``."""
        asked = dict.fromkeys(partitions)
        waiter = None if done is None else _Waiter(done, len(asked))
        if not asked:
            if waiter is not None:
                self._loop.call_soon(_tell, waiter)
            return
        self._idle.clear()
        for partition in asked:
            line = self._lines.get(partition)
            if line is None:
                line = self._lines[partition] = _Line(partition)
            if waiter is not None:
                line.next.append(waiter)
            if not line.is_due:
                line.is_due = True
                if not line.is_running:
                    self._start_soon(line)

    async def drain(self) -> None:
        """Wait until nothing waits."""
        await self._idle.wait()

    def close(self) -> None:
        for _ in self._threads:
            self._to_sync.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._snapshots.close()

    def _start_soon(self, line: _Line) -> None:
        """Not at once: what else arrives in this turn of the loop joins the sync."""
        if not self._starting:
            self._loop.call_soon(self._start)
        self._starting.append(line)

    def _start(self) -> None:
        starting, self._starting = self._starting, []
        while len(self._threads) < min(SYNC_THREADS, len(self._lines)):
            thread = Thread(target=self._work, name=f"semel-sync-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        for line in starting:
            line.is_due, line.is_running = False, True
            line.now, line.next = line.next, []
            self._to_sync.put(line)

    def _work(self) -> None:
        """In a thread."""
        while (line := self._to_sync.get()) is not None:
            began_s = time.perf_counter()
            try:
                line.partition.sync()
            except Exception:
                log.exception("syncing %s failed", line.partition.name)
            line.seconds = time.perf_counter() - began_s
            self._synced.append(line)
            if line.partition.owes_snapshot:
                self._snapshots.write_soon(line.partition)
            if not self._will_tell:  # one call for all that end before it runs
                self._will_tell = True
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """Some syncs have ended: tell who waited for them, and go on with who came meanwhile."""
        self._will_tell = False  # before looking: a sync that ends from now on calls again
        waiters: list[_Waiter] = []
        durable: list[TopicPartition] = []
        while self._synced:
            line = self._synced.popleft()
            line.is_running = False
            self._observe_seconds(line.seconds)
            durable.append(line.partition.name)
            waiters += line.now
            line.now = []
            if line.is_due:
                self._start_soon(line)
            else:
                del self._lines[line.partition]
        self._on_durable(durable)
        for waiter in waiters:
            _tell(waiter)
        if not self._lines:
            self._idle.set()


class _Snapshots:
    """Writes the large snapshots, one after the other, in a thread that begins with the first."""

    def __init__(self) -> None:
        self._due: SimpleQueue[Syncable | None] = SimpleQueue()
        self._waiting: set[Syncable] = set()
        self._begin = Lock()
        self._thread: Thread | None = None

    def write_soon(self, partition: Syncable) -> None:
        """In any thread."""
        with self._begin:
            if partition in self._waiting:
                return
            self._waiting.add(partition)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="semel-snapshots", daemon=True)
                self._thread.start()
        self._due.put(partition)

    def close(self) -> None:
        """Once those are written that are due."""
        if self._thread is not None:
            self._due.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (partition := self._due.get()) is not None:
            self._waiting.discard(partition)  # before the work: what becomes due meanwhile comes again
            try:
                partition.write_snapshot()
            except Exception:
                log.exception("the producer snapshot of %s failed", partition.name)


def _tell(waiter: _Waiter) -> None:
    waiter.partitions_left -= 1
    if waiter.partitions_left > 0:
        return
    try:
        waiter.done()
    except Exception:  # the others must still be told
        log.exception("an answer after a sync failed")
