"""The line of changes: topics made and deleted, logs trimmed and kept small, one after another.

Batches that are compressed again have lines of their own, one for each topic (:class:`ChangesByTopic`): they change
only the end of their logs, so that all of these go on next to each other.

Invariants
- One change is under way at a time, in the order in which they were asked for; that is what makes a change safe
  (:mod:`semel.server.storage.aside`), and nobody but those who want one waits in this line.
- What a change puts aside runs in a thread; the loop goes on meanwhile.
- A change that has begun is carried out to its end, also while the server stops. The others are never begun.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from semel.server.event_loop import EventLoop, Threads
from semel.server.storage.aside import Change

log = logging.getLogger(__name__)

T = TypeVar("T")
_Waiting: TypeAlias = tuple[Callable[[], Change[Any]], Callable[[Any], None]]


class Changes:
    """Who waits for a turn, and whose turn it is."""

    def __init__(self, loop: EventLoop, threads: Threads) -> None:
        self._loop = loop
        self._threads = threads
        self._waiting: deque[_Waiting] = deque()
        self._is_due = False  # the line is looked at in the loop's next turn
        self._is_aside = False  # one waits for a thread
        self._is_closed = False
        self._when_idle: list[Callable[[], None]] = []

    @property
    def is_idle(self) -> bool:
        """Whether none has begun, or is to begin."""
        return not (self._waiting or self._is_due or self._is_aside)

    def request(self, begin: Callable[[], Change[T]], done: Callable[[T | None], None]) -> None:
        """Carry a change out in its turn, then call ``done``; with ``None`` when a defect ended it."""
        if self._is_closed:
            return
        self._waiting.append((begin, done))
        self._look_soon()

    def close(self, done: Callable[[], None]) -> None:
        """Begin no other change, and call ``done`` once the one that is under way has ended."""
        self._is_closed = True
        self._waiting.clear()
        self._when_idle.append(done)
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_due and not self._is_aside:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Carry out one after the other, up to one that waits for a thread: a whole line of them may need none."""
        while self._waiting and not self._is_aside:
            begin, done = self._waiting.popleft()
            try:
                self._go_on(begin(), done)
            except Exception:
                _log_defect(done)
        self._is_due = False
        if not self._is_aside:
            idle, self._when_idle = self._when_idle, []
            for ended in idle:
                ended()

    def _go_on(self, change: Change[T], done: Callable[[T | None], None]) -> None:
        try:
            work = change.send(None)
        except StopIteration as ended:
            done(ended.value)
            return

        def worked() -> None:
            self._is_aside = False
            try:
                self._go_on(change, done)
            except Exception:
                _log_defect(done)
            if not self._is_aside:
                self._look()

        self._is_aside = True
        self._threads.run(work.run, worked)


class ChangesByTopic:
    """Lines that do not wait for each other, on the same threads: each has one piece of work there at a time, so that
    whoever keeps one line busy holds up the others for one piece, not for all that waits in it.

    Invariant: only lines that are not idle are kept when another begins; each has at least one connection's request.
    """

    def __init__(self, loop: EventLoop, threads: Threads) -> None:
        self._loop = loop
        self._threads = threads
        self._lines: dict[str, Changes] = {}
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        return all(line.is_idle for line in self._lines.values())

    def request(self, topic: str, begin: Callable[[], Change[T]], done: Callable[[T | None], None]) -> None:
        """As :meth:`Changes.request`, in the topic's line."""
        if self._is_closed:
            return
        line = self._lines.get(topic)
        if line is None:
            self._lines = {name: busy for name, busy in self._lines.items() if not busy.is_idle}
            line = self._lines[topic] = Changes(self._loop, self._threads)
        line.request(begin, done)

    def close(self, done: Callable[[], None]) -> None:
        """As :meth:`Changes.close`, of all lines."""
        self._is_closed = True
        lines = list(self._lines.values())

        def close_next() -> None:
            if lines:
                lines.pop().close(close_next)
            else:
                done()

        for line in lines:
            line.close(_nothing)
        close_next()


def _nothing() -> None:
    pass


def _log_defect(done: Callable[[Any], None]) -> None:
    """One that raises keeps nobody waiting: those behind it must still have their turn."""
    log.exception("a change failed")
    done(None)
