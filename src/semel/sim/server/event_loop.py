"""One server process's event loop and threads, in simulated time.

Invariants: callbacks run one at a time; what one of them puts off to the next turn runs behind it in the same
millisecond. While a thread works on files the loop goes on: what arrives meanwhile is handled INSIDE the disk's fsync,
as by the other thread it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from semel.server.event_loop import Timer
from semel.sim.world.network import Link
from semel.sim.world.scheduler import Event

Later = Callable[[int, Callable[[], None]], Event]  # in so many ms, if the process lives then


class SimulatedLoop:
    """Its turns are taken by :meth:`enter`: whatever comes to the process comes through that."""

    def __init__(self, later: Later, now_ms: Callable[[], int]) -> None:
        self._later = later
        self._now_ms = now_ms
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def time(self) -> float:
        return self._now_ms() / 1000

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._ready.append((callback, args))

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return self._later(round(delay * 1000), lambda: self.enter(callback, *args))

    def enter(self, callback: Callable[..., object], *args: Any) -> None:
        """Run it, and the turns behind it until nothing is left to do."""
        callback(*args)
        self._end_turn()

    def enter_busily(self, turn_ms: int, callback: Callable[..., object], *args: Any) -> None:
        """The same in a turn that takes so long: what comes meanwhile may be of it, too."""
        callback(*args)
        if self._ready:
            self._later(turn_ms, self._end_turn)

    def _end_turn(self) -> None:
        while self._ready:
            callback, args = self._ready.popleft()
            callback(*args)


class Meanwhile:
    """What arrives while threads work on files: part of it is held back until one of them syncs.

    ``deliver(link, data)`` is one read of a connection.
    """

    def __init__(self, loop: SimulatedLoop, deliver: Callable[[Link, bytes], None]) -> None:
        self._loop = loop
        self._deliver = deliver
        self._held_back: deque[tuple[Link, bytes]] = deque()
        self._in_thread = False
        self.working = 0  # threads that have begun, or are about to

    def arrive(self, link: Link, data: bytes, *, turn_ms: int, may_wait: bool) -> None:
        """At once, or held back if ``may_wait`` or others are held back already."""
        if self.working and (may_wait or self._held_back):
            self._held_back.append((link, data))
        else:
            self._loop.enter_busily(turn_ms, self._deliver, link, data)

    def work(self, work: Callable[[], object]) -> None:
        """In a thread."""
        self._in_thread = True
        work()
        self._in_thread = False

    def inside_sync(self) -> None:
        """The disk is at work: is it for a thread, and not for the loop itself?"""
        if self._in_thread:
            self._in_thread = False
            self._let_arrive()
            self._in_thread = True

    def ended(self) -> None:
        """One thread less; what is still held back comes, each arrival for itself."""
        self.working -= 1
        while self._held_back:
            self._loop.enter(self._deliver, *self._held_back.popleft())

    def _let_arrive(self) -> None:
        """All of it, in one turn of the loop: what came on one connection comes in one read."""
        held_back, self._held_back = self._held_back, deque()

        def arrive() -> None:
            for link, pieces in groupby(held_back, itemgetter(0)):
                self._deliver(link, b"".join(data for _, data in pieces))

        self._loop.enter(arrive)


class SimulatedThreads:
    """``count`` at most; each piece of work takes ``work_ms()`` and happens at its end."""

    def __init__(
        self,
        loop: SimulatedLoop,
        later: Later,
        count: int,
        work_ms: Callable[[], int],
        meanwhile: Meanwhile | None,
    ) -> None:
        self._loop = loop
        self._later = later
        self._count: Final = count
        self._work_ms = work_ms
        self._meanwhile = meanwhile  # None: nothing is held back for this work
        self._waiting: deque[tuple[Callable[[], object], Callable[[], object]]] = deque()
        self._running = 0

    @property
    def is_idle(self) -> bool:
        return not self._running

    def run(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        self._waiting.append((work, done))
        self._start()

    def close(self) -> None:
        raise AssertionError("a simulated server is not closed: its process ends")

    def _start(self) -> None:
        while self._waiting and self._running < self._count:
            work, done = self._waiting.popleft()
            self._running += 1
            if self._meanwhile is not None:
                self._meanwhile.working += 1
            self._later(self._work_ms(), lambda work=work, done=done: self._carry_out(work, done))  # type: ignore[misc]

    def _carry_out(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        if self._meanwhile is None:
            work()
        else:
            self._meanwhile.work(work)
            self._meanwhile.ended()
        self._running -= 1
        self._start()
        self._loop.enter(done)
