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
from semel.flow.frame_session import active, frame_session
from semel.flow.frames import (
    Between,
    as_spark_sees,
    columns_read,
    decoded,
    frame_of,
    records_of,
    tombstones_of,
)
from semel.flow.plan import Stage
from semel.flow.replayed import recorded_rows
from semel.flow.rows_out import side_batches
from semel.spark.options import Connection

QUERY_ROWS: Final = 131_072  # of one query of Spark's, and the tombstones among them


def framed(
    stage: Stage, connection: Connection, source_range: SourceRange, spark: Any
) -> Iterator[pa.RecordBatch]:
    """What a stage with steps of Spark's makes of a plain range."""
    spark = frame_session(spark)
    waiting: list[pa.Table] = []
    between, read_rows = Between(), 0
    for table in recorded_rows(stage, connection, source_range):
        entry = Entry()
        for piece in decoded(stage, source_range.source, table, entry):
            if piece.is_tombstones:
                between.add([pa.Table.from_batches([tombstones_of(stage, piece, entry)])])
            elif len(piece):
                waiting.append(as_spark_sees(stage, piece))
        yield from side_batches(stage, entry, source_range.batch_from)
        read_rows += table.num_rows
        if read_rows >= QUERY_ROWS:
            yield from _through(stage, waiting, source_range, between, spark)
            waiting, read_rows = [], 0
    yield from _through(stage, waiting, source_range, between, spark)


def _through(
    stage: Stage, rows: list[pa.Table], source_range: SourceRange, between: Between, spark: Any
) -> Iterator[pa.RecordBatch]:
    """What these rows give, with the tombstones among them and behind them."""
    if rows:
        with active(spark):
            frame = spark.createDataFrame(pa.concat_tables(rows), schema=columns_read(stage))
            made = frame_of(stage, frame).toArrow().combine_chunks()
        yield from records_of(stage, made, source_range.source, between)
    yield from between.rest()
