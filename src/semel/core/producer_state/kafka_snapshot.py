"""Kafka's producer snapshot, version 1 (``ProducerStateManager``): for Kafka's tools, and to come from Kafka.

It keeps the last batch of each producer. The offset it stands for is in the file's name only.
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.core.producer_state.snapshot import CorruptSnapshot
from semel.core.producer_state.state import ProducerState
from semel.sequence import advance
from semel.types import NO_SEQUENCE

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")  # version, CRC-32C of all that follows it, entries
_BODY_START: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_NONE: Final = -1


def encode_kafka_snapshot(state: ProducerState) -> bytes:
    """``state`` in Kafka's format, in the order of producer ids."""
    data = bytearray(_HEAD.pack(_VERSION, 0, len(state)))
    for producer_id, entry in sorted(state):
        last = entry.window[-1] if entry.window else None
        data += _ENTRY.pack(
            producer_id,
            entry.producer_epoch,
            NO_SEQUENCE if last is None else last.last_sequence,
            _NONE if last is None else last.last_offset,
            0 if last is None else last.last_offset - last.base_offset,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            _NONE,  # first offset of its open transaction
        )
    struct.pack_into(">I", data, 2, crc32c.crc32c(memoryview(data)[_BODY_START:]))
    return bytes(data)


def decode_kafka_snapshot(data: bytes, *, end_offset: int, now_ms: int) -> ProducerState | CorruptSnapshot:
    """The state, with windows of one batch."""
    if len(data) < _HEAD.size:
        return CorruptSnapshot("shorter than its head")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        return CorruptSnapshot(f"version {version}, not {_VERSION}")
    if crc32c.crc32c(memoryview(data)[_BODY_START:]) != crc:
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
        _,
    ) in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        window: tuple[BatchSpan, ...] = ()
        if last_offset >= 0 and last_sequence >= 0:
            base_sequence = advance(last_sequence, -offset_delta)
            window = (BatchSpan(base_sequence, last_sequence, last_offset - offset_delta, last_offset),)
        entries[producer_id] = ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, window)
    return ProducerState(entries, end_offset=end_offset, now_ms=now_ms)
