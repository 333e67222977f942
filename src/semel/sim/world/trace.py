"""What happened, line by line: hashed whole, kept in part.

Invariant (checked in two processes with different hash seeds): the same seed gives the same hash.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

from semel.sim.world.scheduler import Scheduler

TAIL_LINES_MAX: Final = 400


class Trace:
    """An append-only list of lines, of which the last few are kept and all are hashed."""

    def __init__(self, scheduler: Scheduler, keep_lines_max: int = TAIL_LINES_MAX) -> None:
        self._scheduler = scheduler
        self._hash = hashlib.sha256()
        self._tail: deque[str] = deque(maxlen=keep_lines_max)
        self.lines = 0

    def note(self, who: str, what: str) -> None:
        line = f"{self._scheduler.elapsed_ms:>8} {who:<10} {what}"
        self._hash.update(f"{line}\n".encode())
        self._tail.append(line)
        self.lines += 1

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def tail(self, lines: int) -> list[str]:
        return list(self._tail)[-lines:]
