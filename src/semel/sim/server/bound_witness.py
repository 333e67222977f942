"""What the checkers see of a server's bound: how many producers it remembers, and whom it refuses for want of room.

What is remembered is counted in the partitions themselves, and what room is kept by the second opinion
(:mod:`semel.sim.server.lease_rooms`): neither is asked of what decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.core.identity import Refused
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.server.storage.outcome import AppendOutcome
from semel.server.storage.storage import Storage
from semel.sim.checkers.watchers import RoomWatcher
from semel.sim.server.lease_rooms import RoomLedger
from semel.sim.server.verdicts import GRANTED_AGAIN, NO_ROOM, NO_ROOM_FOR_SINK, WROTE_AT_THE_BOUND
from semel.sim.world.faults import Counts
from semel.sim.world.watchers import Watchers
from semel.types import LEASED_IDS_FROM, Lease, TopicPartition, is_leased

Judged = tuple[BatchHeader, AppendOutcome]


class BoundWitness:
    """Stands beside one server for a whole history."""

    def __init__(self, watchers: Watchers, counts: Counts, sink_tps: Collection[TopicPartition]) -> None:
        self._watcher = watchers.of(RoomWatcher)
        self._counts = counts
        self._sink_tps = sink_tps  # where sinks write, and nobody else
        self._rooms = RoomLedger()
        self._storage: Storage
        self._expired_below = LEASED_IDS_FROM
        self._was_short = False  # the last who asked for a lease was refused for want of room

    # -- a server's life --------------------------------------------------------------------------------

    def restarted(self, granted_below: int, epochs: Mapping[int, int]) -> None:
        """A process has read the log of leases: which there are, and at what epoch each that lives is."""
        self._rooms.restarted(granted_below, epochs)

    def over(self, expired_below: int) -> None:
        """The leases below are over."""
        self._rooms.over(expired_below)
        self._expired_below = expired_below

    def came_up(self, storage: Storage) -> None:
        """It has opened its partitions, and serves nobody yet."""
        self._storage = storage
        for partition in storage:
            for producer_id, _ in partition.producers():
                self._rooms.wrote(producer_id, partition.name)
        self._show_remembered(is_start=True)

    # -- what it says -----------------------------------------------------------------------------------

    def asked(
        self, producer_id: int, named: Sequence[TopicPartition], response: Lease | Refused, issued_below: int
    ) -> None:
        """Somebody asked for a lease, or for one once more; until then the leases below had been issued."""
        lacks = self._rooms.lacks(producer_id, named)
        if isinstance(response, Lease) and response.producer_id >= issued_below:
            if self._was_short:
                self._counts.verdict(GRANTED_AGAIN)
            self._was_short = False
            self._rooms.issued(response.producer_id, response.producer_epoch, max(1, len(named)))
            self._show_remembered()
        elif isinstance(response, Lease):
            self._rooms.resumed(producer_id, response.producer_epoch, named)
            self._show_remembered()
        elif response.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self._counts.verdict(NO_ROOM)
            self._was_short = True
            free = self._free_of_the_living
            self._watcher.lease_refused_for_room(max(1, lacks), free)

    def judged(self, tp: TopicPartition, batches: Iterable[Judged]) -> None:
        """Batches were appended or refused, with one write as far as possible."""
        could_write = True
        refused: list[int] = []
        for header, outcome in batches:
            if outcome.error_code is ErrorCode.NONE:
                self._appended(tp, header.producer_id)
            elif outcome.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                refused.append(header.producer_id)
                if tp in self._sink_tps:
                    self._counts.verdict(NO_ROOM_FOR_SINK)
            elif outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
                could_write = False  # whose room is free again may have been in the others' way
        self._show_remembered()
        free = self._free_of_the_living if refused and could_write else 0
        for producer_id in refused:
            self._watcher.append_refused_for_room(tp, producer_id, self._rooms.left(producer_id), free)

    def _appended(self, tp: TopicPartition, producer_id: int) -> None:
        had_room = self._rooms.left(producer_id) > 0
        if self._rooms.wrote(producer_id, tp) and had_room and self._free <= 0:
            self._counts.verdict(WROTE_AT_THE_BOUND)

    # -- counting ---------------------------------------------------------------------------------------

    @property
    def _known(self) -> int:
        return sum(partition.producer_count for partition in self._storage)

    @property
    def _free(self) -> int:
        return self._storage.settings.producers_max - self._known - self._rooms.kept

    @property
    def _free_of_the_living(self) -> int:
        """What is free, or taken by leases that are over: nobody is refused because of these."""
        over = sum(
            is_leased(producer_id) and producer_id < self._expired_below
            for partition in self._storage
            for producer_id, _ in partition.producers()
        )
        return self._free + over

    def _show_remembered(self, *, is_start: bool = False) -> None:
        known, kept = self._known, self._rooms.kept
        self._watcher.remembered(known, kept, self._storage.settings.producers_max, is_start=is_start)
