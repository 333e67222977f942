"""``refused_only_at_the_bound``: nobody is refused for want of room as long as the living leave some.

What is remembered of leases that are over is in nobody's way.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition


class RefusedOnlyAtTheBound(Checker):
    """At every batch and every lease that is refused for want of room."""

    name: ClassVar[str] = "refused_only_at_the_bound"

    def append_refused_for_room(self, tp: TopicPartition, producer_id: int, kept: int, free: int) -> None:
        if free > 0:
            raise self.violated(f"{tp}: {producer_id} is refused, with room for {free} more")

    def lease_refused_for_room(self, room: int, free: int) -> None:
        if free >= room:
            raise self.violated(f"a lease of {room} partitions is refused, with room for {free}")
