"""The search by time: the index leads to a batch, and the batch's records say which one it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from semel.errors import CorruptRecordBatch
from semel.record.batch import decode_records
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
    batch = segment.file.pread(place.size_bytes, place.position)
    try:
        records = decode_records(batch, decompressed_bytes_max=_SEARCHED_BYTES_MAX)
    except CorruptRecordBatch:  # the producer's doing, or too large: its start is early enough
        return Found(max(place.base_offset, log_start_offset), place.max_timestamp_ms)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
            return Found(record.offset, record.timestamp_ms)
    return None
