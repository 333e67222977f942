"""Reads what a server's coordinator writes: at once, for a fetch of offsets shows what is not durable yet, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from semel.core.group.records import GroupKey, OffsetKey, decode_group, decode_key, decode_offset
from semel.core.log.names import GROUP_OFFSETS_TOPIC
from semel.core.log.watermarks import FetchIsolation
from semel.errors import ErrorCode
from semel.record.batch import decode_records, scan_batches
from semel.record.records import Record
from semel.server.storage.outcome import AppendOutcome, Incoming, Slice
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.sim.groups.story import GroupStory
from semel.sim.groups.watcher import GroupLogWatcher
from semel.sim.world.watchers import Watchers
from semel.types import TopicPartition

GROUPS: Final = TopicPartition(GROUP_OFFSETS_TOPIC, 0)
_READ_BYTES: Final = 1 << 20


class GroupLedger:
    """Beside the witness of the server."""

    def __init__(self, story: GroupStory, watchers: Watchers, now_ms: Callable[[], int]) -> None:
        self.is_on = True  # False: what comes now is damage on purpose
        self._story = story
        self._log = story.log
        self._watcher = watchers.of(GroupLogWatcher)
        self._now_ms = now_ms
        self._next_place = 0

    def appended(
        self, name: TopicPartition, incoming: Sequence[Incoming], outcomes: Sequence[AppendOutcome]
    ) -> None:
        """Written, or refused; not durable yet."""
        if name != GROUPS or not self.is_on:
            return
        for one, outcome in zip(incoming, outcomes, strict=True):
            if outcome.error_code is not ErrorCode.NONE:
                self._log.refused_from = self._next_place
                continue
            for place, record in enumerate(decode_records(one.batches), outcome.base_offset):
                self._come(place, record, is_new=True)

    def synced(self, storage: Storage, tps: Iterable[TopicPartition]) -> None:
        """What was written to these is durable."""
        if GROUPS in tps and self.is_on:
            self._note_durable(storage)

    def recovered(self, storage: Storage) -> None:
        """A process has opened its files, and serves nobody yet."""
        if not self.is_on:
            return
        self._log.begin_anew()
        partition = storage.group_log.partition
        for place, record in _whole(partition):
            self._come(place, record, is_new=False)
        self._note_durable(storage)
        self._watcher.coordinator_came_up(self._story, self._now_ms())

    def _note_durable(self, storage: Storage) -> None:
        self._log.durable_end = storage.group_log.partition.high_watermark

    def _come(self, place: int, record: Record, *, is_new: bool) -> None:
        """``is_new``: it is judged, before it counts."""
        self._next_place = place + 1
        key = None if record.key is None else decode_key(record.key)
        match key:
            case GroupKey(group_id):
                stored = None if record.value is None else decode_group(record.value)
                if is_new:
                    self._watcher.group_written(self._story, group_id, stored, self._now_ms())
                self._log.group_came(place, group_id, stored)
            case OffsetKey():
                committed = None if record.value is None else decode_offset(record.value)
                if is_new:
                    self._watcher.offset_written(self._story, key, committed)
                self._log.offset_came(place, key, committed)


def _whole(partition: Partition) -> Iterable[tuple[int, Record]]:
    """Every record, with its place."""
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        piece = partition.read(offset, _READ_BYTES, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice), f"{partition.name}: {piece}"
        for batch, header in scan_batches(piece.read_whole()):
            for record in decode_records(batch):
                if record.offset >= offset:
                    yield record.offset, record
            offset = header.last_offset + 1
