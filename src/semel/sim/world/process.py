"""One client process: its timers run only while it lives, late while it is stopped, and by its own clock.

A stopped process (SIGSTOP, a swapped-out machine, a long collection) sees everything that happened meanwhile
at once when it goes on: its time-outs are over, and the answers lie in its socket.

The clock by which a process counts time only goes forward, but not every machine's does so at the same pace: one
that sleeps at times counts less than passes. What it writes into a record is the time of day, which is kept right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from semel.sim.world.scheduler import Action, Event, Scheduler

EVEN_PACE: Final = 100


class Standstill:
    """The times at which a process stands still. What comes to it then waits in one line, which nothing overtakes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.until_ms = 0
        self._scheduler = scheduler
        self._line: deque[Action] = deque()

    @property
    def left_ms(self) -> int:
        return max(0, self.until_ms - self._scheduler.now_ms)

    def stop_for(self, pause_ms: int) -> None:
        """From now on; not for less than it was to stand still already."""
        self.until_ms = max(self.until_ms, self._scheduler.now_ms + pause_ms)

    def come(self, action: Action) -> None:
        """Run ``action`` at once, or behind all that waits."""
        if not self.left_ms and not self._line:
            action()
            return
        self._line.append(action)
        if len(self._line) == 1:
            self._scheduler.after(self.left_ms, self._go_on)

    def _go_on(self) -> None:
        while self._line and not self.left_ms:
            self._line.popleft()()
        if self._line:  # it was stopped once more
            self._scheduler.after(self.left_ms, self._go_on)


class _Planned:
    """What a process will do. A function that may put itself off would hold itself, and so be garbage that only
    the collector finds: at thousands of them a seed, it took a tenth of the simulator's time."""

    __slots__ = ("action", "event", "process")

    event: Event

    def __init__(self, process: Process, action: Action) -> None:
        self.process = process
        self.action = action

    def __call__(self) -> None:
        self.process.run(self)


class Process:
    """Alive until it dies; stands still at times. ``pace``: what its clock counts while 100 ms pass."""

    def __init__(self, scheduler: Scheduler, pace: int = EVEN_PACE) -> None:
        self.alive = True
        self._scheduler = scheduler
        self._pace = pace
        self._began_ms = scheduler.now_ms
        self._standstill = Standstill(scheduler)

    @property
    def now_ms(self) -> int:
        """By its own clock."""
        return self._began_ms + (self._scheduler.now_ms - self._began_ms) * self._pace // EVEN_PACE

    @property
    def time_of_day_ms(self) -> int:
        return self._scheduler.now_ms

    def stop_for(self, pause_ms: int) -> None:
        """Stand still from now on; its clock does not."""
        self._standstill.stop_for(pause_ms)

    def after(self, delay_ms: int, action: Action) -> Event:
        """Run ``action`` when its clock has counted ``delay_ms``, if the process is still alive then."""
        planned = _Planned(self, action)
        planned.event = self._scheduler.after(-(-delay_ms * EVEN_PACE // self._pace), planned)
        return planned.event

    def run(self, planned: _Planned) -> None:
        """The time of ``planned`` has come."""
        if not self.alive:
            return
        wait_ms = self._standstill.left_ms
        if wait_ms:
            self._scheduler.put_off(planned.event, wait_ms, planned)
        else:
            planned.action()

    def soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` at once, or when the process goes on, behind what came before it."""
        self._standstill.come(lambda: action() if self.alive else None)
