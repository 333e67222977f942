"""Control batches: one record that ends a transaction, or fences a writer (Kafka's ``EndTransactionMarker``).

Key: version int16, type int16 (0 abort, 1 commit). Value: version int16, coordinator epoch int32. Higher
versions only append fields (KIP-890), so they are read too. A marker carries no sequence; its producer epoch
is what fences.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from semel.errors import CorruptRecordBatch
from semel.record.batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    Record,
    decode_records,
    encode_batch,
    validate_batch,
)

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
# A marker's record as everybody writes it: every number that varies in length is one byte.
_PLAIN: Final = struct.Struct(">BxBBBhhBhiB")  # length, attributes, two deltas, key, value, no headers
# What it says of its own form; lengths are doubled, as varints have them.
_PLAIN_FORM: Final = (2 * (_PLAIN.size - 1), 0, 0, 2 * _KEY.size, 2 * _VALUE.size, 0)
_MARKER_BYTES_MAX: Final = 64 * 1024  # one record of a dozen bytes; anything near this is not a marker


class MarkerType(IntEnum):
    """``ControlRecordType``, the two that concern producers."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """A transaction marker in the log, at ``offset``."""

    marker_type: MarkerType
    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def encode_abort_marker(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """A control batch that aborts this producer's transaction, if any, and fences lower epochs."""
    return _encode(MarkerType.ABORT, producer_id, producer_epoch, coordinator_epoch, timestamp_ms)


def encode_commit_marker(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """A control batch that commits this producer's transaction."""
    return _encode(MarkerType.COMMIT, producer_id, producer_epoch, coordinator_epoch, timestamp_ms)


def _encode(
    marker_type: MarkerType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
) -> bytearray:
    marker = Record(
        0, timestamp_ms, _KEY.pack(_VERSION, marker_type), _VALUE.pack(_VERSION, coordinator_epoch)
    )
    return encode_batch(
        [marker],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def is_abort(control_batch: Buffer) -> bool:
    """Whether it is an abort marker."""
    marker = decode_marker(control_batch)
    return marker is not None and marker.marker_type is MarkerType.ABORT


def decode_marker(batch: Buffer) -> Marker | None:
    """The marker in a control batch, or None for a control record of another kind (Raft's, say)."""
    header = validate_batch(batch)
    if not header.is_control:
        raise CorruptRecordBatch("not a control batch")
    plain = _plain_marker(batch, header)
    if plain is not None:
        return plain
    records = decode_records(batch, decompressed_bytes_max=_MARKER_BYTES_MAX)
    if not records:
        return None  # compacted away
    record = records[0]
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecordBatch("control record without a type")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptRecordBatch(f"control record has version {version}")
    if kind not in (MarkerType.ABORT, MarkerType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecordBatch("transaction marker without a coordinator epoch")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(
        MarkerType(kind),
        record.offset,
        record.timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        coordinator_epoch,
    )


def _plain_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The same for the one form that nearly all have, without the way through records: a start reads many."""
    is_plain = header.record_count == 1 and header.size_bytes == len(batch) == HEADER_BYTES + _PLAIN.size
    if not is_plain or header.compression or header.timestamp_type:
        return None
    length, timestamp_delta, offset_delta, key_bytes, *key, value_bytes, _, epoch, headers = (
        _PLAIN.unpack_from(batch, HEADER_BYTES)
    )
    key_version, kind = key
    form = (length, timestamp_delta, offset_delta, key_bytes, value_bytes, headers)
    if form != _PLAIN_FORM or key_version < 0 or kind not in (MarkerType.ABORT, MarkerType.COMMIT):
        return None
    return Marker(
        MarkerType(kind),
        header.base_offset,
        header.base_timestamp,
        header.producer_id,
        header.producer_epoch,
        epoch,
    )
