"""What a frame stage hands to the sink, without Spark: tombstones lie between the rows, however Spark cuts these."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow.pieces import HEADERS_TYPE, TIME_TYPE, Entry
from semel.flow import Keyed, source
from semel.flow.frame_steps import RECORD_COLUMN
from semel.flow.frames import (
    KEY_COLUMN,
    OFFSET_COLUMN,
    Between,
    as_spark_sees,
    columns_read,
    decoded,
    records_of,
    recut,
    tombstones_of,
)
from semel.flow.plan import Stage, StageKind
from semel.types import TopicPartition

PART = TopicPartition("users", 0)
USERS = source("users", json="user string", key="user")


def stage_of(users: Keyed) -> Stage:
    """The one with a step of Spark's, in front of a table."""
    table = users.where("user <> 'x'").as_table("user")
    plan = source("clicks", json="user string").join(table, how="left").to("visits").plan()
    (stage,) = [stage for stage in plan.stages if stage.kind is StageKind.FRAME]
    return stage


STAGE, BEHIND_A_TOPIC = stage_of(USERS), stage_of(USERS.key_by("user", partitions=2))


def written(
    stage: Stage, is_gone: list[bool], ends: set[int], key_type: pa.DataType
) -> list[tuple[bytes, bool]]:
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
    for piece in decoded(stage, PART, records, entry):
        if piece.is_tombstones:
            between.add([pa.Table.from_batches([tombstones_of(stage, piece, entry)])])
        else:
            rows.append(as_spark_sees(stage, piece))
    assert not entry.side
    made: list[pa.RecordBatch] = []
    if rows:
        whole = pa.concat_tables(rows).combine_chunks()
        types = [key_type if field.name == KEY_COLUMN else field.type for field in whole.schema]
        whole = whole.cast(pa.schema(list(zip(whole.column_names, types, strict=True))))
        starts = [0, *sorted(end for end in ends if end < whole.num_rows)]
        for start, end in zip(starts, [*starts[1:], whole.num_rows], strict=True):
            made += records_of(stage, whole.slice(start, end - start), PART, between)
    made += between.rest()
    return [(row["key"], row["value"] is None) for batch in made for row in batch.to_pylist()]


@given(
    st.sampled_from([STAGE, BEHIND_A_TOPIC]),
    st.lists(st.booleans(), max_size=12),
    st.sets(st.integers(1, 11)),
    st.sampled_from([pa.binary(), pa.large_binary()]),
)
def test_tombstones_are_written_in_their_place_whatever_batches_the_rows_come_in(
    stage: Stage, is_gone: list[bool], ends: set[int], key_type: pa.DataType
) -> None:
    assert written(stage, is_gone, ends, key_type) == [
        (b"%d" % number, gone) for number, gone in enumerate(is_gone)
    ]


def tombstones(keys: list[bytes]) -> pa.Table:
    """Records without a value."""
    return pa.table(
        {
            "offset": pa.array(range(len(keys)), pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.nulls(len(keys), pa.binary()),
        }
    )


def fetched(whole: pa.Table, ends: set[int]) -> list[pa.Table]:
    """The rows as fetches that end there bring them."""
    cuts = [0, *sorted(ends), whole.num_rows]
    return [whole.slice(start, end - start) for start, end in pairwise(cuts)]


@given(st.sets(st.integers(1, 19_999), max_size=4))
def test_tombstones_behind_all_rows_are_written_in_the_same_batches_whatever_was_fetched(
    ends: set[int],
) -> None:
    """Else those of an attempt that is repeated would end in the middle of what the first one has stored."""
    entry, between = Entry(), Between()
    for table in fetched(tombstones([b"key"] * 20_000), ends):
        for piece in decoded(STAGE, PART, table, entry):
            between.add([pa.Table.from_batches([tombstones_of(STAGE, piece, entry)])])
    assert [batch.num_rows for batch in between.rest()] == [8192, 8192, 3616]


def test_what_is_laid_aside_is_written_in_batches_that_do_not_outgrow_memory() -> None:
    whole = pa.table({"key": pa.nulls(40, pa.binary()), "value": [bytes(2**20)] * 40})
    for ends in (set[int](), {7}, {1, 16, 39}):
        assert [batch.num_rows for batch in recut(fetched(whole, ends))] == [16, 16, 8]


def test_tombstones_between_all_rows_are_laid_aside_together() -> None:
    values = [b'{"user": "ann"}', None] * 5_000
    records = tombstones([b"ann"] * 10_000).set_column(2, "value", pa.array(values, pa.binary()))
    pieces = list(decoded(STAGE, PART, records, Entry()))
    assert [(piece.is_tombstones, len(piece)) for piece in pieces] == [
        (True, 4096),
        (False, 4096),
        (True, 904),
        (False, 904),
    ]


def test_a_tombstone_that_no_record_can_hold_is_a_bad_row() -> None:
    large = bytes(999_100)
    table = pa.table(
        {
            "key": pa.array([b"ann", large], pa.binary()),
            "value": pa.nulls(2, pa.binary()),
            "offset": pa.array([0, 1]),
        }
    )
    entry = Entry()
    made = [
        tombstones_of(STAGE, piece, entry).column("key").to_pylist()
        for piece in decoded(STAGE, PART, table, entry)
    ]
    assert made == [[b"ann"]]
    (side,) = entry.side
    assert (side.output, side.keys.to_pylist()) == ("bad", [large])
    assert b"a record of 999100 bytes" in side.headers.to_pylist()[0][0]["value"]


def test_a_record_of_sparks_that_the_output_does_not_take_is_a_bad_row() -> None:
    stage = replace(STAGE, record_bytes_max=2_000)
    table = pa.table(
        {"user": ["a", "b" * 2_000, "c"], KEY_COLUMN: [b"a", b"b", b"c"], OFFSET_COLUMN: [4, 5, 6]}
    )
    made, bad = records_of(stage, table, PART, Between())
    assert [json.loads(value)["user"] for value in made.column("value").to_pylist()] == ["a", "c"]
    whys = dict(bad.column("headers").to_pylist()[0][0].items())
    assert b"and topic" in whys["value"] and b"takes up to 976" in whys["value"]
    (only,) = records_of(stage, table.slice(1, 1), PART, Between())
    assert only.column("value").to_pylist() == bad.column("value").to_pylist()


def test_the_time_and_headers_of_records_ride_through_sparks_columns() -> None:
    (stage,) = source("clicks", json="n bigint", record=True).where("n > 0").to("out").plan().stages
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None]
    records = pa.table(
        {
            "offset": pa.array([3, 4], pa.int64()),
            "key": pa.array([b"k", None], pa.binary()),
            "value": pa.array([b'{"n": 1}', b'{"n": 2}'], pa.binary()),
            "headers": pa.array(headers, HEADERS_TYPE),
            "timestamp": pa.array([5000, None], TIME_TYPE),
        }
    )
    (piece,) = decoded(stage, PART, records, Entry())
    seen = as_spark_sees(stage, piece)
    assert seen.column_names == ["n", KEY_COLUMN, RECORD_COLUMN]
    assert RECORD_COLUMN in columns_read(stage)
    (batch,) = records_of(stage, seen, PART, Between())
    assert batch.column("headers").to_pylist() == headers
    assert batch.column("timestamp").equals(records.column("timestamp").combine_chunks())
    assert batch.column("key").to_pylist() == [b"k", None]
