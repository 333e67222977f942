"""What a frame stage hands to the sink, without Spark: tombstones lie between the rows, however Spark cuts these."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow.pieces import Entry
from semel.flow import source
from semel.flow.frames import Between, as_spark_sees, decoded, records_of, tombstones_of
from semel.flow.plan import StageKind
from semel.types import TopicPartition

PART = TopicPartition("users", 0)
TABLE = source("users", json="user string", key="user").where("user <> 'x'").as_table("user")
PLAN = source("clicks", json="user string").join(TABLE, how="left").to("visits").plan()
(STAGE,) = [stage for stage in PLAN.stages if stage.kind is StageKind.FRAME]


def written(is_gone: list[bool], ends: set[int]) -> list[tuple[bytes, bool]]:
    """Key, and whether it is a tombstone, of each record; ``ends`` are of the batches that Spark makes."""
    keys = [b"%d" % number for number in range(len(is_gone))]
    values = [
        None if gone else json.dumps({"user": key.decode()}).encode()
        for key, gone in zip(keys, is_gone, strict=True)
    ]
    records = pa.table(
        {
            "offset": pa.array([3 * number for number in range(len(keys))], pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    entry, between, rows = Entry(), Between(), list[pa.Table]()
    for piece in decoded(STAGE, PART, records, entry):
        if piece.is_tombstones:
            between.add([pa.Table.from_batches([tombstones_of(STAGE, piece, entry)])])
        else:
            rows.append(as_spark_sees(STAGE, piece))
    assert not entry.side
    made: list[pa.RecordBatch] = []
    if rows:
        whole = pa.concat_tables(rows).combine_chunks()
        starts = [0, *sorted(end for end in ends if end < whole.num_rows)]
        for start, end in zip(starts, [*starts[1:], whole.num_rows], strict=True):
            made += records_of(STAGE, whole.slice(start, end - start), PART, between)
    made += between.rest()
    return [(row["key"], row["value"] is None) for batch in made for row in batch.to_pylist()]


@given(st.lists(st.booleans(), max_size=12), st.sets(st.integers(1, 11)))
def test_tombstones_are_written_in_their_place_whatever_batches_the_rows_come_in(
    is_gone: list[bool], ends: set[int]
) -> None:
    assert written(is_gone, ends) == [(b"%d" % number, gone) for number, gone in enumerate(is_gone)]
