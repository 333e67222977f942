"""One client process: its timers run only while it lives, and late while it is stopped.

A stopped process (SIGSTOP, a swapped-out machine, a long collection) sees everything that happened meanwhile
at once when it goes on: its time-outs are over, and the answers lie in its socket.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.sim.scheduler import Action, Event, Scheduler


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
    """Alive until it dies; stands still at times."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.alive = True
        self._scheduler = scheduler
        self._stopped_until_ms = 0

    @property
    def now_ms(self) -> int:
        return self._scheduler.now_ms

    def stop_until(self, at_ms: int) -> None:
        self._stopped_until_ms = max(self._stopped_until_ms, at_ms)

    def after(self, delay_ms: int, action: Action) -> Event:
        """Run ``action`` later, if the process is still alive then."""
        planned = _Planned(self, action)
        planned.event = self._scheduler.after(delay_ms, planned)
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
