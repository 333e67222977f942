"""A bound for what no bound of events ends: a seed that hangs inside one event.

In processor time, for how long a seed takes is up to what else the machine does; and, where nobody else uses that
timer, in real time, many times as long, so that a deadlock is found too.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SECONDS_MAX: Final = 60.0  # the slowest seeds need two
_WAITS: Final = 20  # for a processor, so many times as long as it then has one: others may come first


class SeedHangs(Exception):
    """The seed takes far longer than any other; the traceback says where it was."""


@contextmanager
def watched(seconds_max: float = SECONDS_MAX) -> Iterator[None]:
    """Raise :class:`SeedHangs` in what takes longer. For a process's main thread."""
    bounds = {signal.ITIMER_VIRTUAL: (signal.SIGVTALRM, seconds_max)}
    if not signal.getitimer(signal.ITIMER_REAL)[0]:
        bounds[signal.ITIMER_REAL] = signal.SIGALRM, seconds_max * _WAITS

    def hangs(_signal: int, _frame: FrameType | None) -> None:
        raise SeedHangs(f"not done after {seconds_max:g} seconds")

    before = {alarm: signal.signal(alarm, hangs) for alarm, _ in bounds.values()}
    for timer, (_, bound_s) in bounds.items():
        signal.setitimer(timer, bound_s)
    try:
        yield
    finally:
        for timer in bounds:
            signal.setitimer(timer, 0)
        for alarm, handler in before.items():
            signal.signal(alarm, handler)
