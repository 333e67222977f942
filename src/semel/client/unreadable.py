"""Where in an answer the damage is: what lies in front of it, and the error that names it.

A batch's CRC speaks for all of it but its offset and its length. Those are held against what follows: offsets
rise, and an answer that is not empty holds at least one whole batch (KIP-74), or its reader would ask for it for
ever.
"""

from __future__ import annotations

from typing import Final

from semel.errors import CorruptRecordBatch, UnreadableBatch
from semel.record.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    decode_header,
    decode_records,
    scan_batches,
    validate_batch,
)
from semel.types import TopicPartition

_LENGTH: Final = slice(8, LOG_OVERHEAD_BYTES)


def check_progress(records: memoryview) -> None:
    """:class:`CorruptRecordBatch` if the answer has bytes and not one whole batch."""
    if records and next(scan_batches(records, allow_partial_tail=True, check_crc=False), None) is None:
        raise CorruptRecordBatch("the answer is not empty, and holds no whole batch")


def sound_part(
    tp: TopicPartition, records: memoryview, from_offset: int, error: CorruptRecordBatch
) -> tuple[memoryview, UnreadableBatch]:
    """The whole batches in front of the one that gave ``error``, and that one by its place.

    Batch by batch, and row by row, for this is not the way of every answer. Where no batch alone is found to be
    damaged, it is taken to be the first one.
    """
    position, expected = 0, from_offset
    gap: tuple[int, int] | None = (
        None  # the batch before lies further on than it had to: where, and what was due
    )
    try:
        while position < len(records):
            header = validate_batch(records, position)
            if position and header.base_offset < expected:
                position, expected = gap or (position, expected)  # then it is that one whose offset is wrong
                raise CorruptRecordBatch(f"offset {header.base_offset} stands behind it")
            stop = position + header.size_bytes
            if header.last_offset >= from_offset and not header.is_control:
                decode_records(records[position:stop])
            gap = (position, expected) if header.base_offset > expected else None
            position, expected = stop, max(expected, header.last_offset + 1)
    except CorruptRecordBatch as found:
        error = found
    else:
        position, expected = 0, from_offset
    return records[:position], UnreadableBatch(tp, expected, _behind(records, position, expected), str(error))


def _behind(records: memoryview, position: int, offset: int) -> int | None:
    """The offset behind a damaged batch: the next one's, or what it says itself if that is not against reason."""
    length = int.from_bytes(records[position:][_LENGTH], "big", signed=True)
    after = _header_at(records, position + LOG_OVERHEAD_BYTES + length) if length > 0 else None
    if after is not None and after.base_offset > offset:
        return after.base_offset
    itself = _header_at(records, position)
    if itself is None or not itself.is_dense or itself.last_offset < offset:
        return None
    return itself.last_offset + 1


def _header_at(records: memoryview, position: int) -> BatchHeader | None:
    if position + HEADER_BYTES > len(records):
        return None
    try:
        return decode_header(records, position)
    except CorruptRecordBatch:
        return None
