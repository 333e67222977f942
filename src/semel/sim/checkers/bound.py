"""How many producers of partitions a server remembers, and whom it has no room for."""

from __future__ import annotations

from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import RoomWatcher
from semel.types import TopicPartition


class BoundHolds(Checker, RoomWatcher):
    """``bound_holds``: a server remembers no more producers of partitions than its setting says, with the room it
    keeps.

    A start may find more of them in the log than that: the setting was larger, or they had been forgotten since. Then
    none is added before there is room. Judged after every append and every grant of a lease.
    """

    def __init__(self) -> None:
        self._most = 0

    def remembered(self, known: int, kept: int, known_max: int, *, is_start: bool) -> None:
        if is_start:
            self._most = known + kept
        most = max(known_max, self._most)
        if known + kept > most:
            raise self.violated(f"{known} producers of partitions and room for {kept} more, at most {most}")
        self._most = known + kept


class LeaseRoomIsKept(Checker, RoomWatcher):
    """``lease_room_is_kept``: a live lease finds room in as many partitions as it asked for, however full the server
    is.

    Judged at every batch that is refused for want of room.
    """

    def append_refused_for_room(self, tp: TopicPartition, producer_id: int, kept: int, free: int) -> None:
        if kept > 0:
            raise self.violated(
                f"{tp}: {producer_id} is refused, and has room for {kept} more partitions by its lease"
            )


class RefusedOnlyAtTheBound(Checker, RoomWatcher):
    """``refused_only_at_the_bound``: nobody is refused for want of room as long as the living leave some.

    What is remembered of leases that are over is in nobody's way. Judged at every batch and every lease that is refused
    for want of room.
    """

    def append_refused_for_room(self, tp: TopicPartition, producer_id: int, kept: int, free: int) -> None:
        if free > 0:
            raise self.violated(f"{tp}: {producer_id} is refused, with room for {free} more")

    def lease_refused_for_room(self, room: int, free: int) -> None:
        if free >= room:
            raise self.violated(f"a lease of {room} partitions is refused, with room for {free}")
