"""Record batches from and to Arrow columns, without a Python object a record.

Decode: scan headers and CRCs, decompress into an arena, index all records (:mod:`~semel.record.index`), then
let Arrow's ``take`` copy the fields out. Encode: the bytes between the fields are made in numpy, and Arrow
joins them with the columns; the joined column's data *is* the payload. Both work on blocks that stay in a
core's cache, so memory beyond the result is bounded by one arena (``_ARENA_BYTES``, or one batch's
``decompressed_bytes_max`` where that is more).

The table has the columns of Spark's Kafka source. Order of rows is order of offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import CorruptRecordBatch
from semel.record.batch import (
    HEADER_BYTES,
    BatchChoices,
    BatchHeader,
    TimestampType,
    assemble_batch,
    payload_of,
    scan_batches,
)
from semel.record.compression import DECOMPRESSED_BYTES_MAX, Buffer
from semel.record.index import (
    BLOCK_RECORDS_MAX,
    Bytes,
    HeaderFields,
    Int64s,
    fields_of,
    starts_of,
)
from semel.record.partitioner import murmur2
from semel.sequence import advance
from semel.types import NO_SEQUENCE

_ARENA_BYTES: Final = 8 * 1024 * 1024
_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
BATCH_ROWS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 1_000_000  # below Kafka's max.message.bytes

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_RAW_HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
)
_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)


def table_schema(
    *, include_headers: bool = False, include_timestamp_ms: bool = False, raw_header_keys: bool = False
) -> pa.Schema:
    """The schema of :func:`decode_table`."""
    headers = pa.field("headers", _RAW_HEADERS_TYPE if raw_header_keys else HEADERS_TYPE)
    schema = _SCHEMA.append(headers) if include_headers else _SCHEMA
    return schema.append(pa.field("timestamp_ms", pa.int64())) if include_timestamp_ms else schema


# --- decode -------------------------------------------------------------------------------------------


def decode_table(
    batches: Iterable[Buffer],
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    end_offset: int | None = None,
    include_headers: bool = False,
    allow_partial_tail: bool = False,
    include_timestamp_ms: bool = False,
    raw_header_keys: bool = False,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> pa.Table:
    """The records at ``from_offset`` … ``end_offset`` - 1 of these batches, fully validated.

    Each buffer holds one batch or a run of them. Control batches are left out. ``headers`` is null where a
    record has none, as in Spark's source. ``timestamp`` is null where a column of microseconds cannot hold the time, so
    that no record is in its readers' way; ``timestamp_ms`` has it as it is. A header key that is no UTF-8 is read as
    Java's clients read it (U+FFFD); with ``raw_header_keys`` the column has bytes.
    """
    end_offset = 2**63 - 1 if end_offset is None else end_offset
    schema = table_schema(
        include_headers=include_headers,
        include_timestamp_ms=include_timestamp_ms,
        raw_header_keys=raw_header_keys,
    )
    blocks = [
        block
        for arena in _arenas(batches, from_offset, end_offset, allow_partial_tail, decompressed_bytes_max)
        for block in _decode_arena(arena, (topic, partition), (from_offset, end_offset), schema)
    ]
    return pa.Table.from_batches(blocks, schema)


_Arena = list[tuple[BatchHeader, Buffer]]


def _arenas(
    batches: Iterable[Buffer],
    from_offset: int,
    end_offset: int,
    allow_partial_tail: bool,
    decompressed_bytes_max: int,
) -> Iterator[_Arena]:
    """Headers and decompressed payloads, in groups of about ``_ARENA_BYTES``."""
    arena: _Arena = []
    arena_bytes = 0
    for buffer in batches:
        for batch, header in scan_batches(buffer, allow_partial_tail=allow_partial_tail):
            if header.is_control or header.last_offset < from_offset or header.base_offset >= end_offset:
                continue
            payload = payload_of(batch, header, decompressed_bytes_max=decompressed_bytes_max)
            if arena and arena_bytes + len(payload) > _ARENA_BYTES:
                yield arena
                arena, arena_bytes = [], 0
            arena.append((header, payload))
            arena_bytes += len(payload)
    if arena:
        yield arena


def _decode_arena(
    arena: _Arena,
    source: tuple[str, int],
    offsets: tuple[int, int],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    payload = b"".join(payload for _, payload in arena)
    headers = [header for header, _ in arena]
    counts = np.array([header.record_count for header in headers], np.int64)
    ends = np.cumsum(np.array([len(part) for _, part in arena], np.int64))
    bounds = np.append(starts_of(payload, ends, counts), ends[-1])
    batch_of_record = np.repeat(np.arange(len(headers), dtype=np.int64), counts)
    previous_delta = -1
    for first in range(0, len(bounds) - 1, BLOCK_RECORDS_MAX):
        last = min(first + BLOCK_RECORDS_MAX, len(bounds) - 1)
        of_batch = batch_of_record[first:last]
        is_first = np.diff(of_batch, prepend=batch_of_record[first - 1] if first else -1) != 0
        block, previous_delta = _decode_block(
            payload,
            bounds[first : last + 1],
            headers,
            of_batch,
            is_first,
            previous_delta,
            source,
            offsets,
            schema,
        )
        yield block


def _decode_block(
    payload: bytes,
    bounds: Int64s,
    headers: list[BatchHeader],
    of_batch: Int64s,
    is_first: npt.NDArray[np.bool_],
    previous_delta: int,
    source: tuple[str, int],
    offsets: tuple[int, int],
    schema: pa.Schema,
) -> tuple[pa.RecordBatch, int]:
    fields = fields_of(np.frombuffer(payload, np.uint8), bounds[:-1], bounds[1:])

    def per_record(values: list[int]) -> Int64s:
        return np.array(values, np.int64)[of_batch]

    delta = fields.offset_delta
    before = np.empty_like(delta)
    before[0] = previous_delta
    before[1:] = delta[:-1]
    before[is_first] = -1
    if (delta <= before).any() or (
        delta > per_record([header.last_offset_delta for header in headers])
    ).any():
        raise CorruptRecordBatch("offset deltas fall, repeat, or pass their batch's last")
    offset = per_record([header.base_offset for header in headers]) + delta
    is_append_time = [header.timestamp_type is TimestampType.LOG_APPEND_TIME for header in headers]
    timestamp_type = per_record([int(is_append) for is_append in is_append_time])
    timestamp_ms, beyond_us = _times_ms(
        per_record(
            [
                header.max_timestamp if is_append else header.base_timestamp
                for header, is_append in zip(headers, is_append_time, strict=True)
            ]
        ),
        np.where(timestamp_type == TimestampType.LOG_APPEND_TIME, 0, fields.timestamp_delta),
    )

    from_offset, end_offset = offsets
    all_kept = offset[0] >= from_offset and offset[-1] < end_offset and bool((np.diff(offset) > 0).all())
    kept = (
        np.arange(len(offset), dtype=np.int64)
        if all_kept
        else np.flatnonzero((offset >= from_offset) & (offset < end_offset))
    )
    topic, partition = source
    without_time = None if beyond_us is None else beyond_us[kept]
    columns = [
        _gather(payload, fields.key_start, fields.key_length, kept, pa.binary()),
        _gather(payload, fields.value_start, fields.value_length, kept, pa.binary()),
        pa.repeat(pa.scalar(topic, pa.string()), len(kept)),
        pa.repeat(pa.scalar(partition, pa.int32()), len(kept)),
        pa.array(offset[kept]),
        pa.array(timestamp_ms[kept] * 1000, mask=without_time).view(pa.timestamp("us", "UTC")),
        pa.array(timestamp_type[kept].astype(np.int32)),
    ]
    if "headers" in schema.names:
        list_type = schema.field("headers").type
        columns.append(
            _header_lists(payload, fields.headers, fields.header_count, list_type).take(pa.array(kept))
        )
    if "timestamp_ms" in schema.names:
        columns.append(pa.array(timestamp_ms[kept]))
    block = pa.record_batch(columns, schema=schema)
    return block, int(delta[-1])


_Mask = npt.NDArray[np.bool_]


def _times_ms(base_ms: Int64s, delta_ms: Int64s) -> tuple[Int64s, _Mask | None]:
    """In milliseconds, and which of them do not fit into 64 bits as microseconds; ``None``: all do."""
    total = base_ms + delta_ms  # wraps, as in Java
    beyond_us = (total > _TIMESTAMP_MS_MAX) | (total < -_TIMESTAMP_MS_MAX)
    return total, beyond_us if beyond_us.any() else None


def _gather(
    payload: bytes, start: Int64s, length: Int64s, kept: Int64s | None, arrow_type: pa.DataType
) -> pa.Array:
    """The fields as a column: Arrow sees fields and the gaps between them as one array, and takes the fields.

    Fields of one kind lie in rising order within the payload, which is all that an offset buffer asks for.
    """
    count = len(start)
    offsets = np.empty(2 * count + 1, np.int32)  # a payload is below 2 GiB: its batch's length is an int32
    offsets[0 : 2 * count : 2] = start
    offsets[1 : 2 * count : 2] = start + np.maximum(length, 0)
    offsets[2 * count] = offsets[2 * count - 1] if count else 0
    validity = None
    is_null = length < 0
    if is_null.any():
        valid = np.ones(2 * count, np.bool_)
        valid[0::2] = ~is_null
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    interleaved = pa.Array.from_buffers(
        pa.binary(), 2 * count, [validity, pa.py_buffer(offsets), pa.py_buffer(payload)]
    )
    kept = np.arange(count, dtype=np.int64) if kept is None else kept
    taken = interleaved.take(pa.array(kept * 2))
    return taken if arrow_type == pa.binary() else taken.cast(arrow_type)


def _header_keys(payload: bytes, headers: HeaderFields, key_type: pa.DataType) -> pa.Array:
    keys = _gather(payload, headers.key_start, headers.key_length, None, pa.binary())
    try:
        return keys.cast(key_type)
    except pa.ArrowInvalid:  # some key is no UTF-8
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], key_type)


def _header_lists(
    payload: bytes, headers: HeaderFields, header_count: Int64s, list_type: pa.DataType
) -> pa.Array:
    keys = _header_keys(payload, headers, list_type.value_type.field("key").type)
    values = _gather(payload, headers.value_start, headers.value_length, None, pa.binary())
    offsets = np.zeros(len(header_count) + 1, np.int32)
    np.cumsum(header_count, out=offsets[1:])
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.StructArray.from_arrays([keys, values], fields=list(list_type.value_type)),
        type=list_type,
        mask=pa.array(header_count == 0),
    )


# --- encode -------------------------------------------------------------------------------------------


def encode_columns(
    key: pa.Array | pa.ChunkedArray | None,
    value: pa.Array | pa.ChunkedArray,
    timestamps_ms: int | Int64s | pa.Array | pa.ChunkedArray,
    headers: pa.Array | pa.ChunkedArray | None = None,
    *,
    base_sequence: int = NO_SEQUENCE,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    batch_rows_max: int = BATCH_ROWS_MAX,
    **choices: Unpack[BatchChoices],
) -> list[bytearray]:
    """All rows in order, as batches of at most ``batch_rows_max`` rows and ``batch_bytes_max`` bytes.

    Sizes are taken before compression; a row that alone passes the bound becomes a batch of its own. Columns
    are binary or string; ``headers`` is ``list<struct<key, value>>``; timestamps are milliseconds, one or a
    column, or a column of Arrow timestamps. Sequences go on from batch to batch.
    """
    row_count = len(value)
    timestamps = _timestamps_ms(timestamps_ms, row_count)
    for name, column in (("key", key), ("headers", headers)):
        if column is not None and len(column) != row_count:
            raise ValueError(f"{name} has {len(column)} rows, value has {row_count}")
    batches = []
    for start, end in _cuts(row_sizes_max(key, value, headers), batch_bytes_max, batch_rows_max):
        window = timestamps[start:end]
        payload = _encode_payload(
            None if key is None else _binary(key, start, end),
            _binary(value, start, end),
            window - window[0],
            None if headers is None else _contiguous(headers, start, end),
        )
        batches.append(
            assemble_batch(
                payload,
                record_count=end - start,
                last_offset_delta=end - start - 1,
                base_timestamp=int(window[0]),
                max_timestamp=int(window.max()),
                base_sequence=base_sequence,
                **choices,
            )
        )
        if base_sequence != NO_SEQUENCE:
            base_sequence = advance(base_sequence, end - start)
    return batches


_ROW_OVERHEAD_BYTES_MAX: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5  # every number of a record at its longest
_HEADER_OVERHEAD_BYTES_MAX: Final = 5 + 5


def _timestamps_ms(timestamps: Any, row_count: int) -> Int64s:
    if isinstance(timestamps, int):
        return np.full(row_count, timestamps, np.int64)
    if isinstance(timestamps, (pa.Array, pa.ChunkedArray)):
        if pa.types.is_timestamp(timestamps.type):
            timestamps = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False)
        if timestamps.null_count:
            raise ValueError("timestamps must not be null")
        timestamps = timestamps.cast(pa.int64()).to_numpy()
    result = np.asarray(timestamps, np.int64)
    if result.shape != (row_count,):
        raise ValueError(f"timestamps have {len(result)} rows, value has {row_count}")
    return result


def row_sizes_max(key: Any, value: Any, headers: Any) -> Int64s:
    """At least the bytes that each row will take."""
    sizes = _lengths(value) + _ROW_OVERHEAD_BYTES_MAX
    if key is not None:
        sizes += _lengths(key)
    if headers is not None and len(headers):
        flat = pc.list_flatten(headers)
        per_header = (
            _lengths(pc.struct_field(flat, 0))
            + _lengths(pc.struct_field(flat, 1))
            + _HEADER_OVERHEAD_BYTES_MAX
        )
        ends = np.concatenate(([0], np.cumsum(per_header)))
        rows = np.concatenate(([0], np.cumsum(_fill(pc.list_value_length(headers)))))
        sizes += np.diff(ends[rows])
    return sizes


def _lengths(column: Any) -> Int64s:
    return _fill(pc.binary_length(column))


def _fill(lengths: Any) -> Int64s:
    if lengths.null_count:
        lengths = lengths.fill_null(0)
    return np.asarray(lengths.to_numpy(), np.int64)


def _cuts(sizes: Int64s, batch_bytes_max: int, batch_rows_max: int) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(sizes)
    start = 0
    room = batch_bytes_max - HEADER_BYTES
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + room, side="right"))
        end = max(start + 1, min(end, start + batch_rows_max))
        yield start, end
        start = end


def _contiguous(column: Any, start: int, end: int) -> pa.Array:
    window = column.slice(start, end - start)
    return pa.concat_arrays(window.chunks) if isinstance(window, pa.ChunkedArray) else window


def _binary(column: Any, start: int, end: int) -> pa.Array:
    return _contiguous(column, start, end).cast(pa.binary())


def _encode_payload(
    key: pa.Array | None, value: pa.Array, timestamp_delta: Int64s, headers: pa.Array | None
) -> Buffer:
    count = len(value)
    value_length = _signed_lengths(value)
    key_length = np.full(count, -1, np.int64) if key is None else _signed_lengths(key)
    numbers = _Numbers(
        [timestamp_delta, np.arange(count, dtype=np.int64), key_length], constant_first=0, count=count
    )
    value_numbers = _Numbers([value_length], count=count)
    length = numbers.sizes + value_numbers.sizes + np.maximum(key_length, 0) + np.maximum(value_length, 0)
    if headers is None:
        header_numbers, header_blobs = None, None
        length += 1
    else:
        header_numbers = _Numbers([_fill(pc.list_value_length(headers))], count=count)
        header_blobs = _header_blobs(headers)
        length += header_numbers.sizes + _lengths(header_blobs)
    lead = _Numbers([length], count=count)
    parts: list[Any] = []
    if key is None:
        parts.append(_Numbers.joined(lead, numbers, value_numbers))
    else:
        parts += [_Numbers.joined(lead, numbers), _filled(key), value_numbers.column()]
    parts.append(_filled(value))
    if header_numbers is None:
        parts.append(pa.scalar(b"\0", pa.binary()))
    else:
        parts += [header_numbers.column(), header_blobs]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    _, offsets, data = joined.buffers()
    window = np.frombuffer(offsets, np.int32)[joined.offset : joined.offset + count + 1]
    return memoryview(data)[int(window[0]) : int(window[-1])]


def _signed_lengths(column: pa.Array) -> Int64s:
    lengths = pc.binary_length(column)
    if column.null_count:
        lengths = lengths.fill_null(-1)
    return np.asarray(lengths.to_numpy(), np.int64)


def _filled(column: pa.Array) -> pa.Array:
    return column.fill_null(b"") if column.null_count else column


def _header_blobs(headers: pa.Array) -> pa.Array:
    """Each row's encoded headers as one binary: neighbours in the flat column, so only offsets are new."""
    flat = pc.list_flatten(headers)
    names = pc.struct_field(flat, 0).cast(pa.binary())
    if names.null_count:
        raise ValueError("a header's key must not be null")
    values = pc.struct_field(flat, 1).cast(pa.binary())
    count = len(flat)
    encoded = pc.binary_join_element_wise(
        _Numbers([_signed_lengths(names)], count=count).column(),
        names,
        _Numbers([_signed_lengths(values)], count=count).column(),
        _filled(values),
        pa.scalar(b"", pa.binary()),
    )
    _, offsets, data = encoded.buffers()
    ends = (
        np.frombuffer(offsets, np.int32)[encoded.offset : encoded.offset + count + 1]
        if count
        else np.zeros(1)
    )
    rows = np.concatenate(([0], np.cumsum(_fill(pc.list_value_length(headers)))))
    return pa.Array.from_buffers(
        pa.binary(), len(headers), [None, pa.py_buffer(ends[rows].astype(np.int32)), data]
    )


class _Numbers:
    """Some varints a row, as a matrix of bytes and which of them count."""

    def __init__(self, columns: list[Int64s], *, count: int, constant_first: int | None = None) -> None:
        planes: list[tuple[Any, Any]] = []  # (bytes, or one byte; whether it counts, or True)
        if constant_first is not None:
            planes.append((constant_first, True))
        sizes: Any = int(constant_first is not None)
        for column in columns:
            zigzag = ((column << 1) ^ (column >> 63)).view(np.uint64)
            largest = int(zigzag.max()) if count else 0
            for index in range(max(1, (largest.bit_length() + 6) // 7)):
                rest = zigzag >> np.uint64(7 * index) if index else zigzag
                goes_on = rest >= 0x80
                counts: Any = True if index == 0 else rest > 0
                planes.append(
                    ((rest & np.uint64(0x7F)) | (goes_on.astype(np.uint64) << np.uint64(7)), counts)
                )
                sizes = sizes + (1 if index == 0 else counts.astype(np.int64))
        self._planes = planes
        self.sizes: Int64s = np.full(count, sizes, np.int64) if isinstance(sizes, int) else sizes

    def column(self) -> pa.Array:
        return _Numbers.joined(self)

    @staticmethod
    def joined(*numbers: _Numbers) -> pa.Array:
        """The varints of each row, one after the other, as a binary column."""
        planes = [plane for each in numbers for plane in each._planes]
        sizes = sum((each.sizes for each in numbers[1:]), numbers[0].sizes)
        count = len(sizes)
        matrix = np.empty((count, len(planes)), np.uint8)
        for index, (byte, _) in enumerate(planes):
            matrix[:, index] = byte
        if any(counts is not True for _, counts in planes):
            mask = np.empty(matrix.shape, np.bool_)
            for index, (_, counts) in enumerate(planes):
                mask[:, index] = counts
            data = matrix[mask]
        else:
            data = matrix.reshape(-1)
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


# --- partition ----------------------------------------------------------------------------------------

_FEW_ROWS: Final = 32  # below this, a step for all rows costs more than hashing them one by one
NO_KEY: Final = -1


def partition_rows(keys: pa.Array | pa.ChunkedArray, partition_count: int) -> npt.NDArray[np.int32]:
    """The partition of each key, as :func:`~semel.record.partitioner.partition_for_key`; -1 where null."""
    if isinstance(keys, pa.ChunkedArray):
        parts = [partition_rows(chunk, partition_count) for chunk in keys.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)
    keys = keys.cast(pa.binary())
    if not len(keys):
        return np.empty(0, np.int32)
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    # Reading words past the last key must stay inside of the buffer; a copy with room is the simple way.
    source = np.zeros(int(bounds[-1] - bounds[0]) + 4, np.uint8)
    if data is not None:
        source[:-4] = np.frombuffer(data, np.uint8)[int(bounds[0]) : int(bounds[-1])]
    hashed = _murmur2_rows(source, bounds[:-1] - bounds[0], np.diff(bounds))
    partitions = (hashed % np.uint32(partition_count)).astype(np.int32)
    if keys.null_count:
        partitions[keys.is_null().to_numpy(zero_copy_only=False)] = NO_KEY
    return partitions


_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFF_FFFF)


def _murmur2_rows(source: Bytes, start: Int64s, length: Int64s) -> npt.NDArray[np.uint32]:
    words = np.ndarray((len(source) - 3,), np.dtype("<u4"), source, strides=(1,))  # one at every byte
    word_count = length >> 2
    steps = int(np.partition(word_count, -_FEW_ROWS)[-_FEW_ROWS]) if len(length) >= _FEW_ROWS else 0
    hashed = _SEED ^ length.astype(np.uint32)
    shortest = int(word_count.min())
    for step in range(steps):
        if step < shortest:
            active: Any = slice(None)
            word = words[start + 4 * step]
        else:
            active = np.flatnonzero(word_count > step)
            word = words[start[active] + 4 * step]
        word = word * _MULTIPLIER
        word ^= word >> np.uint32(24)
        word *= _MULTIPLIER
        hashed[active] = hashed[active] * _MULTIPLIER ^ word
    tail = length & 3
    if tail.any():
        rest = words[start + (length & ~3)] & ((np.uint32(1) << (tail * 8).astype(np.uint32)) - np.uint32(1))
        hashed = np.where(tail > 0, (hashed ^ rest) * _MULTIPLIER, hashed)
    hashed ^= hashed >> np.uint32(13)
    hashed *= _MULTIPLIER
    hashed ^= hashed >> np.uint32(15)
    hashed &= _POSITIVE
    for row in np.flatnonzero(word_count > steps).tolist():  # the few longest
        hashed[row] = murmur2(source[start[row] : start[row] + length[row]].tobytes())
    return hashed
