"""How many (producer, partition) pairs one server remembers, and the refusal at the bound.

Invariant: a known producer is never forgotten to make room for a new one; that would turn its next repeat
into a second copy. New ones are refused until old ones have expired, with an error that says to come again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProducerBound:
    """Shared by all partitions of a server."""

    known_max: int
    known: int = 0


class BoundShare:
    """What one partition has of it."""

    __slots__ = ("_bound", "_known")

    def __init__(self, bound: ProducerBound) -> None:
        self._bound = bound
        self._known = 0

    def has_room(self, known: int) -> bool:
        """Whether this partition, which knows ``known`` producers by now, may come to know one more."""
        return self._bound.known - self._known + known < self._bound.known_max

    def update(self, known: int) -> None:
        """The partition knows so many producers now."""
        if known != self._known:  # a new partition, opened by another thread, leaves the sum alone
            self._bound.known += known - self._known
            self._known = known

    @property
    def refusal(self) -> str:
        return f"the server remembers {self._bound.known_max} producers of partitions already"
