"""The event loop and the threads beside it, as far as the server's shell needs them.

asyncio's (and uvloop's) loop is one as it is; the simulator has its own loop and its own threads, in simulated time,
and drives the same shell with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol, TypeAlias

log = logging.getLogger(__name__)

_Job: TypeAlias = tuple[Callable[[], object], Callable[[], object]]


class Timer(Protocol):
    def cancel(self) -> None: ...


class EventLoop(Protocol):
    """What runs everything that touches state."""

    def time(self) -> float:
        """Seconds; only goes forward."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """In the loop's next turn."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """In ``delay`` seconds."""


class Threads(Protocol):
    """Do work beside the loop."""

    def run(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        """Do ``work`` in a thread as soon as one is free, in the order of the calls; then ``done`` on the loop."""

    def close(self) -> None:
        """Once all is done that was asked for."""


class LoopThreads:
    """Up to ``count`` threads, begun when there is work for them.

    A pool of futures would cost more than the syncs of small appends do.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, count: int) -> None:
        self._loop = loop
        self._name: Final = name
        self._count: Final = count
        self._threads: list[Thread] = []
        self._open = 0  # jobs that are not done
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended: deque[Callable[[], object]] = deque()
        self._will_tell = False

    def run(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        self._open += 1
        if len(self._threads) < min(self._count, self._open):
            thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((work, done))

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            _tried(work)
            self._ended.append(done)
            if not self._will_tell:  # one call for all that end before it runs
                self._will_tell = True
                with suppress(
                    RuntimeError
                ):  # the loop is closed: it did not wait for this, and nobody is left
                    self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._will_tell = False  # before looking: what ends from now on calls again
        while self._ended:
            self._open -= 1
            _tried(self._ended.popleft())


def _tried(action: Callable[[], object]) -> None:
    try:
        action()
    except Exception:  # a defect; the others must still have their turn
        log.exception("work beside the event loop failed")
