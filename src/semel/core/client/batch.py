"""One batch on its way: rows first, then encoded once, then stamped with its producer's name.

The encoded bytes never change but for the producer id, epoch and base sequence, which are written into the
header (with a new CRC) when the batch is first sent, and again only if the batch moves to another grant or
to another sequence. So a retry is byte for byte what was sent before.
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from semel.record.batch import TRANSACTIONAL_BIT, Record, decode_records, encode_batch
from semel.record.compression import Compression
from semel.sequence import distance, last_of
from semel.types import NO_SEQUENCE, ProducerGrant, TopicPartition

_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_LOW_ATTRIBUTES_AT: Final = 22
_PRODUCER_AT: Final = 43
_CRC: Final = struct.Struct(">I")
_PRODUCER: Final = struct.Struct(">qhi")

RECORD_OVERHEAD_BYTES: Final = 12  # an upper guess of the varints around a small record
BATCH_OVERHEAD_BYTES: Final = 61


def stamp(
    encoded: bytearray, grant: ProducerGrant, base_sequence: int, *, is_transactional: bool = False
) -> None:
    """Write the producer's fields into an encoded batch and renew its CRC."""
    if is_transactional:
        encoded[_LOW_ATTRIBUTES_AT] |= TRANSACTIONAL_BIT
    _PRODUCER.pack_into(encoded, _PRODUCER_AT, grant.producer_id, grant.producer_epoch, base_sequence)
    _CRC.pack_into(encoded, _CRC_AT, crc32c.crc32c(memoryview(encoded)[_CRC_FROM:]))


class ProducerBatch:
    """The rows of one partition that travel, succeed and fail together."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "created_ms",
        "encoded",
        "first_row",
        "grant",
        "is_transactional",
        "maybe_stored",
        "not_before_ms",
        "order",
        "record_count",
        "rows",
        "size_bytes",
        "tp",
        "was_sent",
        "whole",
    )

    def __init__(self, tp: TopicPartition, created_ms: int) -> None:
        self.tp = tp
        self.created_ms = created_ms
        self.rows: list[Record] | None = []
        self.encoded: bytearray | None = None
        self.record_count = 0
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.grant: ProducerGrant | None = None
        self.is_transactional = False
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.was_sent = False  # a copy of an attempt may come to the log, whatever the attempt was answered
        self.maybe_stored = False  # an attempt may have been appended, though nobody said so
        self.not_before_ms = 0
        self.order = -1  # its place in the partition's line, given with the first attempt
        self.first_row = 0  # of a part: where it starts in the whole
        self.whole: ProducerBatch | None = None  # of a part: the batch that was too large

    @classmethod
    def of_encoded(
        cls, tp: TopicPartition, encoded: bytearray, record_count: int, now_ms: int
    ) -> ProducerBatch:
        """A batch that was encoded elsewhere (``send_table``)."""
        batch = cls(tp, now_ms)
        batch.rows, batch.encoded = None, encoded
        batch.record_count, batch.size_bytes = record_count, len(encoded)
        return batch

    def add(self, row: Record) -> int:
        """Take one more row; returns its place in the batch."""
        assert self.rows is not None
        self.rows.append(row)
        self.size_bytes += estimated_bytes(row)
        self.record_count += 1
        return self.record_count - 1

    def encode(self, compression: Compression) -> bytearray:
        """The batch as bytes; encoded at the first call."""
        if self.encoded is None:
            assert self.rows is not None
            self.encoded = encode_batch(self.rows, compression=compression)
            self.rows = None
        return self.encoded

    def assign(self, grant: ProducerGrant, base_sequence: int) -> None:
        """Name the producer and the first sequence; a no-op when they are already these."""
        if self.grant == grant and self.base_sequence == base_sequence:
            return
        assert self.encoded is not None
        self.grant, self.base_sequence = grant, base_sequence
        stamp(self.encoded, grant, base_sequence, is_transactional=self.is_transactional)

    def forget_attempts(self) -> None:
        """Be as if it had never been sent: it is not in the log, and goes under another grant."""
        self.attempts, self.was_sent, self.maybe_stored, self.grant = 0, False, False, None

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in its partition's line; parts of one batch follow each other."""
        return self.order, self.first_row

    def is_within(self, stored_to: int) -> bool:
        """Whether a log whose last sequence of our grant is ``stored_to`` has the whole batch."""
        last_sequence = last_of(self.base_sequence, self.record_count)
        return stored_to != NO_SEQUENCE and distance(stored_to, last_sequence) >= 0

    def split(self, compression: Compression) -> list[ProducerBatch]:
        """Two halves that together have this batch's sequences. Needs more than one row."""
        assert self.encoded is not None and self.record_count > 1
        rows = decode_records(self.encoded)
        middle = len(rows) // 2
        halves = []
        for start, part in ((0, rows[:middle]), (middle, rows[middle:])):
            half = ProducerBatch(self.tp, self.created_ms)
            for row in part:
                half.add(row)
            half.is_transactional = self.is_transactional
            half.whole, half.first_row = self.whole or self, self.first_row + start
            half.encode(compression)
            halves.append(half)
        return halves


def estimated_bytes(row: Record) -> int:
    """What ``row`` is charged against batch size and buffer, before compression."""
    size = RECORD_OVERHEAD_BYTES
    if row.key is not None:
        size += len(row.key)
    if row.value is not None:
        size += len(row.value)
    for name, content in row.headers:
        size += len(name) + 4 + (0 if content is None else len(content))
    return size
