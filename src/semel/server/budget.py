"""The bytes of requests and answers that the server holds in memory, in all (``queued.max.request.bytes``).

Requests and answers have an account each, of the same size: clients that do not read their answers must not
keep others from sending.

Invariant: frames in buffers of their own exceed the bound by at most one, namely when it is the only one: a single
frame larger than the bound must still be able to arrive. What is held besides (:meth:`Budget.hold`) keeps frames from
arriving, and has the same bound where it comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_ANSWER_BYTES_MIN: Final = 64 * 1024


class Budget:
    """Two counters with a bound, and a call when room for requests was given back."""

    def __init__(self, limit_bytes: int, on_release: Callable[[], None]) -> None:
        self._limit_bytes = limit_bytes
        self._on_release = on_release
        self.held_bytes = 0  # of requests
        self.unsent_bytes = 0  # of answers that their clients do not take

    def take(self, size_bytes: int) -> bool:
        """Hold a request of ``size_bytes`` if the bound allows it."""
        if self.held_bytes and self.held_bytes + size_bytes > self._limit_bytes:
            return False
        self.held_bytes += size_bytes
        return True

    def hold(self, size_bytes: int) -> None:
        """Hold what has arrived already, until it is given back."""
        self.held_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        if size_bytes:
            self.held_bytes -= size_bytes
            self._on_release()

    def count_unsent(self, more_bytes: int) -> None:
        """So many more bytes of answers wait for their clients; fewer, when negative."""
        self.unsent_bytes += more_bytes

    def answer_bytes_max(self) -> int:
        """How large one more answer may become: the rest of the bound, but never nothing."""
        return max(self._limit_bytes - self.unsent_bytes, _ANSWER_BYTES_MIN)

    @property
    def requests_are_tight(self) -> bool:
        return self.held_bytes > self._limit_bytes // 2

    @property
    def answers_are_tight(self) -> bool:
        return self.unsent_bytes > self._limit_bytes // 2
