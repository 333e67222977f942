"""Where in an answer the damage is: what lies in front of it, and the error that names it."""

from __future__ import annotations

from semel.errors import CorruptRecordBatch, UnreadableBatch
from semel.record.batch import BatchHeader, decode_header, decode_records, validate_batch
from semel.types import TopicPartition


def sound_part(
    tp: TopicPartition, records: memoryview, from_offset: int, error: CorruptRecordBatch
) -> tuple[memoryview, UnreadableBatch]:
    """The whole batches in front of the one that gave ``error``, and that one by its place.

    Batch by batch, and row by row, for this is not the way of every answer. Where no batch alone is found to be
    damaged, it is taken to be the first one.
    """
    position, expected = 0, from_offset
    try:
        while position < len(records):
            header = validate_batch(records, position)
            stop = position + header.size_bytes
            if header.last_offset >= from_offset and not header.is_control:
                decode_records(records[position:stop])
            position, expected = stop, max(expected, header.last_offset + 1)
    except CorruptRecordBatch as found:
        error = found
    else:
        position, expected = 0, from_offset
    claimed = _header_at(records, position)
    if claimed is None or not expected <= claimed.last_offset:
        return records[:position], UnreadableBatch(tp, expected, None, str(error))
    offset = max(expected, claimed.base_offset)
    return records[:position], UnreadableBatch(tp, offset, claimed.last_offset + 1, str(error))


def _header_at(records: memoryview, position: int) -> BatchHeader | None:
    try:
        return decode_header(records, position)
    except CorruptRecordBatch:
        return None
