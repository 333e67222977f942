"""semel's producer snapshot: the whole window of every producer, and the offset that it stands for.

Kafka's own snapshot (:mod:`semel.core.producer_state.kafka_snapshot`) lies beside it and holds only the last
batch of each producer, so that a duplicate of the four before it would lose its offset over a restart.

Invariant: the bytes are a function of the state alone, and :func:`decode_snapshot` of any other bytes is a
:class:`CorruptSnapshot`, never a guess.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import crc32c

from semel.core.producer_state.entry import WINDOW_BATCHES_MAX, BatchSpan, ProducerEntry
from semel.core.producer_state.state import ProducerState

FORMAT_VERSION: Final = 1
_MAGIC: Final = b"semelPS\0"
_HEAD: Final = struct.Struct(">8sHIqI")  # magic, version, CRC-32C of all that follows it, end offset, entries
_BODY_START: Final = 14
_ENTRY: Final = struct.Struct(">qhiqB")
_SPAN: Final = struct.Struct(">iiqq")


@dataclass(frozen=True, slots=True)
class CorruptSnapshot:
    """The bytes are no snapshot of this version; an older one, or the log itself, serves instead."""

    reason: str


def encode_snapshot(state: ProducerState) -> bytes:
    """``state`` as bytes, in the order of producer ids."""
    parts = [b""]
    for producer_id, entry in sorted(state):
        parts.append(
            _ENTRY.pack(
                producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_timestamp_ms,
                len(entry.window),
            )
        )
        parts.extend(_SPAN.pack(*span) for span in entry.window)
    parts[0] = _HEAD.pack(_MAGIC, FORMAT_VERSION, 0, state.end_offset, len(state))
    data = bytearray().join(parts)
    struct.pack_into(">I", data, _BODY_START - 4, crc32c.crc32c(memoryview(data)[_BODY_START:]))
    return bytes(data)


def decode_snapshot(data: bytes, *, now_ms: int) -> ProducerState | CorruptSnapshot:
    """The state that :func:`encode_snapshot` was given; every id's life starts again at ``now_ms``."""
    if len(data) < _HEAD.size:
        return CorruptSnapshot("shorter than its head")
    magic, version, crc, end_offset, count = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != FORMAT_VERSION:
        return CorruptSnapshot(f"not a producer snapshot of version {FORMAT_VERSION}")
    if crc32c.crc32c(memoryview(data)[_BODY_START:]) != crc:
        return CorruptSnapshot("its CRC does not match")
    entries: dict[int, ProducerEntry] = {}
    position = _HEAD.size
    for _ in range(count):
        if position + _ENTRY.size > len(data):
            return CorruptSnapshot("shorter than its entries")
        producer_id, producer_epoch, coordinator_epoch, timestamp_ms, spans = _ENTRY.unpack_from(
            data, position
        )
        position += _ENTRY.size
        if spans > WINDOW_BATCHES_MAX or position + spans * _SPAN.size > len(data):
            return CorruptSnapshot("a window longer than can be")
        window = tuple(BatchSpan(*_SPAN.unpack_from(data, position + n * _SPAN.size)) for n in range(spans))
        position += spans * _SPAN.size
        entries[producer_id] = ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, window)
    if position != len(data):
        return CorruptSnapshot("bytes after its last entry")
    return ProducerState(entries, end_offset=end_offset, now_ms=now_ms)
