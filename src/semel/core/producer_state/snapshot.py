"""semel's producer snapshot: the whole window of every producer, and the offset that it stands for.

Kafka's own snapshot (:mod:`semel.core.producer_state.kafka_snapshot`) lies beside it and holds only the last
batch of each producer, so that a duplicate of the four before it would lose its offset over a restart.

Version 3 is a head and then the rows as they lie in memory (:mod:`semel.core.producer_state.row`), in the order
of their ids. Version 2, whose rows told nothing of transactions, and version 1 are read, too: then there were none.

Invariant: the bytes are a function of the state alone, and :func:`decode_snapshot` of any other bytes is a
:class:`CorruptSnapshot`, never a guess.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from semel.core.producer_state.entry import WINDOW_BATCHES_MAX, BatchSpan, ProducerEntry
from semel.core.producer_state.row import ROW_BYTES
from semel.core.producer_state.rows import (
    OLD_ROW_BYTES,
    are_canonical,
    checksum,
    put_in_order,
    room_for,
    widened,
)
from semel.core.producer_state.state import FrozenProducers, ProducerState
from semel.sequence import SEQUENCE_MAX, advance

FORMAT_VERSION: Final = 3
_MAGIC: Final = b"semelPS\0"
_HEAD: Final = struct.Struct(">8sHIqI")  # magic, version, CRC-32C of all that follows it, end offset, entries
_CRC: Final = struct.Struct(">I")
_BODY_START: Final = 14

_V1_ENTRY: Final = struct.Struct(">qhiqB")
_V1_SPAN: Final = struct.Struct(">iiqq")


@dataclass(frozen=True, slots=True)
class CorruptSnapshot:
    """The bytes are no snapshot of a known version; an older one, or the log itself, serves instead."""

    reason: str


def encode_snapshot(frozen: FrozenProducers) -> memoryview:
    """The state as bytes."""
    count = len(frozen)
    data = room_for(_HEAD.size + count * ROW_BYTES)
    _HEAD.pack_into(data, 0, _MAGIC, FORMAT_VERSION, 0, frozen.end_offset, count)
    put_in_order(frozen.slabs, rows_of(data))
    _CRC.pack_into(data, _BODY_START - _CRC.size, checksum(data[_BODY_START:]))
    return data


def rows_of(encoded: memoryview) -> memoryview:
    """The rows in what :func:`encode_snapshot` gave."""
    return encoded[_HEAD.size :]


def decode_snapshot(content: bytes, *, now_ms: int) -> ProducerState | CorruptSnapshot:
    """The state that :func:`encode_snapshot` was given; every id's life starts again at ``now_ms``."""
    data = memoryview(content)
    if len(data) < _HEAD.size:
        return CorruptSnapshot("shorter than its head")
    magic, version, crc, end_offset, count = _HEAD.unpack_from(data)
    if magic != _MAGIC or version not in (1, 2, FORMAT_VERSION):
        return CorruptSnapshot(f"not a producer snapshot of version {FORMAT_VERSION}")
    if checksum(data[_BODY_START:]) != crc:
        return CorruptSnapshot("its CRC does not match")
    if version == 1:
        return _decode_version_1(data, count, end_offset, now_ms)
    rows = rows_of(data)
    if len(rows) != count * (OLD_ROW_BYTES if version == 2 else ROW_BYTES):
        return CorruptSnapshot("its length does not match its count")
    if version == 2:
        rows = widened(rows)
    if not are_canonical(rows):
        return CorruptSnapshot("rows that cannot have been written")
    return ProducerState.load(rows, end_offset=end_offset, now_ms=now_ms)


def _decode_version_1(
    data: memoryview, count: int, end_offset: int, now_ms: int
) -> ProducerState | CorruptSnapshot:
    """The rows had as many spans as there were; a span told its last sequence and offset."""
    entries: dict[int, ProducerEntry] = {}
    position = _HEAD.size
    for _ in range(count):
        if position + _V1_ENTRY.size > len(data):
            return CorruptSnapshot("shorter than its entries")
        producer_id, producer_epoch, coordinator_epoch, timestamp_ms, spans = _V1_ENTRY.unpack_from(
            data, position
        )
        position += _V1_ENTRY.size
        if spans > WINDOW_BATCHES_MAX or position + spans * _V1_SPAN.size > len(data):
            return CorruptSnapshot("a window longer than can be")
        window = tuple(
            BatchSpan(*_V1_SPAN.unpack_from(data, position + n * _V1_SPAN.size)) for n in range(spans)
        )
        if not all(map(_is_whole, window)):
            return CorruptSnapshot("a batch that has not as many sequences as offsets")
        position += spans * _V1_SPAN.size
        entries[producer_id] = ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, window)
    if position != len(data):
        return CorruptSnapshot("bytes after its last entry")
    return ProducerState(entries, end_offset=end_offset, now_ms=now_ms)


def _is_whole(span: BatchSpan) -> bool:
    delta = span.last_offset - span.base_offset
    return (
        span.base_sequence >= 0
        and span.base_offset >= 0
        and 0 <= delta <= SEQUENCE_MAX
        and span.last_sequence == advance(span.base_sequence, delta)
    )
