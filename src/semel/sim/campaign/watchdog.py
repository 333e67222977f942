"""A bound for what no bound of events ends: a seed that hangs inside one event.

In real time where nobody else uses that timer, so that a deadlock is found too; else in processor time.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS_MAX = 60.0  # the slowest seeds need two


class SeedHangs(Exception):
    """The seed takes far longer than any other; the traceback says where it was."""


@contextmanager
def watched(seconds_max: float = SECONDS_MAX) -> Iterator[None]:
    """Raise :class:`SeedHangs` in what takes longer. For a process's main thread."""
    timer, alarm = signal.ITIMER_REAL, signal.SIGALRM
    if signal.getitimer(timer)[0]:
        timer, alarm = signal.ITIMER_VIRTUAL, signal.SIGVTALRM

    def hangs(_signal: int, _frame: FrameType | None) -> None:
        raise SeedHangs(f"not done after {seconds_max:g} seconds")

    before = signal.signal(alarm, hangs)
    signal.setitimer(timer, seconds_max)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(alarm, before)
