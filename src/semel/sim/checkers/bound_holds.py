"""``bound_holds``: a server remembers no more producers of partitions than its setting says, with the room it keeps.

A start may find more of them in the log than that: the setting was larger, or they had been forgotten since.
Then none is added before there is room.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker


class BoundHolds(Checker):
    """After every append and every grant of a lease."""

    name: ClassVar[str] = "bound_holds"

    def __init__(self) -> None:
        self._most = 0

    def remembered(self, known: int, kept: int, known_max: int, *, is_start: bool) -> None:
        if is_start:
            self._most = known + kept
        most = max(known_max, self._most)
        if known + kept > most:
            raise self.violated(f"{known} producers of partitions and room for {kept} more, at most {most}")
        self._most = known + kept
