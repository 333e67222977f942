"""When a segment is full, and which segments retention takes (Kafka's ``UnifiedLog``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from semel.core.log.config import UNLIMITED, LogConfig
from semel.types import NO_TIMESTAMP

POSITION_MAX: Final = 2**31 - 1  # positions and relative offsets are int32 in the indexes


class SegmentFacts(NamedTuple):
    """What the decisions need to know of one segment. A tuple: one is made for every append."""

    base_offset: int
    size_bytes: int
    created_ms: int
    max_timestamp_ms: int = NO_TIMESTAMP


class Room(NamedTuple):
    """What still fits into the active segment: asked once for many batches that are written together."""

    size_bytes: int
    last_offset_max: int

    def fits(self, incoming_bytes: int, incoming_last_offset: int) -> bool:
        """Whether these bytes may go in; else a new segment must begin before them."""
        return incoming_bytes <= self.size_bytes and incoming_last_offset <= self.last_offset_max


def room_in(active: SegmentFacts, config: LogConfig, now_ms: int) -> Room:
    """An empty segment has room for anything: a batch must go somewhere."""
    if active.size_bytes == 0:
        return _UNLIMITED_ROOM
    if now_ms - active.created_ms >= config.roll_ms:
        return _NO_ROOM
    segment_bytes = min(config.segment_bytes, POSITION_MAX)
    return Room(segment_bytes - active.size_bytes, active.base_offset + POSITION_MAX)


def is_expired(segment: SegmentFacts, *, config: LogConfig, now_ms: int) -> bool:
    """Whether every record of the segment is too old to be kept."""
    age_ms = now_ms - age_mark_ms(segment)
    return segment.size_bytes > 0 and config.retention_ms != UNLIMITED and age_ms > config.retention_ms


def count_expired(
    segments: Sequence[SegmentFacts], *, config: LogConfig, high_watermark: int, now_ms: int
) -> int:
    """How many segments retention takes, from the oldest on; never the active one, nor above the mark."""
    if not config.is_deleted:
        return 0
    total_bytes = sum(segment.size_bytes for segment in segments)
    count = 0
    for segment, after in pairwise(segments):
        too_old = is_expired(segment, config=config, now_ms=now_ms)
        too_big = (
            config.retention_bytes != UNLIMITED and total_bytes - segment.size_bytes >= config.retention_bytes
        )
        if after.base_offset > high_watermark or not (too_old or too_big):
            break
        total_bytes -= segment.size_bytes
        count += 1
    return count


def count_below(segments: Sequence[SegmentFacts], log_start_offset: int) -> int:
    """How many segments from the oldest on lie wholly below ``log_start_offset``."""
    return sum(1 for after in segments[1:] if after.base_offset <= log_start_offset)


def age_mark_ms(segment: SegmentFacts) -> int:
    """Records without a timestamp are as old as their segment."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.created_ms


_UNLIMITED_ROOM: Final = Room(2**63, 2**63)
_NO_ROOM: Final = Room(-1, -1)
