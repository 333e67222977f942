"""A frame that does not arrive at once: it has a buffer of its own, which counts against the server's budget.

Invariant: what was taken of budget and pool is given back when the frame is handled, or its connection closed.
"""

from __future__ import annotations

from typing import Final

from semel.server.budget import Budget
from semel.server.frame_pool import FramePool

_GRACE_S: Final = 1.0  # before a slow frame is called slow


class Arriving:
    """One connection's."""

    __slots__ = ("_budget", "_pool", "filled_bytes", "frame", "started_at_s")

    def __init__(self, pool: FramePool, budget: Budget) -> None:
        self._pool = pool
        self._budget = budget
        self.frame: memoryview | None = None  # it is arriving, or whole and has to wait for those before it
        self.filled_bytes = 0
        self.started_at_s: float | None = (
            None  # also where not even the length is there; None: nobody waits for more
        )

    @property
    def is_whole(self) -> bool:
        return self.frame is not None and self.filled_bytes == len(self.frame)

    def start(self, beginning: memoryview, size_bytes: int) -> bool:
        """A frame of ``size_bytes`` begins so; False when the budget does not allow it."""
        if not self._budget.take(size_bytes):
            return False
        self.frame = self._pool.take(size_bytes)
        self.frame[: len(beginning)] = beginning
        self.filled_bytes = len(beginning)
        return True

    def give_back(self, frame: memoryview) -> None:
        """It is handled: others may have its buffer."""
        self._pool.give_back(frame)
        self._budget.give_back(len(frame))

    def let_go(self) -> None:
        """Nobody wants it any more."""
        if self.frame is not None:
            frame, self.frame = self.frame, None
            self.give_back(frame)

    def lags(self, now_s: float, arrival_s: float) -> bool:
        """Whether it comes in more slowly than it must in order to be whole within ``arrival_s``."""
        if self.frame is None or self.started_at_s is None:
            return False
        due_part = (now_s - self.started_at_s - _GRACE_S) / arrival_s
        return self.filled_bytes < due_part * len(self.frame)
