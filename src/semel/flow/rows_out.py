"""From the rows that the steps give to the Arrow batches that the sink writes.

Where a record without a key lies must not depend on how a replay cuts its micro-batches. The sink counts the rows of
a stage's own output, which come in one order however they are cut. All others name their partition, and a number of
their own, so that they are not counted.

Nor may the order of rows. Steps lay rows aside one after the other, each those of a whole piece, and where a piece ends
is known to nobody but a task. So they are put into the order of the inputs and their offsets first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from semel.core.flow.pieces import BAD, LATE, Entry, Piece, SideRows
from semel.flow.plan import Stage
from semel.spark.output import ROW_NUMBER

BAD_PARTITION: Final = 0
BAD_BEHIND_STEPS: Final = (
    1  # of a frame stage: what is found behind its steps comes in another order than what is not
)


def main_batch(topic: str, piece: Piece) -> pa.RecordBatch:
    """Rows of the stage's output. Those that no step has made anything of keep the headers that were read."""
    columns = {"topic": _constant(topic, len(piece)), "value": piece.values()}
    if piece.keys is not None:
        columns["key"] = piece.keys
    if piece.headers is not None and piece.raw is not None:
        columns["headers"] = piece.headers
    return pa.record_batch(columns)


def side_batches(
    stage: Stage, entry: Entry, number: int, bad_partition: int = BAD_PARTITION
) -> Iterator[pa.RecordBatch]:
    """Rows of the named outputs. ``number``: an offset that the rows come from, whatever was fetched with them."""
    topics = {BAD: (f"{stage.flow}.bad", bad_partition), LATE: (f"{stage.flow}.late", 0)}
    for side in _in_order(entry.side):
        rows = len(side)
        topic, partition = topics[side.output]
        yield pa.record_batch(
            {
                "topic": _constant(topic, rows),
                "partition": pa.array(np.full(rows, partition, dtype=np.int32)),
                "key": side.keys,
                "value": side.values,
                "headers": side.headers,
                ROW_NUMBER: pa.array(np.full(rows, number, dtype=np.int64)),
            }
        )
    entry.side.clear()


def changelog_batch(stage: Stage, partition: int, keys: pa.Array, values: pa.Array) -> pa.RecordBatch:
    """Messages of the changelog."""
    rows = len(values)
    return pa.record_batch(
        {
            "topic": _constant(stage.changelog_topic, rows),
            "partition": pa.array(np.full(rows, partition, dtype=np.int32)),
            "key": keys,
            "value": values,
            ROW_NUMBER: pa.array(np.zeros(rows, dtype=np.int64)),
        }
    )


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


def _constant(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int8)), [text])
