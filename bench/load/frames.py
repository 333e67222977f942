"""Requests as bytes: frames that are built once, and patched many at a time.

A Produce request of a run differs from the one before in correlation id, base sequence and checksum only.
CRC-32C is linear over exclusive or, so the checksum for any sequence is that for sequence 0 combined with one
table entry for each of the sequence's four bytes: a ring of frames is brought up to date by a few numpy
operations, whatever the size of its batches.
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
from semel.types import ProducerGrant

KEY_BYTES: Final = 8
VALUE_BYTES: Final = 100
RECORD_BYTES: Final = KEY_BYTES + VALUE_BYTES + 10  # about what a record takes in a batch
CLIENT_ID: Final = b"bench"
PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22
INT16, INT32, INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")

_CORRELATION_AT: Final = 8
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_SEQUENCE_AT: Final = 53
_SMALL_FRAME_BYTES: Final = 4096
_SMALL_FRAMES: Final = 1024
_TIMESTAMP_MS: Final = time.time_ns() // 1_000_000  # of today, or retention would take what is to be read


@dataclass(frozen=True, slots=True)
class Batch:
    """An encoded batch with base sequence 0."""

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
        records, producer_id=grant.producer_id, producer_epoch=grant.producer_epoch, base_sequence=0
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
        self._crc, self._crc_by_byte = _crc_tables(batch.encoded)

    def refill(self, first_request: int) -> None:
        """Make the ring hold the requests from ``first_request`` on. All that it held must have been sent."""
        requests = first_request + np.arange(self.slots, dtype=np.int64)
        sequences = requests * self.records_per_frame % SEQUENCE_MODULUS
        crcs = np.full(self.slots, self._crc, np.uint32)
        for place, by_byte in enumerate(self._crc_by_byte):
            crcs ^= by_byte[sequences >> 8 * place & 0xFF]
        self._patch(_CORRELATION_AT, requests & 0x7FFFFFFF)
        self._patch(self._batch_at + _SEQUENCE_AT, sequences)
        self._patch(self._batch_at + _CRC_AT, crcs)

    def _patch(self, position: int, values: Any) -> None:
        self._frames[:, position : position + 4] = values.astype(">u4").view(np.uint8).reshape(-1, 4)


def _crc_tables(batch: bytes) -> tuple[int, list[Any]]:
    """The checksum for base sequence 0, and what each value of each byte of a sequence changes in it."""
    checked = bytearray(batch[_CHECKED_AT:])
    crc = crc32c(checked)
    tables = []
    for place in range(4):  # 0 is the last byte, the lowest
        position = _SEQUENCE_AT - _CHECKED_AT + 3 - place
        table = np.zeros(256, np.uint32)
        for bit in range(8):
            checked[position] = 1 << bit
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ np.uint32(crc ^ crc32c(checked))
        checked[position] = 0
        tables.append(table)
    return crc, tables


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
