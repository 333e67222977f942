"""A frame stage once more, from the beginning of its recorded input: its steps as batch queries of a session.

The same frame as in the stream, over the same rows in the same order: none of the steps shuffles. Only where the rows
come from and where they go to is another: through this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from semel.core.flow.pieces import Entry
from semel.core.sink.ranges import SourceRange
from semel.flow.frames import columns_read, decoded, frame_of, records_of
from semel.flow.plan import Stage
from semel.flow.replayed import recorded_rows
from semel.flow.rows_out import side_batches
from semel.spark.options import Connection

QUERY_ROWS: Final = 131_072  # of one query of Spark's


def framed(
    stage: Stage, connection: Connection, source_range: SourceRange, spark: Any
) -> Iterator[pa.RecordBatch]:
    """What a stage with steps of Spark's makes of a plain range."""
    waiting: list[pa.RecordBatch] = []
    entry = Entry()
    for table in recorded_rows(stage, connection, source_range):
        waiting += decoded(stage, source_range.source, table, entry)
        yield from side_batches(stage, entry, source_range.batch_from)
        if sum(batch.num_rows for batch in waiting) >= QUERY_ROWS:
            yield from _through(stage, waiting, spark)
            waiting = []
    yield from _through(stage, waiting, spark)


def _through(stage: Stage, batches: list[pa.RecordBatch], spark: Any) -> Iterator[pa.RecordBatch]:
    rows = [batch for batch in batches if batch.num_rows]
    if rows:
        frame = spark.createDataFrame(pa.Table.from_batches(rows), schema=columns_read(stage))
        yield from records_of(stage, frame_of(stage, frame).toArrow().combine_chunks())
