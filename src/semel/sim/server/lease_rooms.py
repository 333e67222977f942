"""A second opinion on the room that is kept for leases, by what they asked for and where they have written since.

It shares no code with ``server.storage.producer_bound``, and keeps for each lease the partitions themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semel.types import TopicPartition


class RoomLedger:
    """The live leases of one server, whoever serves it now."""

    def __init__(self) -> None:
        self._asked: dict[int, dict[int, int]] = {}  # room, by the epochs at which it grew
        self._written: dict[int, set[TopicPartition]] = {}

    @property
    def kept(self) -> int:
        """(Producer, partition) pairs for which room must be free, all leases together."""
        return sum(self.left(producer_id) for producer_id in self._asked)

    def left(self, producer_id: int) -> int:
        """How many further partitions this lease must find room in; none if it is over or no lease."""
        _, asked = max(self._asked.get(producer_id, {}).items(), default=(0, 0))
        return max(0, asked - len(self._written.get(producer_id, ())))

    def issued(self, producer_id: int, producer_epoch: int, room: int) -> None:
        self._asked[producer_id] = {producer_epoch: room}

    def lacks(self, producer_id: int, named: Sequence[TopicPartition]) -> int:
        """How much more room this lease must be given, to have it in all that it names when it is resumed."""
        unwritten = set(named) - self._written.get(producer_id, set())
        return max(0, len(unwritten) - self.left(producer_id))

    def resumed(self, producer_id: int, producer_epoch: int, named: Sequence[TopicPartition]) -> None:
        if self.lacks(producer_id, named):
            room = len(self._written.get(producer_id, set()).union(named))
            self._asked[producer_id][producer_epoch] = room

    def wrote(self, producer_id: int, tp: TopicPartition) -> bool:
        """Whether that was a live lease's first batch there."""
        if producer_id not in self._asked:
            return False
        written = self._written.setdefault(producer_id, set())
        is_first = tp not in written
        written.add(tp)
        return is_first

    def over(self, expired_below: int) -> None:
        for producer_id in [one for one in self._asked if one < expired_below]:
            del self._asked[producer_id]
            self._written.pop(producer_id, None)

    def restarted(self, granted_below: int, epochs: Mapping[int, int]) -> None:
        """A process has read of leases below the one, and of the epochs that they have: later grants are lost.

        What the leases have written, it must find in the partitions.
        """
        self._asked = {
            one: {epoch: room for epoch, room in by_epoch.items() if epoch <= epochs.get(one, epoch)}
            for one, by_epoch in self._asked.items()
            if one < granted_below
        }
        self._written.clear()
