"""One client process: its timers run only while it lives, and late while it is stopped.

A stopped process (SIGSTOP, a swapped-out machine, a long collection) sees everything that happened meanwhile
at once when it goes on: its time-outs are over, and the answers lie in its socket.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.sim.scheduler import Action, Event, Scheduler


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

        def run() -> None:
            if not self.alive:
                return
            wait_ms = self._stopped_until_ms - self._scheduler.now_ms
            if wait_ms > 0:
                self._scheduler.put_off(event, wait_ms, run)
            else:
                action()

        event = self._scheduler.after(delay_ms, run)
        return event

    def soon(self, action: Callable[[], None]) -> None:
        """Run ``action`` at once, or when the process goes on."""
        if not self.alive:
            return
        if self._stopped_until_ms > self._scheduler.now_ms:
            self.after(0, action)
        else:
            action()
