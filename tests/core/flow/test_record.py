"""Functions of a row and its record: what they are given, and where an error in them is placed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semel.core.flow.chain import Chain
from semel.core.flow.pieces import HEADERS_TYPE, TIME_TYPE, Entry, Origin, Piece
from semel.core.flow.record import Record, records_of
from semel.core.flow.schema import parse_schema
from semel.core.flow.steps import Filter, FlatMap, Map
from semel.errors import StepFailed

NOW = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
NOW_MS = 1_767_323_045_006
HEADERS = [("a", b"1"), ("b", None), ("a", b"2")]
GIVEN = [
    Record(b"k", NOW_MS, tuple(HEADERS)),
    Record(None, -1),
    Record(b"", None, (("é", b""),)),
]


def piece() -> Piece:
    times = [NOW_MS * 1000, -1000, None]
    headers = [[{"key": name, "value": value} for name, value in each.headers] or None for each in GIVEN]
    return Piece(
        pa.array([each.key for each in GIVEN], pa.binary()),
        None,
        raw=pa.array([b"0", b"1", b"2"]),
        headers=pa.array(headers, HEADERS_TYPE),
        origin=Origin("t", 0, np.arange(3)),
        timestamps=pa.array(times, TIME_TYPE),
    )


def made_by(*steps: Any) -> list[Piece]:
    return Chain(steps).start().process([piece()], Entry())


def test_a_record_has_its_last_header_and_a_time_where_there_is_one() -> None:
    assert records_of(piece()) == GIVEN
    first, second, third = GIVEN
    assert (first.header("a"), first.header("b"), first.header("c")) == (b"2", None, None)
    assert first.timestamp == NOW
    assert second.timestamp == datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
    assert third.timestamp is None
    assert Record(None, 2**53).timestamp is None


def test_steps_see_the_record_that_a_row_stems_from() -> None:
    seen: list[tuple[Any, Record]] = []

    def look(row: Any, record: Record) -> dict[str, Any]:
        seen.append((row, record))
        return {"n": int(row), "time": record.timestamp_ms}

    schema = parse_schema("n int, time bigint")
    (made,) = made_by(
        Filter.of(lambda row, record: record.timestamp_ms != -1, takes_record=True),
        FlatMap.of(lambda row, record: [row] * (2 if record.header("a") else 1), takes_record=True),
        Map.of(look, schema, takes_record=True),
    )
    first, _, third = GIVEN
    assert seen == [(b"0", first), (b"0", first), (b"2", third)]
    assert [(row.n, row.time) for row in made.as_rows()] == [(0, NOW_MS), (0, NOW_MS), (2, None)]
    assert records_of(made) == [first, first, third]


def test_an_error_names_the_row_that_the_function_failed_at() -> None:
    def fails(row: Any, record: Record) -> Any:
        return 1 // (record.timestamp_ms or 0)

    for step in (Map, Filter, FlatMap):
        with pytest.raises(StepFailed, match=r"offset 2.*ZeroDivisionError"):
            made_by(step.of(fails, takes_record=True))


def test_only_a_function_that_takes_the_record_has_it_in_its_plan() -> None:
    plain, seeing = (Filter.of(bool, takes_record=takes).plan_parts() for takes in (False, True))
    assert seeing == {**plain, "record": True}
