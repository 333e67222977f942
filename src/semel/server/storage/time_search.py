"""The search by time: the index leads to a batch, and the batch's records say which one it is.

The search for the newest record (:func:`newest_in`) reads beside the event loop: what the index knows of may have been
trimmed, and then every batch header of a segment has its say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from semel.errors import CorruptRecordBatch
from semel.record.batch import Record, decode_records
from semel.server.storage.aside import aside
from semel.server.storage.filesystem import File
from semel.server.storage.segment import BatchPlace, Segment

_SEARCHED_BYTES_MAX: Final = 16 << 20  # of one batch, decompressed


class Found(NamedTuple):
    """A record, by place and time."""

    offset: int
    timestamp_ms: int


def first_at_or_after(
    segments: Iterable[Segment], timestamp_ms: int, *, log_start_offset: int, end_offset: int
) -> Found | None:
    """The first record from ``log_start_offset`` to below ``end_offset`` that is at least as new."""
    for segment in segments:
        for place in segment.at_or_after(timestamp_ms, log_start_offset):
            if place.base_offset >= end_offset:
                return None
            found = _first_in_batch(segment, place, timestamp_ms, log_start_offset)
            if found is not None:
                return found
    return None


def _first_in_batch(
    segment: Segment, place: BatchPlace, timestamp_ms: int, log_start_offset: int
) -> Found | None:
    records = _records(segment.file, place)
    if records is None:
        return _start_of(place, log_start_offset)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
            return Found(record.offset, record.timestamp_ms)
    return None


async def newest_in(segments: Iterable[Segment], log_start_offset: int, end_offset: int) -> Found | None:
    """The first of the records with the largest timestamp, from ``log_start_offset`` to below ``end_offset``."""
    best: Found | None = None
    for segment in sorted(segments, key=lambda one: (-one.max_timestamp_ms, one.base_offset)):
        if segment.max_timestamp_ms < (0 if best is None else best.timestamp_ms):
            break
        from_offset, to_offset = (
            max(log_start_offset, segment.base_offset),
            min(end_offset, segment.end_offset),
        )
        if from_offset >= to_offset:
            continue
        look = _Look(segment, segment.file, segment.size_bytes, from_offset, to_offset)
        found = await aside(look.newest, *segment.newest(from_offset, to_offset))
        best = _first_of_newest(best, found)
    return best


def _first_of_newest(*found: Found | None) -> Found | None:
    return min(filter(None, found), key=lambda one: (-one.timestamp_ms, one.offset), default=None)


class _Look(NamedTuple):
    """At one segment, in another thread: ``file`` and ``size_bytes`` are those of the moment before it."""

    segment: Segment
    file: File
    size_bytes: int
    from_offset: int
    end_offset: int

    def newest(self, position: int, stop_offset: int) -> Found | None:
        """The first of the newest from ``position`` to below ``stop_offset``."""
        best: BatchPlace | None = None
        cut: Found | None = None  # of the batch that begins before the log does
        for place in self.segment.walk(position, self.size_bytes, self.file):
            if place.base_offset >= stop_offset:
                break
            if place.last_offset < self.from_offset:
                continue
            if place.base_offset < self.from_offset:
                cut = self._newest_of(place)
                stop_offset = self.end_offset
            elif best is None or place.max_timestamp_ms > best.max_timestamp_ms:
                best = place
        if best is None or (cut is not None and cut.timestamp_ms >= best.max_timestamp_ms):
            return cut
        return self._newest_of(best) if best.is_dense else self._newest_of_all()

    def _newest_of_all(self) -> Found | None:
        """The same where compaction took records: the batch may have kept the time of one that is gone."""
        best: Found | None = None
        places = self.segment.walk(0, self.size_bytes, self.file)
        for place in sorted(places, key=lambda one: (-one.max_timestamp_ms, one.base_offset)):
            if best is not None and place.max_timestamp_ms < best.timestamp_ms:
                break
            if place.last_offset < self.from_offset or place.base_offset >= self.end_offset:
                continue
            best = _first_of_newest(best, self._newest_of(place))
            if place.is_dense and place.base_offset >= self.from_offset:
                break
        return best

    def _newest_of(self, place: BatchPlace) -> Found | None:
        records = _records(self.file, place)
        if records is None:
            return _start_of(place, self.from_offset)
        newest = max(
            (record for record in records if record.offset >= self.from_offset),
            key=lambda record: record.timestamp_ms,  # of equals, the first
            default=None,
        )
        return None if newest is None else Found(newest.offset, newest.timestamp_ms)


def _records(file: File, place: BatchPlace) -> list[Record] | None:
    """``None`` when they cannot be read: the producer's doing, or too large."""
    batch = file.pread(place.size_bytes, place.position)
    try:
        return decode_records(batch, decompressed_bytes_max=_SEARCHED_BYTES_MAX)
    except CorruptRecordBatch:
        return None


def _start_of(place: BatchPlace, log_start_offset: int) -> Found:
    """Of a batch that cannot be read the start is early enough."""
    return Found(max(place.base_offset, log_start_offset), place.max_timestamp_ms)
