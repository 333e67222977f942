"""How fast a copy may be: what it has sent too much is owed, however large the answer was that it came in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CREDIT_MS_MAX: Final = 1_000  # what an idle copy may save up, else a burst would follow an idle night


@dataclass(slots=True)
class Pace:
    """A token bucket that may go below zero: a batch is sent as a whole, and paid for afterwards."""

    bytes_per_s: int
    _at_ms: int
    _credit: int = 0  # in bytes a thousand times over, so that no part of one is lost; below 0: owed

    def send(self, size_bytes: int, now_ms: int) -> None:
        """So many bytes went."""
        self._go_on_to(now_ms)
        self._credit -= size_bytes * 1000

    def owed_ms(self, now_ms: int) -> int:
        """So long nothing may be sent."""
        self._go_on_to(now_ms)
        return max(0, -(self._credit // self.bytes_per_s))

    def _go_on_to(self, now_ms: int) -> None:
        earned = max(0, now_ms - self._at_ms) * self.bytes_per_s
        self._at_ms = max(self._at_ms, now_ms)
        self._credit = min(self._credit + earned, CREDIT_MS_MAX * self.bytes_per_s)
