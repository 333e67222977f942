"""``lease_room_is_kept``: a live lease finds room in as many partitions as it asked for, however full the server is."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import TopicPartition


class LeaseRoomIsKept(Checker):
    """At every batch that is refused for want of room."""

    name: ClassVar[str] = "lease_room_is_kept"

    def append_refused_for_room(self, tp: TopicPartition, producer_id: int, kept: int, free: int) -> None:
        if kept > 0:
            raise self.violated(
                f"{tp}: {producer_id} is refused, and has room for {kept} more partitions by its lease"
            )
