"""From the rows that the steps give to the Arrow batches that the sink writes.

Where a record without a key lies must not depend on how a replay cuts its micro-batches. The sink counts the rows of
a stage's own output, which come in one order however they are cut. All others name their partition, and a number of
their own, so that they are not counted.

Nor may the order of rows. Steps lay rows aside one after the other, each those of a whole piece, and where a piece ends
is known to nobody but a task. So they are put into the order of the inputs and their offsets first.

What a batch cannot hold is cut to what fits, by the row's own sizes alone, and a header says so. The whole of it is
where it came from, and the reason and the place are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from semel.core.dead_letter import CUT_HEADER
from semel.core.flow.pieces import (
    BAD,
    HEADERS_TYPE,
    LATE,
    TIME_TYPE,
    WRITE,
    Entry,
    Piece,
    SideRows,
    bytes_of,
    fitting,
    header_bytes_of,
)
from semel.flow.plan import Stage
from semel.record.columnar import BATCH_BYTES_MAX
from semel.spark.output import ROW_NUMBER

RECORD_OVERHEAD_BYTES: Final = 1024  # of a batch and a record beside key and value; headers are few and short
SIDE_BYTES_MAX: Final = BATCH_BYTES_MAX - RECORD_OVERHEAD_BYTES  # of a bad or late row, headers and all
TIME: Final = "timestamp"  # the sink's column of the times that rows bring
BAD_PARTITION: Final = 0
BAD_BEHIND_STEPS: Final = 1  # of what is found behind Spark's steps, and so in another order


def output_batch(stage: Stage, piece: Piece, entry: Entry) -> tuple[Piece, pa.RecordBatch]:
    """The rows that the stage's output takes, under the key that they have by now. What is larger is bad."""
    batch = main_batch(stage, piece)
    sizes = bytes_of(batch.column("value"))
    sizes = sizes + (bytes_of(batch.column("key")) if "key" in batch.schema.names else 0)
    sizes = sizes + (header_bytes_of(batch.column("headers")) if "headers" in batch.schema.names else 0)
    why = f"it makes a record of {{}} bytes, and topic {stage.output.topic!r} takes up to {{}}"
    kept = fitting(piece, entry, WRITE, sizes, stage.record_bytes_max - RECORD_OVERHEAD_BYTES, why)
    return kept, batch if kept is piece else main_batch(stage, kept)


def main_batch(stage: Stage, piece: Piece) -> pa.RecordBatch:
    """Rows of the stage's output, with what it keeps of their records.

    Behind ``dedupe``, rows that no step has made anything of keep the headers that were read in any case.
    """
    columns = {"topic": _constant(stage.output.topic, len(piece)), "value": piece.values()}
    if piece.keys is not None:
        columns["key"] = piece.keys
    if stage.output.has_record:
        columns["headers"], columns[TIME] = piece.headers, piece.timestamps
    elif piece.headers is not None and piece.raw is not None and stage.inputs[piece.input].has_headers:
        columns["headers"] = piece.headers
    return pa.record_batch(columns)


def side_batches(
    stage: Stage, entry: Entry, number: int, bad_partition: int = BAD_PARTITION
) -> Iterator[pa.RecordBatch]:
    """Rows of the named outputs. ``number``: an offset that the rows come from, whatever was fetched with them."""
    topics = {BAD: (f"{stage.flow}.bad", bad_partition), LATE: (f"{stage.flow}.late", 0)}
    for side in map(_cut, _in_order(entry.side)):
        rows = len(side)
        topic, partition = topics[side.output]
        yield _with_time_column(
            stage,
            {
                "topic": _constant(topic, rows),
                "partition": pa.array(np.full(rows, partition, dtype=np.int32)),
                "key": side.keys,
                "value": side.values,
                "headers": side.headers,
                ROW_NUMBER: pa.array(np.full(rows, number, dtype=np.int64)),
            },
        )
    entry.side.clear()


def changelog_batch(stage: Stage, partition: int, keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
    """Messages of the changelog."""
    rows = len(values)
    return _with_time_column(
        stage,
        {
            "topic": _constant(stage.changelog_topic, rows),
            "partition": pa.array(np.full(rows, partition, dtype=np.int32)),
            "key": keys,
            "value": values,
            ROW_NUMBER: pa.array(np.zeros(rows, dtype=np.int64)),
        },
    )


def _with_time_column(stage: Stage, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Rows that have the time of writing.

    Where rows of the stage's output bring times of their own, the sink has to know it by the first batch, whatever that
    is of: a log may forget a writer by them.
    """
    if stage.output.has_record:
        columns[TIME] = pa.nulls(len(columns["value"]), TIME_TYPE)
    return pa.record_batch(columns)


def _in_order(sides: Sequence[SideRows]) -> Iterator[SideRows]:
    """All rows of an output in the order of the inputs; those of one row as the steps gave them.

    Behind them those that came of no single row: they are made of whole entries, in one piece.
    """
    for output in sorted({side.output for side in sides}):
        of_rows = [side for side in sides if side.output == output and side.offsets is not None]
        if of_rows:
            inputs = np.concatenate([np.full(len(side), side.input) for side in of_rows])
            offsets = np.concatenate([side.offsets for side in of_rows])
            order = pa.array(np.lexsort((offsets, inputs)))
            keys, values, headers = (
                pa.concat_arrays([getattr(side, column) for side in of_rows]).take(order)
                for column in ("keys", "values", "headers")
            )
            yield SideRows(output, keys, values, headers)
        yield from (side for side in sides if side.output == output and side.offsets is None)


def _cut(side: SideRows) -> SideRows:
    """The rows, each as much of it as fits a batch."""
    header_bytes = header_bytes_of(side.headers)
    key_bytes, value_bytes = bytes_of(side.keys), bytes_of(side.values)
    large = np.flatnonzero(key_bytes + value_bytes + header_bytes > SIDE_BYTES_MAX)
    if not len(large):
        return side
    keys, values, headers = side.keys.to_pylist(), side.values.to_pylist(), side.headers.to_pylist()
    for row in large.tolist():
        room = SIDE_BYTES_MAX - int(header_bytes[row])
        told = []
        key_room = max(room // 2, room - int(value_bytes[row]))
        if key_bytes[row] > key_room:
            keys[row] = keys[row][:key_room]
            told.append(_cut_text("key", len(keys[row]), int(key_bytes[row])))
        room -= len(keys[row] or b"")
        if value_bytes[row] > room:
            values[row] = values[row][:room]
            told.append(_cut_text("value", room, int(value_bytes[row])))
        headers[row].append({"key": CUT_HEADER, "value": "; ".join(told).encode()})
    made = pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(headers, HEADERS_TYPE)
    return SideRows(side.output, *made)


def _cut_text(what: str, kept: int, whole: int) -> str:
    return f"{what}: the first {kept} of {whole} bytes"


def _constant(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int8)), [text])
