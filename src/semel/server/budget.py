"""The bytes of requests and answers that the server holds in memory, in all (``queued.max.request.bytes``).

Invariant: what is held exceeds the bound by at most one frame, namely when it is the only one: a single
frame larger than the bound must still be able to arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_ANSWER_BYTES_MIN: Final = 64 * 1024


class Budget:
    """A counter with a bound, and a call when something was given back."""

    def __init__(self, limit_bytes: int, on_release: Callable[[], None]) -> None:
        self._limit_bytes = limit_bytes
        self._on_release = on_release
        self.held_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """Hold ``size_bytes`` if the bound allows it."""
        if self.held_bytes and self.held_bytes + size_bytes > self._limit_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def hold(self, size_bytes: int) -> None:
        """Count bytes that exist already."""
        self.held_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        if size_bytes:
            self.held_bytes -= size_bytes
            self._on_release()

    def answer_bytes_max(self) -> int:
        """How large one more answer may become: the rest of the bound, but never nothing."""
        return max(self._limit_bytes - self.held_bytes, _ANSWER_BYTES_MIN)
