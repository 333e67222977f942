"""What a partition answers: the fate of an append, and where the bytes of a read lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from semel.core.log.admission import AppendOrigin
from semel.core.log.recovery import Cut, Damaged, Sound
from semel.core.producer_state.verdict import Verdict
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader, decode_header
from semel.server.storage.filesystem import File
from semel.types import NO_TIMESTAMP, RecordError, TopicPartition

NO_OFFSET = -1


class Incoming(NamedTuple):
    """One request's batches for one partition: writable bytes, and the header of each batch in them."""

    batches: memoryview
    headers: Sequence[BatchHeader]
    origin: AppendOrigin = AppendOrigin.CLIENT


def from_coordinator(batch: bytearray) -> Incoming:
    """A batch that the server itself has made."""
    return Incoming(memoryview(batch), [decode_header(batch)], AppendOrigin.COORDINATOR)


class AppendOutcome(NamedTuple):
    """What to answer, and when: as soon as the partition's high watermark has reached ``sync_offset``.

    An error is final at once and has ``sync_offset`` 0. Should the partition go offline before the watermark
    gets there, the answer is KAFKA_STORAGE_ERROR instead. A tuple: one is made for every request.
    """

    error_code: ErrorCode
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    sync_offset: int = 0
    error_message: str | None = None
    verdict: Verdict | None = None
    record_errors: Sequence[RecordError] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """Whole batches in a file. Holding the slice keeps the file open, also when retention removes it."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.pread(self.length, self.position)

    def read_whole(self, skip_bytes: int = 0) -> bytes:
        """Without its first ``skip_bytes``; ``OSError`` when not all of it is there."""
        data = self.file.pread(self.length - skip_bytes, self.position + skip_bytes)
        if len(data) < self.length - skip_bytes:
            raise OSError(f"the file ends within {self.length} bytes from {self.position}")
        return data


@dataclass(frozen=True, slots=True)
class OffsetOutOfRange:
    """The asked offset is not within ``log_start_offset`` to ``log_end_offset``."""

    asked_offset: int
    log_start_offset: int
    log_end_offset: int


class TimestampOffset(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Unopened:
    """The disk failed while the partition was opened. That says nothing of its records; the next start asks again."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening one partition found and did; ``str()`` is the one line that is told."""

    partition: TopicPartition
    verdict: Sound | Cut | Damaged | Unopened
    log_start_offset: int
    log_end_offset: int
    cut_bytes: int
    scanned_bytes: int

    def __str__(self) -> str:
        where = f"{self.partition}: offsets {self.log_start_offset} to {self.log_end_offset} (exclusive)"
        match self.verdict:
            case Sound():
                return f"{where}, whole"
            case Cut(offset, reason):
                return f"{where}; cut {self.cut_bytes} bytes at offset {offset}: {reason}"
            case Damaged(offset, reason):
                return f"{self.partition}: OFFLINE, damaged at offset {offset}: {reason}"
            case Unopened(reason):
                return f"{self.partition}: OFFLINE, cannot be opened: {reason}"
