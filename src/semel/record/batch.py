"""The record batch, version 2: header, CRC, whole batches (Kafka's ``DefaultRecordBatch``; KIP-98).

::

     0 base_offset            int64  \\  assigned by the log,
     8 batch_length           int32   > outside of the CRC
    12 partition_leader_epoch int32  /
    16 magic                  int8      2; 0 and 1 are refused
    17 crc                    uint32    CRC-32C of everything from byte 21 on
    21 attributes             int16     bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control,
    23 last_offset_delta      int32          6 base_timestamp is a delete horizon (KIP-534)
    27 base_timestamp         int64
    35 max_timestamp          int64
    43 producer_id            int64
    51 producer_epoch         int16
    53 base_sequence          int32
    57 record_count           int32
    61 the records, compressed as one

Invariants: :func:`decode_header` never reads past the buffer and gives only headers whose numbers agree with
each other; a batch that :func:`validate_batch` lets pass is bit for bit what its producer wrote (except for
the three fields of the log). A compacted batch may hold fewer records than offsets, even none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypedDict, Unpack

from crc32c import crc32c

from semel.errors import CorruptRecordBatch
from semel.record.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress, decompress
from semel.record.records import (
    Record,
    RecordLike,
    check_record_count,
    decode_payload,
    encode_payload,
)
from semel.sequence import last_of
from semel.types import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

__all__ = [
    "CONTROL_BIT",
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "TRANSACTIONAL_BIT",
    "BatchHeader",
    "Buffer",
    "Compression",
    "Record",
    "RecordLike",
    "TimestampType",
    "assemble_batch",
    "assign_offsets",
    "decode_header",
    "decode_records",
    "encode_batch",
    "max_timestamp_of",
    "payload_of",
    "restamp",
    "scan_batches",
    "validate_batch",
    "without_producer",
    "without_transaction",
]

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12  # base_offset and batch_length, which batch_length does not count
MAGIC: Final = 2
BATCH_BYTES_MAX: Final = 2**31 - 1

_LAYOUT: Final = struct.Struct(">qiibIhiqqqhii")
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CHECKED_AT: Final = 21
_LEADER_EPOCH_AT: Final = 12
_LENGTH_AT: Final = 8
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qhi")  # id, epoch, base sequence
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UINT32: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_OFFSET_MAX: Final = 2**63 - 1

_COMPRESSION_BITS: Final = 0b0000_0111
_CODEC_MAX: Final = int(max(Compression))
LOG_APPEND_TIME_BIT: Final = 0b0000_1000
TRANSACTIONAL_BIT: Final = 0b0001_0000
CONTROL_BIT: Final = 0b0010_0000
DELETE_HORIZON_BIT: Final = 0b0100_0000


class TimestampType(IntEnum):
    """Whose clock a record's timestamp is from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records. A tuple: one is made for every batch on the hot path."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Inclusive, and taken from the offsets: compaction removes records, never sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return last_of(self.base_sequence, self.last_offset_delta + 1)

    @property
    def compression(self) -> Compression:
        return Compression(self.attributes & _COMPRESSION_BITS)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & LOG_APPEND_TIME_BIT) >> 3)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """``base_timestamp`` is when a compacted batch's tombstones may go (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def is_dense(self) -> bool:
        """One record an offset: true of every batch from a producer, not of every compacted one."""
        return self.record_count == self.last_offset_delta + 1


def decode_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at ``position``, its numbers checked, its CRC not."""
    available = len(buffer) - position
    if available > _MAGIC_AT and buffer[position + _MAGIC_AT] != MAGIC:
        magic = buffer[position + _MAGIC_AT]
        raise CorruptRecordBatch(
            f"message format {magic} is too old: semel reads record batches of version 2 (Kafka >= 0.11)"
            if magic in (0, 1)
            else f"unknown record batch version {magic}, expected 2"
        )
    if available < HEADER_BYTES:
        raise CorruptRecordBatch(f"batch header needs {HEADER_BYTES} bytes, got {max(0, available)}")
    header = BatchHeader._make(_LAYOUT.unpack_from(buffer, position))
    base_offset, batch_length, _, _, _, attributes, last_offset_delta, *_, record_count = header
    payload_bytes = batch_length + (LOG_OVERHEAD_BYTES - HEADER_BYTES)
    if payload_bytes < 0:
        raise CorruptRecordBatch(f"batch length {batch_length} is less than a header's")
    if last_offset_delta < 0 or not 0 <= record_count <= last_offset_delta + 1:
        raise CorruptRecordBatch(
            f"batch claims {record_count} records and a last offset delta of {last_offset_delta}"
        )
    if base_offset < 0 or base_offset > _OFFSET_MAX - last_offset_delta:
        raise CorruptRecordBatch(f"batch has base offset {base_offset}")
    codec = attributes & _COMPRESSION_BITS
    if codec == 0:
        check_record_count(record_count, payload_bytes)
    elif codec > _CODEC_MAX:
        raise CorruptRecordBatch(f"batch has unknown compression {codec}")
    else:
        check_record_count(record_count, DECOMPRESSED_BYTES_MAX)  # more than anybody could decompress
    return header


def validate_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """:func:`decode_header`, and the batch is whole and its CRC right. No record is looked at."""
    header = decode_header(buffer, position)
    end = position + LOG_OVERHEAD_BYTES + header.batch_length
    if end > len(buffer):
        raise CorruptRecordBatch(
            f"batch claims {header.size_bytes} bytes, {len(buffer) - position} are there"
        )
    window = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    crc = crc32c(window[position + _CHECKED_AT : end])
    if crc != header.crc:
        raise CorruptRecordBatch(f"batch CRC is {crc:#010x}, its header says {header.crc:#010x}")
    return header


def has_right_crc(batch: Buffer) -> bool:
    """Whether the bytes from the attributes on are those that were produced, whatever they say."""
    if len(batch) < HEADER_BYTES:
        return False
    (crc,) = _UINT32.unpack_from(batch, _CRC_AT)
    return bool(crc32c(memoryview(batch)[_CHECKED_AT:]) == crc)


def scan_batches(
    buffer: Buffer, *, allow_partial_tail: bool = False, check_crc: bool = True
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Each batch of a concatenation, as in fetch answers and segment files.

    A fetch answer may end in mid-batch (``allow_partial_tail``); what is cut off is not yielded.
    """
    window = memoryview(buffer)
    end = len(window)
    position = 0
    while position < end:
        if allow_partial_tail and _is_cut_off(window, position):
            return
        header = validate_batch(window, position) if check_crc else decode_header(window, position)
        stop = position + header.size_bytes
        if stop > end:
            raise CorruptRecordBatch(f"batch claims {header.size_bytes} bytes, {end - position} are there")
        yield window[position:stop], header
        position = stop


def _is_cut_off(window: memoryview, position: int) -> bool:
    available = len(window) - position
    if available < HEADER_BYTES:
        return True
    (batch_length,) = _INT32.unpack_from(window, position + _LENGTH_AT)
    return bool(LOG_OVERHEAD_BYTES + batch_length > available)


def leader_epoch_in(head: bytes) -> int:
    """The partition leader epoch of a batch, of which the first :data:`HEADER_BYTES` are here. No CRC covers it."""
    (leader_epoch,) = _INT32.unpack_from(head, _LEADER_EPOCH_AT)
    return int(leader_epoch)


def assign_offsets(
    batch: memoryview | bytearray,
    base_offset: int,
    partition_leader_epoch: int,
    *,
    append_time_ms: int | None = None,
) -> None:
    """Write what the log assigns, in place.

    The fields lie outside of the CRC. With ``append_time_ms`` the batch becomes LogAppendTime, which lies
    inside: the CRC is computed anew.
    """
    _INT64.pack_into(batch, 0, base_offset)
    _INT32.pack_into(batch, _LEADER_EPOCH_AT, partition_leader_epoch)
    if append_time_ms is None:
        return
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _CHECKED_AT)
    _ATTRIBUTES.pack_into(batch, _CHECKED_AT, attributes | LOG_APPEND_TIME_BIT)
    _INT64.pack_into(batch, _MAX_TIMESTAMP_AT, append_time_ms)
    (batch_length,) = _INT32.unpack_from(batch, _LENGTH_AT)
    checked = memoryview(batch)[_CHECKED_AT : LOG_OVERHEAD_BYTES + batch_length]
    _UINT32.pack_into(batch, _CRC_AT, crc32c(checked))


def max_timestamp_of(batch: Buffer) -> int:
    """What its header says, and no more than that is read."""
    (timestamp_ms,) = _INT64.unpack_from(batch, _MAX_TIMESTAMP_AT)
    return int(timestamp_ms)


def without_transaction(batch: Buffer) -> bytearray:
    """The same records of the same producer, whatever becomes of a transaction."""
    plain = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(plain, _CHECKED_AT)
    _ATTRIBUTES.pack_into(plain, _CHECKED_AT, attributes & ~TRANSACTIONAL_BIT)
    _UINT32.pack_into(plain, _CRC_AT, crc32c(memoryview(plain)[_CHECKED_AT:]))
    return plain


def without_producer(batch: Buffer) -> bytearray:
    """The same records at the same offsets, of nobody: only the sequence still tells that they were somebody's."""
    nobodys = without_transaction(batch)
    base_sequence = decode_header(batch).base_sequence
    _PRODUCER.pack_into(nobodys, _PRODUCER_AT, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, base_sequence)
    _UINT32.pack_into(nobodys, _CRC_AT, crc32c(memoryview(nobodys)[_CHECKED_AT:]))
    return nobodys


def restamp(batch: Buffer, *, producer_id: int, producer_epoch: int, base_sequence: int) -> bytearray:
    """The same records, compressed as they are, as another producer's batch that is in no transaction and no log."""
    stamped = bytearray(batch)
    _INT64.pack_into(stamped, 0, 0)
    _INT32.pack_into(stamped, _LEADER_EPOCH_AT, NO_LEADER_EPOCH)
    (attributes,) = _ATTRIBUTES.unpack_from(stamped, _CHECKED_AT)
    _ATTRIBUTES.pack_into(stamped, _CHECKED_AT, attributes & ~TRANSACTIONAL_BIT)
    _PRODUCER.pack_into(stamped, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _UINT32.pack_into(stamped, _CRC_AT, crc32c(memoryview(stamped)[_CHECKED_AT:]))
    return stamped


class BatchChoices(TypedDict, total=False):
    """What whoever writes a batch may choose; :func:`assemble_batch` has the defaults."""

    producer_id: int
    producer_epoch: int
    compression: Compression
    compression_level: int | None
    partition_leader_epoch: int
    transactional: bool


def encode_batch(
    records: Sequence[RecordLike],
    *,
    base_offset: int = 0,
    base_sequence: int = NO_SEQUENCE,
    control: bool = False,
    **choices: Unpack[BatchChoices],
) -> bytearray:
    """One batch of these records, at offsets ``base_offset``, + 1, + 2 … whatever the records say."""
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp_ms
    return assemble_batch(
        encode_payload(records, base_timestamp),
        record_count=len(records),
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp_ms for record in records),
        base_offset=base_offset,
        base_sequence=base_sequence,
        control=control,
        **choices,
    )


def assemble_batch(
    payload: Buffer,
    *,
    record_count: int,
    last_offset_delta: int,
    base_timestamp: int = NO_TIMESTAMP,
    max_timestamp: int = NO_TIMESTAMP,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> bytearray:
    """Compress encoded records and put header and CRC before them."""
    packed = compress(payload, compression, level=compression_level)
    size_bytes = HEADER_BYTES + len(packed)
    if size_bytes > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {size_bytes} bytes; {BATCH_BYTES_MAX} is the most")
    batch = bytearray(HEADER_BYTES)
    _LAYOUT.pack_into(
        batch,
        0,
        base_offset,
        size_bytes - LOG_OVERHEAD_BYTES,
        partition_leader_epoch,
        MAGIC,
        0,  # the CRC, below
        compression
        | timestamp_type << 3
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon else 0),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch += packed
    _UINT32.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CHECKED_AT:]))
    return batch


def payload_of(
    batch: Buffer, header: BatchHeader, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """A batch's records, decompressed, and enough bytes of them for the header's count."""
    compression = header.compression
    payload: Buffer = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if compression is not Compression.NONE:
        payload = decompress(payload, compression, decompressed_bytes_max=decompressed_bytes_max)
    check_record_count(header.record_count, len(payload))
    return payload


def decode_records(batch: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """The records of one batch, everything about it validated. ``batch`` is that batch and nothing more."""
    header = validate_batch(batch)
    if header.size_bytes != len(batch):
        raise CorruptRecordBatch(f"{len(batch) - header.size_bytes} bytes follow the batch")
    payload = payload_of(batch, header, decompressed_bytes_max=decompressed_bytes_max)
    return decode_payload(
        bytes(payload),
        header.record_count,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        append_time_ms=(
            header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        ),
    )
