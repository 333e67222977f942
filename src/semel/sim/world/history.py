"""What was promised and what was seen: the observations that the checkers judge.

The workload gives every record a value of its own, ``lineage:number``, where a lineage is one producer's
line of rows on one partition and numbers rise with the order of sending. So a value names its record for
ever, and a log can be judged by its values alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import Final, Protocol

from semel.record.batch import BatchHeader, Record
from semel.types import TopicPartition

VALUES_REMEMBERED_MAX: Final = 8_192
TOMBSTONE_OF: Final = "tombstone of"  # the header that names a record which has no value to name it


class Violation(Exception):
    """An invariant does not hold; ends the seed."""

    def __init__(self, invariant: str, evidence: str) -> None:
        super().__init__(f"{invariant}: {evidence}")
        self.invariant = invariant


class Promise(Enum):
    """What a producer was told about a record."""

    OPEN = auto()  # nothing yet
    STORED = auto()
    REFUSED = auto()  # it is not in the log and will never be
    UNKNOWN = auto()  # in doubt, or its producer died before it knew


@dataclass(slots=True)
class SentRecord:
    """One record on its way, and what its producer was told."""

    value: bytes
    tp: TopicPartition
    promise: Promise = Promise.OPEN
    record_offset: int | None = None
    was_turned_away: bool = False  # so that a copy of its request may fare otherwise
    key: bytes | None = None
    is_tombstone: bool = False

    def as_row(self, timestamp_ms: int, key: bytes | None = None) -> Record:
        """As it is sent; under ``key`` instead of its own, if one is given."""
        value, headers = (None, ((TOMBSTONE_OF, self.value),)) if self.is_tombstone else (self.value, ())
        return Record(0, timestamp_ms, self.key if key is None else key, value, headers)


def name_of(record: Record) -> bytes:
    """The value by which it is known, of a tombstone too."""
    if record.value is None and record.headers and record.headers[0][0] == TOMBSTONE_OF:
        return record.headers[0][1] or b""
    return record.value or b""


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch as it lies in the log; ``values`` is empty for a control batch.

    ``offsets`` are those of its records where some are missing.
    """

    header: BatchHeader
    values: tuple[bytes, ...]
    keys: tuple[bytes | None, ...] = ()
    offsets: tuple[int, ...] | None = None

    @property
    def placed(self) -> Iterable[tuple[int, bytes]]:
        """The values, each with its record's offset."""
        if self.offsets is not None:
            return zip(self.offsets, self.values, strict=True)
        return enumerate(self.values, self.header.base_offset)

    def __str__(self) -> str:
        header = self.header
        producer = f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
        return f"[{header.base_offset}..{header.last_offset}] by {producer} {list(self.values)}"


class RowSource(Protocol):
    """Rows that a producer with a saved position hands, again and again if need be."""

    @property
    def name(self) -> str: ...

    @property
    def is_done(self) -> bool: ...

    def rows_of(self, tp: TopicPartition) -> list[int]:
        """The numbers of the rows that belong to ``tp``, in order."""

    @property
    def saved_position(self) -> int:
        """Up to this row all are stored, by the producer's own file; -1: none."""


class Tombstones(Protocol):
    """Those of a compacted log."""

    @property
    def keeps_tombstones(self) -> bool:
        """Whether none ever goes."""

    def is_tombstone(self, value: bytes) -> bool: ...


class Keys(Tombstones, Protocol):
    """What the records of a compacted log are."""

    def key_of(self, value: bytes) -> bytes: ...


@dataclass(slots=True)
class History:
    """The records by value, in the order of sending; and what was trimmed."""

    records: dict[bytes, SentRecord] = field(default_factory=dict)
    sources: list[RowSource] = field(default_factory=list)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    promises_end: bool = False  # a power cut where the page cache was trusted: what was promised is void
    is_rotten: bool = False  # bytes that were synced have changed
    is_replayed: bool = False  # requests may arrive once more, long after they were answered
    compaction: Keys | None = None  # the topic's logs are compacted
    compacted: dict[TopicPartition, Tombstones] = field(default_factory=dict)  # others that are

    def tombstones_of(self, tp: TopicPartition) -> Tombstones:
        """Of a log that is compacted."""
        tombstones = self.compacted.get(tp, self.compaction)
        assert tombstones is not None
        return tombstones

    def sent(self, value: bytes, tp: TopicPartition) -> SentRecord:
        record = self.records[value] = self.record_of(value, tp)
        return record

    def record_of(self, value: bytes, tp: TopicPartition) -> SentRecord:
        """As it would be sent."""
        if self.compaction is None:
            return SentRecord(value, tp)
        key, is_tombstone = self.compaction.key_of(value), self.compaction.is_tombstone(value)
        return SentRecord(value, tp, key=key, is_tombstone=is_tombstone)

    def sent_again(self, value: bytes, tp: TopicPartition) -> SentRecord:
        """A row of a source, perhaps not for the first time: what was said of it before may change."""
        record = self.records.get(value)
        if record is None:
            return self.sent(value, tp)
        if record.promise is not Promise.STORED:
            record.promise = Promise.OPEN
        return record

    def promised(self, promise: Promise) -> Iterable[SentRecord]:
        return (record for record in self.records.values() if record.promise is promise)


OTHER_INPUT: Final = "-other"  # behind a source's name, in rows of an input that it never had


@lru_cache(VALUES_REMEMBERED_MAX)  # every recovery shows every value to several checkers
def lineage_of(value: bytes) -> tuple[str, int]:
    """The producer's line that ``value`` belongs to, and its number there."""
    lineage, number = value.decode().rsplit(":", 1)
    return lineage, int(number)


Logs = Mapping[TopicPartition, list[LoggedBatch]]
