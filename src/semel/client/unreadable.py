"""Where in an answer the batch is that cannot be read: what lies in front of it, and the error that names it.

A batch's CRC speaks for all of it but its offset, its length and its version. Those are held against what follows:
offsets rise, and an answer that is not empty holds at least one whole batch (KIP-74), or its reader would ask for it
for ever. Where the CRC is right, and the records cannot be read, nothing was damaged: they were produced so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from semel.core.client.visible import visible_batches
from semel.errors import CorruptRecordBatch, UnreadableBatch
from semel.record.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    decode_header,
    has_right_crc,
    scan_batches,
    validate_batch,
)
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTH: Final = slice(8, LOG_OVERHEAD_BYTES)
_MAGIC_AT: Final = 16
_OLDER: Final = (0, 1)  # versions that were


def check_progress(records: memoryview) -> None:
    """:class:`CorruptRecordBatch` if the answer has bytes and not one whole batch."""
    if records and next(scan_batches(records, allow_partial_tail=True, check_crc=False), None) is None:
        raise CorruptRecordBatch("the answer is not empty, and holds no whole batch")


def sound_part(
    tp: TopicPartition,
    records: memoryview,
    from_offset: int,
    error: CorruptRecordBatch,
    aborted: Iterable[tuple[int, int]] = (),
) -> tuple[memoryview, UnreadableBatch]:
    """The whole batches in front of the one that gave ``error``, and that one by its place.

    Batch by batch, for this is not the way of every answer; of those that ``aborted`` hides nobody wants the records.
    Where no batch alone is found to be damaged, it is taken to be the first one.
    """
    position, found = _damaged(tp, records, from_offset)
    whole = records[:position]
    for batch in visible_batches(whole, from_offset, aborted).batches:
        produced_so = unreadable(tp, batch, from_offset, None)
        if produced_so is not None:
            return whole[: _place_of(whole, batch)], produced_so
    if found is None:
        return records[:0], _named(tp, records, 0, from_offset, str(error), is_damaged=True)
    return whole, found


def tables_of(
    tp: TopicPartition,
    batches: Sequence[memoryview],
    from_offset: int,
    end_offset: int | None = None,
    *,
    include_headers: bool = False,
    include_timestamp_ms: bool = False,
) -> Iterator[pa.Table | UnreadableBatch]:
    """The records of batches whose CRCs are right, in order; in the place of one that cannot be read its error."""
    from semel.record.columnar import decode_table

    decode = partial(
        decode_table,
        topic=tp.topic,
        partition=tp.partition,
        from_offset=from_offset,
        end_offset=end_offset,
        include_headers=include_headers,
        include_timestamp_ms=include_timestamp_ms,
    )
    try:
        whole = decode(batches)
    except CorruptRecordBatch:
        pass
    else:
        yield whole
        return
    readable: list[memoryview] = []
    for batch in batches:
        found = unreadable(tp, batch, from_offset, end_offset)
        if found is None:
            readable.append(batch)
            continue
        yield decode(readable)
        yield found
        readable = []
    yield decode(readable)


def unreadable(
    tp: TopicPartition, batch: memoryview, from_offset: int, end_offset: int | None
) -> UnreadableBatch | None:
    """The error of a batch whose CRC is right, if its records cannot be read."""
    from semel.record.columnar import decode_table

    try:
        decode_table(
            [batch], topic=tp.topic, partition=tp.partition, from_offset=from_offset, end_offset=end_offset
        )
    except CorruptRecordBatch as error:
        header = decode_header(batch)
        return UnreadableBatch(
            tp,
            max(header.base_offset, from_offset),
            header.last_offset + 1,
            str(error),
            is_damaged=False,
            batch=bytes(batch),
        )
    return None


def _damaged(tp: TopicPartition, records: memoryview, from_offset: int) -> tuple[int, UnreadableBatch | None]:
    """How far batches are whole by their headers and CRCs, and the one behind that, unless it is the end."""
    position, expected = 0, from_offset
    gap: tuple[int, int] | None = (
        None  # the batch before lies further on than it had to: where, and what was due
    )
    try:
        for batch, header in scan_batches(records, allow_partial_tail=True):
            if position and header.base_offset < expected:
                position, expected = gap or (position, expected)  # then it is that one whose offset is wrong
                why = f"offset {header.base_offset} stands behind it"
                return position, _named(tp, records, position, expected, why, is_damaged=True)
            gap = (position, expected) if header.base_offset > expected else None
            position, expected = position + len(batch), max(expected, header.last_offset + 1)
        if position < len(records):
            validate_batch(records, position)
    except CorruptRecordBatch as error:
        is_damaged = _is_damaged(_whole_at(records, position), expected)
        return position, _named(tp, records, position, expected, str(error), is_damaged=is_damaged)
    return position, None


def _named(
    tp: TopicPartition, records: memoryview, position: int, offset: int, why: str, *, is_damaged: bool
) -> UnreadableBatch:
    return UnreadableBatch(
        tp,
        offset,
        _behind(records, position, offset),
        why,
        is_damaged=is_damaged,
        batch=bytes(_whole_at(records, position)),
    )


def _whole_at(records: memoryview, position: int) -> memoryview:
    """The batch by what it says of its length, if the answer has so much."""
    size_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(records[position:][_LENGTH], "big", signed=True)
    batch = records[position : position + max(size_bytes, 0)]
    return batch if len(batch) == size_bytes >= HEADER_BYTES else records[:0]


def _is_damaged(batch: memoryview, offset: int) -> bool:
    """Neither the offset nor the version is under the CRC; a batch of an older version has another checksum."""
    if not batch or batch[_MAGIC_AT] != MAGIC:
        return not batch or batch[_MAGIC_AT] not in _OLDER or has_right_crc(batch)
    return not has_right_crc(batch) or int.from_bytes(batch[:8], "big", signed=True) < offset


def _place_of(records: memoryview, batch: memoryview) -> int:
    """Where one of the batches begins."""
    wanted, position = decode_header(batch).base_offset, 0
    for each, header in scan_batches(records, check_crc=False):
        if header.base_offset == wanted:
            break
        position += len(each)
    return position


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
