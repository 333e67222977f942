"""Group commit: one round of fdatasync serves every request that waits when it starts.

Invariants
- A request is told only after a sync that STARTED after its append has ended: while a round runs, newcomers
  collect for the next one.
- A sync that failed leaves its partition offline (the storage's rule: the page cache can no longer be
  trusted); who waited for it is told like everybody else and finds that out from the partition.
- The loop never blocks on a disk: syncs run in a few threads, one partition each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from semel.types import TopicPartition

log = logging.getLogger(__name__)

SYNC_THREADS: Final = 4


class Syncable(Protocol):
    """A partition, as far as this file needs to know it."""

    @property
    def name(self) -> TopicPartition: ...

    def sync(self) -> None:
        """Make durable what was appended before the call; on failure the partition goes offline."""


class GroupCommit:
    """The waiting line before the disk."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Sequence[TopicPartition]], None],
        observe_seconds: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._on_durable = on_durable
        self._observe_seconds = observe_seconds
        self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="semel-sync")
        self._dirty: dict[Syncable, None] = {}
        self._waiting: list[Callable[[], None]] = []
        self._round: tuple[list[Syncable], list[Callable[[], None]]] = ([], [])
        self._scheduled = False
        self._running = 0  # syncs of the current round that have not ended
        self._began_s = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    def request(self, partitions: Iterable[Syncable], done: Callable[[], None] | None) -> None:
        """Sync ``partitions`` soon, then call ``done``."""
        self._dirty.update(dict.fromkeys(partitions))
        if done is not None:
            self._waiting.append(done)
        if not self._scheduled and not self._running:
            # Not at once: what else arrives in this turn of the loop joins the round.
            self._scheduled = True
            self._idle.clear()
            self._loop.call_soon(self._start)

    async def drain(self) -> None:
        """Wait until nothing waits."""
        await self._idle.wait()

    def close(self) -> None:
        self._threads.shutdown(wait=True)

    def _start(self) -> None:
        self._scheduled = False
        dirty, self._dirty = list(self._dirty), {}
        waiting, self._waiting = self._waiting, []
        self._round = dirty, waiting
        self._began_s = time.perf_counter()
        self._running = max(len(dirty), 1)
        for partition in dirty:
            self._threads.submit(self._sync, partition)
        if not dirty:
            self._ended()

    def _sync(self, partition: Syncable) -> None:
        """In a thread."""
        try:
            partition.sync()
        except Exception:
            log.exception("syncing %s failed", partition.name)
        self._loop.call_soon_threadsafe(self._ended)

    def _ended(self) -> None:
        """One sync of the round has ended; with the last one, tell everybody."""
        self._running -= 1
        if self._running:
            return
        (dirty, waiting), self._round = self._round, ([], [])
        if dirty:
            self._observe_seconds(time.perf_counter() - self._began_s)
            self._on_durable([partition.name for partition in dirty])
        for done in waiting:
            try:
                done()
            except Exception:  # the others must still be told
                log.exception("an answer after a sync failed")
        if self._scheduled:
            return
        if self._dirty or self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._start)
        else:
            self._idle.set()
