"""One client process: its timers run only while it lives, late while it is stopped, and by its own clock.

A stopped process (SIGSTOP, a swapped-out machine, a long collection) sees everything that happened meanwhile
at once when it goes on: its time-outs are over, and the answers lie in its socket.

The clock by which a process counts time only goes forward, but not every machine's does so at the same pace: one
that sleeps at times counts less than passes. What it writes into a record is the time of day, which is kept right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from semel.sim.scheduler import Action, Event, Scheduler

EVEN_PACE: Final = 100


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
        self._stopped_until_ms = 0

    @property
    def now_ms(self) -> int:
        """By its own clock."""
        return self._began_ms + (self._scheduler.now_ms - self._began_ms) * self._pace // EVEN_PACE

    @property
    def time_of_day_ms(self) -> int:
        return self._scheduler.now_ms

    def stop_for(self, pause_ms: int) -> None:
        """Stand still from now on; its clock does not."""
        self._stopped_until_ms = max(self._stopped_until_ms, self._scheduler.now_ms + pause_ms)

    def after(self, delay_ms: int, action: Action) -> Event:
        """Run ``action`` when its clock has counted ``delay_ms``, if the process is still alive then."""
        planned = _Planned(self, action)
        planned.event = self._scheduler.after(-(-delay_ms * EVEN_PACE // self._pace), planned)
        return planned.event

    def run(self, planned: _Planned) -> None:
        """The time of ``planned`` has come."""
        if not self.alive:
            return
        wait_ms = self._stopped_until_ms - self._scheduler.now_ms
        if wait_ms > 0:
            self._scheduler.put_off(planned.event, wait_ms, planned)
        else:
            planned.action()

    def soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` at once, or when the process goes on."""
        if not self.alive:
            return
        if self._stopped_until_ms > self._scheduler.now_ms:
            self.after(0, action)
        else:
            action()
