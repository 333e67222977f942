"""Reads of one partition's log: records from an offset, the first at a time, and where a leader epoch ends."""

from __future__ import annotations

from semel.core.log import leader_epochs as epochs_of
from semel.core.log.leader_epochs import LeaderEpoch
from semel.core.log.watermarks import FetchIsolation
from semel.server.storage.log_state import LogState
from semel.server.storage.outcome import OffsetOutOfRange, Slice, TimestampOffset
from semel.server.storage.segment import Segment
from semel.server.storage.time_search import first_at_or_after, newest_in
from semel.types import NO_LEADER_EPOCH, TopicPartition


class Reading:
    """No segment whose files are going is ever read."""

    def __init__(self, log: LogState) -> None:
        self._log = log

    @property
    def name(self) -> TopicPartition:
        return self._log.name

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.marks.log_end_offset

    def read(
        self,
        from_offset: int,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        *,
        at_least_one: bool = True,
    ) -> Slice | OffsetOutOfRange:
        """Whole batches from the one that holds ``from_offset``, up to where such a reader may read.

        At most ``max_bytes``, unless ``at_least_one`` batch is wanted and the first is larger.
        """
        log = self._log
        start_offset, end_offset = log.log_start_offset, log.marks.log_end_offset
        limit_offset = max(log.marks.end_for(isolation), start_offset)
        if not start_offset <= from_offset <= end_offset:
            return OffsetOutOfRange(from_offset, start_offset, end_offset)
        segment = log.segments.holding(from_offset)
        if segment is None:  # damaged, or deleted meanwhile
            return OffsetOutOfRange(from_offset, start_offset, end_offset)
        if from_offset >= limit_offset:
            return Slice(segment.file, 0, 0)
        start = segment.position_of(from_offset)
        limit = self._limit_position(segment, limit_offset)
        end = segment.trim(start, limit, bytes_max=max_bytes, at_least_one=at_least_one)
        return Slice(segment.file, start, end - start)

    def aborted_in(self, from_offset: int, piece: Slice) -> list[tuple[int, int]]:
        """Of which aborted transactions something may be in what :meth:`read` has just given from ``from_offset`` on:
        (producer id, first offset).
        """
        segments = self._log.segments
        if not segments.has_aborted or not piece.length:
            return []
        segment = segments.holding(from_offset)
        assert segment is not None, "nothing was read"
        end_offset = segment.offset_at(piece.position + piece.length)
        return [(one.producer_id, one.first_offset) for one in segments.aborted_in(from_offset, end_offset)]

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK
    ) -> TimestampOffset | None:
        """The first record that is at least as new, where such a reader may read."""
        log = self._log
        found = first_at_or_after(
            log.segments.all,
            timestamp_ms,
            log_start_offset=log.log_start_offset,
            end_offset=log.marks.end_for(isolation),
        )
        return None if found is None else TimestampOffset(*found, self.leader_epoch_at(found.offset))

    async def newest_record(self) -> TimestampOffset | None:
        """The first of the records below the high watermark with the largest timestamp. A change: it reads aside."""
        log = self._log
        found = await newest_in(log.segments.all, log.log_start_offset, log.marks.high_watermark)
        return None if found is None else TimestampOffset(*found, self.leader_epoch_at(found.offset))

    def leader_epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``, or of the one that comes there."""
        leader_epoch = self._log.epochs.at(offset)
        return self._log.leader_epoch if leader_epoch is None else leader_epoch

    def end_offset_for_leader_epoch(self, leader_epoch: int) -> LeaderEpoch:
        """The end of the largest known leader epoch at or below the asked one."""
        return epochs_of.end_offset_of(self._log.epochs.epochs, leader_epoch, self.log_end_offset)

    def parts_from(self, last_fetched_epoch: int, fetch_offset: int) -> LeaderEpoch | None:
        """Where the log was cut behind who has read up to ``fetch_offset``, as :func:`~.leader_epochs.parted`."""
        if last_fetched_epoch == NO_LEADER_EPOCH:
            return None
        return epochs_of.parted(
            self._log.epochs.epochs, last_fetched_epoch, fetch_offset, self.log_end_offset
        )

    def _limit_position(self, segment: Segment, limit_offset: int) -> int:
        if limit_offset >= segment.end_offset:
            return segment.size_bytes
        synced = self._log.marks.synced
        if limit_offset == synced.offset and synced.position is not None:
            return synced.position
        return segment.position_of(limit_offset)
