"""What is laid aside lies in one order, however micro-batches are cut."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import DictState
from tests.flow.flowing import put, records, rows, run

import semel
from semel.core.flow.pieces import Entry, Indices
from semel.flow import here, source
from semel.flow.replay import replay
from semel.flow.rows_in import in_its_partition, piece_of
from semel.flow.rows_out import side_batches
from semel.flow.stage_ranges import Cuts
from semel.flow.task import chain_of
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.spark.sink_log import produce_until_answered
from semel.types import TopicPartition

FLOW = source("given", json="word string").key_by("word").count().to("counts")
ROWS = [{"word": None}, b"no JSON", {"word": "a"}] * 40


class Killed(BaseException):
    """As kill -9 would have it: nothing is told, and nothing is tidied up."""


def _at(record: dict[str, Any]) -> int:
    place = next(header["value"] for header in record["headers"] if header["key"] == "semel-at")
    return int(place.rsplit(b"/", 1)[1])


@pytest.mark.parametrize("cuts", [Cuts(), Cuts(rows_max=7)])
def test_bad_rows_of_several_steps_lie_in_the_order_of_the_input(
    semel_server: LocalLog, tmp_path: Any, cuts: Cuts
) -> None:
    put(semel_server.bootstrap, "given", *ROWS)
    run(FLOW, semel_server.bootstrap, tmp_path, cuts)
    places = [_at(record) for record in records(semel_server.bootstrap, "counts.bad")]
    assert places == [place for place in range(len(ROWS)) if place % 3 != 2]


def test_bad_rows_that_are_undecided_are_met_again_under_other_cuts(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(semel_server.bootstrap, "given", *ROWS)

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(here, "decide_batch", killed)
        run(FLOW, semel_server.bootstrap, tmp_path, Cuts(rows_max=31))
    run(FLOW, semel_server.bootstrap, tmp_path)
    assert len(records(semel_server.bootstrap, "counts.bad")) == 80


COLUMNS = "user string, at timestamp"
WINDOWS = (
    source("one", json=COLUMNS, key="user")
    .merge(source("two", json=COLUMNS, key="user"))
    .tumbling("1 s", on="at")
    .count()
    .to("windows")
)
AT = {
    "new": "2024-01-01T00:01:00Z",
    "late": "2023-01-01T00:00:00Z",
    "beyond": "9999-12-31T23:59:59Z",
    "null": None,
}
KINDS = ["no JSON", "no key", *AT]


def _rows(kinds: list[str]) -> pa.Table:
    return pa.table(
        {
            "offset": pa.array(range(len(kinds)), pa.int64()),
            "key": pa.array([None if kind == "no key" else b"a" for kind in kinds], pa.binary()),
            "value": pa.array(
                [
                    b"no JSON"
                    if kind == "no JSON"
                    else json.dumps({"user": "a", "at": AT.get(kind)}).encode()
                    for kind in kinds
                ],
                pa.binary(),
            ),
        }
    )


@given(
    st.lists(st.sampled_from(KINDS), max_size=8),
    st.lists(st.sampled_from(KINDS), max_size=8),
    st.sets(st.integers(1, 7)),
)
def test_rows_of_an_entry_are_laid_aside_in_one_order_whatever_pieces_they_come_in(
    one: list[str], two: list[str], ends: set[int]
) -> None:
    stage = replace(WINDOWS.plan().stages[0], partition_count=1)

    def laid(ends: Indices) -> list[dict[str, Any]]:
        chain, state, told = chain_of(stage).start(), DictState(), list[dict[str, Any]]()
        for number, kinds in enumerate([[["new"], ["new"]], [one, two]]):
            entry = Entry(number, None, state)
            pieces = [
                each
                for place, read in enumerate(stage.inputs)
                for part in np.split(np.arange(len(kinds[place])), ends)
                for each in in_its_partition(
                    read,
                    piece_of(read, place, _rows(kinds[place]).take(part), TopicPartition(read.topic, 0)),
                    0,
                    1,
                    entry,
                )
            ]
            chain.process(pieces, entry)
            told += [row for batch in side_batches(stage, entry, number) for row in batch.to_pylist()]
        return told

    at_once = laid(np.array([], dtype=np.int64))
    assert laid(np.array(sorted(ends), dtype=np.int64)) == at_once
    assert len(at_once) == sum(kind != "new" for kind in one + two)


BOUND = 1_000_000
LARGE_SIZES = [
    (0, BOUND),
    (0, 5 * BOUND),
    (BOUND - 2000, 2000),
    (2 * BOUND, 0),
    (2 * BOUND, BOUND),
    (400_000, BOUND),
]


@pytest.mark.thorough
def test_a_bad_row_that_no_record_can_hold_is_cut_and_told_and_the_flow_goes_on(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    """Of what stands around it nothing is lost, and how it is cut depends on nothing but itself."""
    bootstrap = semel_server.bootstrap
    large = [(b"k" * key or None, b"x" * value) for key, value in LARGE_SIZES]
    given = [each for row in large for each in (row, (b"a", b'{"word": "a"}'), (b"b", b"no JSON"))]
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("given", configs={"max.message.bytes": str(2**24)})
        for key, value in given:
            batch = bytes(encode_batch([Record(0, 1, key, value)]))
            produce_until_answered(admin.cluster, {TopicPartition("given", 0): batch})
    run(FLOW, bootstrap, tmp_path, Cuts(rows_max=4))
    told = records(bootstrap, "counts.bad")
    assert [_at(record) for record in told] == [n for n in range(len(given)) if n % 3 != 1]
    for record in told:
        key, value = given[_at(record)]
        cut = {header["key"]: header["value"].decode() for header in record["headers"]}.get("semel-cut")
        assert (key or b"").startswith(record["key"] or b"") and value.startswith(record["value"])
        is_whole = (record["key"], record["value"]) == (key, value)
        assert is_whole == (cut is None) == (len(key or b"") + len(value) < BOUND - 1200)
        if cut is not None:
            assert ("key:" in cut) == (record["key"] != key) and ("value:" in cut) == (
                record["value"] != value
            )
            assert len(record["key"] or b"") + len(record["value"]) > 0.9 * min(
                BOUND, len(value) + len(key or b"")
            )
    (last, *_) = [row["count"] for row in rows(bootstrap, "counts")][::-1]
    assert last == len(large)
    assert replay(FLOW.plan(), bootstrap).holds
