"""A batch in another codec: the same records, everything about them validated (Kafka's ``LogValidator``).

Only what must change does: codec, size, CRC, and the largest timestamp, which is counted anew, as a header may say
what it likes. Offsets, base timestamp, producer and sequences stay, and so do the records' bytes.

Memory: the result, 8 bytes a record, and about 150 a header.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from semel.errors import CorruptRecordBatch
from semel.record.batch import BatchHeader, assemble_batch
from semel.record.compression import Compression
from semel.record.index import BLOCK_RECORDS_MAX, fields_of, walk

HEADERS_MAX: Final = 1 << 20  # of a batch: in a few compressed bytes there may be 60 million of them


def recompress(
    payload: bytes, header: BatchHeader, compression: Compression, level: int | None = None
) -> bytearray:
    """The batch with this header, whose CRC was checked, and these records, compressed so.

    :class:`CorruptRecordBatch` if its records are not what the header says.
    """
    return assemble_batch(
        payload,
        record_count=header.record_count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=_check(payload, header),
        timestamp_type=header.timestamp_type,
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        compression=compression,
        compression_level=level,
        partition_leader_epoch=header.partition_leader_epoch,
        transactional=header.is_transactional,
        control=header.is_control,
    )


def _check(payload: bytes, header: BatchHeader) -> int:
    """The largest timestamp of the records, which must be one for each offset."""
    positions: array[int] = array("q")
    walk(payload, 0, len(payload), header.record_count, positions)
    bounds = np.append(np.frombuffer(positions, np.int64), len(payload))
    content = np.frombuffer(payload, np.uint8)
    newest_ms: int | None = None
    headers_left = HEADERS_MAX
    for first in range(0, header.record_count, BLOCK_RECORDS_MAX):
        block = bounds[first : first + BLOCK_RECORDS_MAX + 1]
        fields = fields_of(content, block[:-1], block[1:], headers_max=headers_left)
        headers_left -= len(fields.headers.record)
        if not np.array_equal(fields.offset_delta, np.arange(first, first + len(block) - 1)):
            raise CorruptRecordBatch("the offsets of records do not count up by one")
        block_ms = int(
            (fields.timestamp_delta + np.int64(header.base_timestamp)).max()
        )  # wraps, as for a reader
        newest_ms = block_ms if newest_ms is None else max(newest_ms, block_ms)
    if newest_ms is None:
        raise CorruptRecordBatch("a batch without records")
    return newest_ms
