"""What is found in a flow's topics, as values."""

from __future__ import annotations

from dataclasses import dataclass

from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record, and by whom."""

    record_offset: int
    key: bytes | None
    value: bytes
    producer_id: int


@dataclass(frozen=True, slots=True)
class RecordedRange:
    """Offsets of one input."""

    tp: TopicPartition
    from_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class RecordedEntry:
    """An entry of a merge log that counts."""

    offset: int
    ranges: tuple[RecordedRange, ...]
    tick_ms: int | None = None  # of an entry without ranges
