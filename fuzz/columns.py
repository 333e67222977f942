"""The columnar decoder, which must refuse and accept just what the record decoder does."""

from __future__ import annotations

import pyarrow as pa

from fuzz.harness import main, sealed
from fuzz.records import DECOMPRESSED_BYTES_MAX, plain_batches
from semel.errors import CorruptRecordBatch
from semel.record.batch import decode_header, decode_records
from semel.record.columnar import decode_table

COLUMN_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


def target(data: bytes) -> None:
    batch = sealed(data)
    try:
        records = decode_records(batch, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    except CorruptRecordBatch:
        records = None
    try:
        table = decode_table(
            [batch],
            topic="t",
            partition=0,
            include_headers=True,
            include_timestamp_ms=True,
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
        )
    except CorruptRecordBatch:
        assert records is None
        raise
    table.validate(full=True)
    if decode_header(batch).is_control:
        assert table.num_rows == 0
        return
    assert records is not None
    assert table["offset"].to_pylist() == [record.offset for record in records]
    times_ms = [record.timestamp_ms for record in records]
    assert table["timestamp_ms"].to_pylist() == times_ms
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [
        ms * 1000 if abs(ms) <= COLUMN_TIMESTAMP_MS_MAX else None for ms in times_ms
    ]
    assert table["key"].to_pylist() == [record.key for record in records]
    assert table["value"].to_pylist() == [record.value for record in records]
    headers = [tuple((h["key"], h["value"]) for h in row or ()) for row in table["headers"].to_pylist()]
    assert headers == [record.headers for record in records]


if __name__ == "__main__":
    main("columns", plain_batches(), target)
