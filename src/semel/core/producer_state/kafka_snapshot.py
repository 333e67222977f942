"""Kafka's producer snapshot, version 1 (``ProducerStateManager``): for Kafka's tools, and to come from Kafka.

It keeps the last batch of each producer. The offset it stands for is in the file's name only.
"""

from __future__ import annotations

import struct
from typing import Final

from semel.core.producer_state.entry import NO_TRANSACTION, BatchSpan, ProducerEntry
from semel.core.producer_state.row import HEAD, ROW_BYTES
from semel.core.producer_state.rows import FEW_BYTES, checksum, pieces, room_for, table_of
from semel.core.producer_state.snapshot import CorruptSnapshot
from semel.core.producer_state.state import ProducerState
from semel.sequence import SEQUENCE_MAX, advance
from semel.types import NO_SEQUENCE

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")  # version, CRC-32C of all that follows it, entries
_CRC: Final = struct.Struct(">I")
_BODY_START: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_FIELDS: Final = [
    ("producer_id", ">i8"),
    ("producer_epoch", ">i2"),
    ("last_sequence", ">i4"),
    ("last_offset", ">i8"),
    ("offset_delta", ">i4"),
    ("last_timestamp_ms", ">i8"),
    ("coordinator_epoch", ">i4"),
    ("transaction_start_offset", ">i8"),
]
_NONE: Final = -1


def encode_kafka_snapshot(rows: memoryview) -> memoryview:
    """In Kafka's format what ``rows`` hold, in their order."""
    count = len(rows) // ROW_BYTES
    data = room_for(_HEAD.size + count * _ENTRY.size)
    _HEAD.pack_into(data, 0, _VERSION, 0, count)
    encode = _encode_few if len(rows) <= FEW_BYTES else _encode_many
    encode(rows, data[_HEAD.size :])
    _CRC.pack_into(data, _BODY_START - _CRC.size, checksum(data[_BODY_START:]))
    return data


def _encode_few(rows: memoryview, into: memoryview) -> None:
    for n in range(len(rows) // ROW_BYTES):
        (
            producer_id,
            txn_first_offset,
            timestamp_ms,
            coordinator_epoch,
            producer_epoch,
            batches,
            base_offset,
            base,
            delta,
        ) = HEAD.unpack_from(rows, n * ROW_BYTES)
        _ENTRY.pack_into(
            into,
            n * _ENTRY.size,
            producer_id,
            producer_epoch,
            advance(base, delta) if batches else NO_SEQUENCE,
            base_offset + delta if batches else _NONE,
            delta,
            timestamp_ms,
            coordinator_epoch,
            txn_first_offset,
        )


def _encode_many(rows: memoryview, into: memoryview) -> None:
    """The same, with numpy."""
    import numpy as np

    all_entries = np.frombuffer(into, _FIELDS)
    done = 0
    for piece in pieces(rows):
        table = table_of(piece)
        newest, has_batch = table["window"][:, 0], table["batches"] > 0
        base, delta = newest["base_sequence"].astype(np.int64), newest["last_offset_delta"].astype(np.int64)
        entries = all_entries[done : done + len(table)]
        for name in ("producer_id", "producer_epoch", "last_timestamp_ms", "coordinator_epoch"):
            entries[name] = table[name]
        entries["last_sequence"] = np.where(has_batch, base + delta & SEQUENCE_MAX, NO_SEQUENCE)
        entries["last_offset"] = np.where(has_batch, newest["base_offset"] + delta, _NONE)
        entries["offset_delta"] = delta
        entries["transaction_start_offset"] = table["txn_first_offset"]
        done += len(table)


def decode_kafka_snapshot(content: bytes, *, end_offset: int, now_ms: int) -> ProducerState | CorruptSnapshot:
    """The state, with windows of one batch."""
    data = memoryview(content)
    if len(data) < _HEAD.size:
        return CorruptSnapshot("shorter than its head")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        return CorruptSnapshot(f"version {version}, not {_VERSION}")
    if checksum(data[_BODY_START:]) != crc:
        return CorruptSnapshot("its CRC does not match")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        return CorruptSnapshot("its length does not match its count")
    entries: dict[int, ProducerEntry] = {}
    for (
        producer_id,
        producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp_ms,
        coordinator_epoch,
        txn_first_offset,
    ) in _ENTRY.iter_unpack(data[_HEAD.size :]):
        window: tuple[BatchSpan, ...] = ()
        if last_offset >= 0 and last_sequence >= 0:
            if not 0 <= offset_delta <= last_offset:
                return CorruptSnapshot("a batch that begins before the log")
            base_sequence = advance(last_sequence, -offset_delta)
            window = (BatchSpan(base_sequence, last_sequence, last_offset - offset_delta, last_offset),)
        if txn_first_offset < NO_TRANSACTION:
            return CorruptSnapshot("a transaction that begins before the log")
        entries[producer_id] = ProducerEntry(
            producer_epoch, coordinator_epoch, timestamp_ms, window, txn_first_offset
        )
    return ProducerState(entries, end_offset=end_offset, now_ms=now_ms)
