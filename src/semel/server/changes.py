"""The line of changes: topics made and deleted, logs trimmed and kept small, one after another.

A second such line is that of the batches that are compressed again: they change only the end of their logs, so that
the two go on beside each other.

Invariants
- One change is under way at a time, in the order in which they were asked for; that is what makes a change safe
  (:mod:`semel.server.storage.aside`), and nobody but those who want one waits in this line.
- What a change puts aside runs in one thread; the loop goes on meanwhile.
- A change that has begun is carried out to its end, also while the server stops. The others are never begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

from semel.server.storage.aside import Change

log = logging.getLogger(__name__)

T = TypeVar("T")
_Waiting: TypeAlias = tuple[Callable[[], Change[Any]], Callable[[Any], None]]


class Changes:
    """Who waits for a turn, and whose turn it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, thread_name: str = "semel-change") -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        self._waiting: deque[_Waiting] = deque()
        self._work: asyncio.Task[None] | None = None

    def request(self, begin: Callable[[], Change[T]], done: Callable[[T | None], None]) -> None:
        """Carry a change out in its turn, then call ``done``; with ``None`` when a defect ended it."""
        self._waiting.append((begin, done))
        if self._work is None:
            self._work = self._loop.create_task(self._go_on())

    async def carry_out(self, begin: Callable[[], Change[T]]) -> None:
        """The same, for who has nothing else to do meanwhile."""
        ended = asyncio.Event()
        self.request(begin, lambda _: ended.set())
        await ended.wait()

    async def close(self) -> None:
        """Begin no other change, and wait for the one that is under way."""
        self._waiting.clear()
        if self._work is not None:
            await self._work
        self._thread.shutdown()

    async def _go_on(self) -> None:
        while self._waiting:
            begin, done = self._waiting.popleft()
            try:
                done(await self._carried_out(begin()))
            except Exception:  # those behind it must still have their turn
                log.exception("a change failed")
                done(None)
        self._work = None

    async def _carried_out(self, change: Change[T]) -> T:
        while True:
            try:
                work = change.send(None)
            except StopIteration as ended:
                result: T = ended.value
                return result
            await self._loop.run_in_executor(self._thread, work.run)
