"""Requests as bytes: frames that are built once, and patched many at a time.

A Produce request of a run differs from the one before in correlation id, base sequence and checksum only; where
many producers take turns, in producer id and partition, too. CRC-32C is linear over exclusive or, so the checksum
for any sequence is that for sequence 0 combined with one table entry for each of the sequence's four bytes: a ring
of frames is brought up to date by a few numpy operations, whatever the size of its batches.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from bench.load import ONE_RECORD
from semel.record.batch import Record, encode_batch
from semel.sequence import SEQUENCE_MODULUS
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, ProducerGrant

KEY_BYTES: Final = 8
VALUE_BYTES: Final = 100
RECORD_BYTES: Final = KEY_BYTES + VALUE_BYTES + 10  # about what a record takes in a batch
CLIENT_ID: Final = b"bench"
PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22
INT16, INT32, INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")

_CORRELATION_AT: Final = 8
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_PRODUCER_ID_AT: Final = 43
_SEQUENCE_AT: Final = 53
_SMALL_FRAME_BYTES: Final = 4096
_SMALL_FRAMES: Final = 1024
CROWD_IDS_FROM: Final = 1 << 40  # beyond the ids that a server has given out
NOBODY: Final = ProducerGrant(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)  # whose batches have no id
_FAR_PRIME: Final = 2_654_435_761
_TIMESTAMP_MS: Final = time.time_ns() // 1_000_000  # of today, or retention would take what is to be read


@dataclass(frozen=True, slots=True)
class Batch:
    """An encoded batch with base sequence 0, or none when it has no producer id."""

    encoded: bytes
    records: int


def batch_of(batch_bytes: int, grant: ProducerGrant) -> Batch:
    """About ``batch_bytes`` of records with 8 B keys and 100 B values."""
    count = 1 if batch_bytes == ONE_RECORD else batch_bytes // RECORD_BYTES
    records = [
        Record(0, _TIMESTAMP_MS, b"%08d" % number, (b"%d-" % number * VALUE_BYTES)[:VALUE_BYTES])
        for number in range(count)
    ]
    encoded = encode_batch(
        records,
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=NO_SEQUENCE if grant is NOBODY else 0,
    )
    return Batch(bytes(encoded), count)


class FrameRing:
    """Produce requests (v7) one behind the other in memory, with the sequences of one lap around the ring."""

    def __init__(self, topic: str, partition: int, batch: Batch, in_flight: int) -> None:
        head = produce_head(topic, partition, len(batch.encoded))
        frame = head + batch.encoded
        self.frame_bytes = len(frame)
        self.slots = _SMALL_FRAMES if len(frame) < _SMALL_FRAME_BYTES else in_flight
        self.records_per_frame = batch.records
        self.view = memoryview(bytearray(frame * self.slots))
        self._frames = np.frombuffer(self.view, np.uint8).reshape(self.slots, len(frame))
        self._batch_at = len(head)
        self._crc = crc32c(batch.encoded[_CHECKED_AT:])
        self._sequence_crcs = _crc_tables(batch.encoded, _SEQUENCE_AT, 4)

    def refill(self, first_request: int) -> None:
        """Make the ring hold the requests from ``first_request`` on. All that it held must have been sent."""
        requests = first_request + np.arange(self.slots, dtype=np.int64)
        self._put(requests, requests * self.records_per_frame % SEQUENCE_MODULUS, self._crc)

    def _put(self, requests: Any, sequences: Any, crcs: Any) -> None:
        """``crcs`` are those for base sequence 0."""
        self._patch(_CORRELATION_AT, requests & 0x7FFFFFFF)
        self._patch(self._batch_at + _SEQUENCE_AT, sequences)
        self._patch(self._batch_at + _CRC_AT, _changed(crcs, sequences, self._sequence_crcs))

    def _patch(self, position: int, values: Any, width: int = 4) -> None:
        as_bytes = values.astype(f">u{width}").view(np.uint8).reshape(-1, width)
        self._frames[:, position : position + width] = as_bytes


class NobodysRing(FrameRing):
    """Likewise, of batches without a producer id, which have no sequences either."""

    def refill(self, first_request: int) -> None:
        requests = first_request + np.arange(self.slots, dtype=np.int64)
        self._patch(_CORRELATION_AT, requests & 0x7FFFFFFF)


class CrowdRing(FrameRing):
    """Likewise, but each request is from another producer, or to another partition, until all have had their turn.

    ``pairs`` are numbered through. Their order is one in which neighbours are far from each other, so that neither
    side finds in its caches what it needs.
    """

    def __init__(self, topic: str, partitions: int, batch: Batch, pairs: range, turns_before: int) -> None:
        super().__init__(topic, 0, batch, in_flight=1)
        self._partitions, self._pairs, self._turns_before = partitions, pairs, turns_before
        self._id_crcs = _crc_tables(batch.encoded, _PRODUCER_ID_AT, 8)

    def refill(self, first_request: int) -> None:
        requests = first_request + np.arange(self.slots, dtype=np.int64)
        turns, number = np.divmod(requests, len(self._pairs))
        pairs = self._pairs.start + number * _FAR_PRIME % len(self._pairs) * self._pairs.step
        numbers, partitions = np.divmod(pairs, self._partitions)
        producer_ids = CROWD_IDS_FROM + numbers
        self._patch(self._batch_at - 8, partitions)  # between it and the batch there is the batch's length
        self._patch(self._batch_at + _PRODUCER_ID_AT, producer_ids, 8)
        crcs = _changed(self._crc, producer_ids ^ CROWD_IDS_FROM, self._id_crcs)
        self._put(requests, (self._turns_before + turns) * self.records_per_frame % SEQUENCE_MODULUS, crcs)


def _crc_tables(batch: bytes, field_at: int, field_bytes: int) -> list[Any]:
    """What each bit pattern of each byte, flipped in a field of the batch, changes in its checksum."""
    checked = bytearray(batch[_CHECKED_AT:])
    crc = crc32c(checked)
    tables = []
    for place in range(field_bytes):  # 0 is the last byte, the lowest
        position = field_at - _CHECKED_AT + field_bytes - 1 - place
        table = np.zeros(256, np.uint32)
        for bit in range(8):
            checked[position] ^= 1 << bit
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ np.uint32(crc ^ crc32c(checked))
            checked[position] ^= 1 << bit
        tables.append(table)
    return tables


def _changed(crcs: Any, flipped: Any, tables: list[Any]) -> Any:
    """The checksums after the bits of ``flipped`` were flipped in the field of ``tables``."""
    found = np.zeros(len(flipped), np.uint32) ^ np.uint32(crcs)
    for place, table in enumerate(tables):
        found ^= table[flipped >> 8 * place & 0xFF]
    return found


def produce_head(topic: str, partition: int, batch_bytes: int) -> bytes:
    """What stands before the batch: acks=all, one topic, one partition."""
    body = b"".join(
        (
            INT16.pack(-1),  # no transactional id
            INT16.pack(-1),  # acks=all
            INT32.pack(30_000),
            INT32.pack(1) + string(topic.encode()),
            INT32.pack(1) + INT32.pack(partition) + INT32.pack(batch_bytes),
        )
    )
    return request_head(PRODUCE, 7, len(body) + batch_bytes) + body


def produce_reply(topic: str) -> tuple[bytes, int]:
    """A good answer to a Produce request (its size is always the same), and where its error code is."""
    before = INT32.pack(0) + INT32.pack(1) + string(topic.encode()) + INT32.pack(1) + INT32.pack(0)
    after = INT16.pack(0) + INT64.pack(0) + INT64.pack(-1) + INT64.pack(0) + INT32.pack(0)
    return INT32.pack(len(before) + len(after)) + before + after, 4 + len(before)


def fetch_request(topic: str, partition: int, fetch_bytes: int) -> tuple[bytearray, int]:
    """A Fetch request (v4) for one partition that never waits for data, and where its offset is."""
    body = b"".join(
        (
            INT32.pack(-1),
            INT32.pack(0) + INT32.pack(0) + INT32.pack(64 * 1024 * 1024),
            b"\0",  # read_uncommitted
            INT32.pack(1) + string(topic.encode()),
            INT32.pack(1) + INT32.pack(partition),
        )
    )
    head = request_head(FETCH, 4, len(body) + 12)
    return bytearray(head + body + INT64.pack(0) + INT32.pack(fetch_bytes)), len(head) + len(body)


def fetch_reply_head(topic: str, high_watermark: int, records_bytes: int) -> bytes:
    """What stands before the records in a good answer to a Fetch request."""
    before = INT32.pack(0) + INT32.pack(0) + INT32.pack(1) + string(topic.encode())
    partition = INT32.pack(1) + INT32.pack(0) + INT16.pack(0) + INT64.pack(high_watermark) * 2
    rest = before + partition + INT32.pack(-1) + INT32.pack(records_bytes)
    return INT32.pack(len(rest) + records_bytes) + rest


def init_producer_id_request() -> bytes:
    body = INT16.pack(-1) + INT32.pack(60_000)
    return request_head(INIT_PRODUCER_ID, 1, len(body)) + body


def request_head(api_key: int, api_version: int, body_bytes: int) -> bytes:
    head = struct.pack(">hhi", api_key, api_version, 0) + string(CLIENT_ID)
    return INT32.pack(len(head) + body_bytes) + head


def string(text: bytes) -> bytes:
    return INT16.pack(len(text)) + text
