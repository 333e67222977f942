"""Simulated time: a heap of events, and one process's random numbers for a whole history.

Invariants: time never goes back; events of one millisecond run in the order in which they were scheduled; a
cancelled event never runs; a history has a bound of events, so that a livelock ends as a failure. There is no
other source of time or of order in the simulator.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]
EVENTS_MAX: Final = 500_000  # of one history; the busiest seeds have a tenth of it


class Livelock(Exception):
    """The history goes on and on: something asks again and again for what never comes."""


class Event:
    """A planned action; ``cancel`` is final."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Scheduler:
    """Runs events in the order of their time, then of their scheduling."""

    def __init__(self, start_ms: int = 1_700_000_000_000, events_max: int = EVENTS_MAX) -> None:
        self.start_ms: Final = start_ms
        self._events_max = events_max
        self.now_ms = start_ms
        self.events_run = 0
        self._planned: list[tuple[int, int, Event]] = []
        self._count = 0

    @property
    def elapsed_ms(self) -> int:
        return self.now_ms - self.start_ms

    def after(self, delay_ms: int, action: Action) -> Event:
        """Plan ``action`` ``delay_ms`` from now (at least: after everything planned for this moment)."""
        if delay_ms < 0:
            raise ValueError(f"an event {-delay_ms} ms in the past")
        event = Event(action)
        self._count += 1
        heapq.heappush(self._planned, (self.now_ms + delay_ms, self._count, event))
        return event

    def put_off(self, event: Event, delay_ms: int, action: Action) -> None:
        """Plan ``event``, which is running, once more: whoever holds it can still cancel it."""
        event.action = action
        self._count += 1
        heapq.heappush(self._planned, (self.now_ms + delay_ms, self._count, event))

    def run(self, until: Callable[[], bool], deadline_ms: int) -> bool:
        """Run events until ``until()`` or ``deadline_ms``; whether the first became true."""
        while not until():
            action = self._take_next(deadline_ms)
            if action is None:
                self.now_ms = max(self.now_ms, deadline_ms)
                return until()
            self.events_run += 1
            if self.events_run > self._events_max:
                raise Livelock(f"more than {self._events_max} events")
            action()
        return True

    def _take_next(self, deadline_ms: int) -> Action | None:
        """Go to the next event that is not cancelled (one in five is: the time-out of what was answered)."""
        planned = self._planned
        while planned and planned[0][0] <= deadline_ms:
            self.now_ms, _, event = heapq.heappop(planned)
            if event.action is not None:
                action, event.action = event.action, None
                return action
        return None
