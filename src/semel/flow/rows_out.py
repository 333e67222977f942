"""From the rows that the steps give to the Arrow batches that the sink writes.

Where a record without a key lies must not depend on how a replay cuts its micro-batches. The sink counts the rows of
a stage's own output, which come in one order however they are cut. All others name their partition, and a number of
their own, so that they are not counted.

Nor may the order of rows. Steps lay rows aside one after the other, each those of a whole piece; a stateful stage's
piece is an entry's, and is always the same. A stateless stage's ends where its micro-batch does, so there they are put
into the order of the input's offsets first.
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
    for side in entry.side if stage.is_stateful else _by_offset(entry.side):
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


def _by_offset(sides: Sequence[SideRows]) -> Iterator[SideRows]:
    """All rows of an output in the order of the input's; those of one row as the steps gave them."""
    for output in dict.fromkeys(side.output for side in sides):
        of_output = [side for side in sides if side.output == output]
        if len(of_output) == 1 or any(side.offsets is None for side in of_output):
            yield from of_output
            continue
        order = pa.array(np.argsort(np.concatenate([side.offsets for side in of_output]), kind="stable"))
        keys, values, headers = (
            pa.concat_arrays([getattr(side, column) for side in of_output]).take(order)
            for column in ("keys", "values", "headers")
        )
        yield SideRows(output, keys, values, headers)


def _constant(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int8)), [text])
