"""What Delta's log says of a file, held against the file's rows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.stats import TEXT_MAX, FileStats

LAST = chr(0x10FFFF)


def stats(table: pa.Table, rows_at_a_time: int = 3) -> dict[str, Any]:
    file = FileStats(table.schema)
    for start in range(0, table.num_rows, rows_at_a_time):
        file.add(table.slice(start, rows_at_a_time))
    return dict(json.loads(file.text(), parse_float=Decimal))


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_bounds_and_counts_are_those_of_the_rows(values: list[int | None]) -> None:
    said = stats(pa.table({"n": pa.array(values, pa.int64())}))
    filled = [value for value in values if value is not None]
    assert said["numRecords"] == len(values)
    assert said["minValues"] == ({"n": min(filled)} if filled else {})
    assert said["maxValues"] == ({"n": max(filled)} if filled else {})
    assert said["nullCount"] == {"n": len(values) - len(filled)}


TEXTS = st.text(st.sampled_from(f"a\0{LAST}\ud7ff\ue000\U0001f600"), max_size=TEXT_MAX + 3)


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_bounds_of_texts_are_short_and_hold_each(texts: list[str]) -> None:
    said = stats(pa.table({"s": texts}))
    if "minValues" not in said:  # no text is larger than the largest
        assert max(texts)[:TEXT_MAX] == LAST * TEXT_MAX
        return
    smallest, largest = said["minValues"]["s"].encode(), said["maxValues"]["s"].encode()
    assert all(smallest <= text.encode() <= largest for text in texts)
    assert len(said["minValues"]["s"]) <= TEXT_MAX


@pytest.mark.parametrize(
    ("text", "largest"),
    [
        ("", ""),
        ("a" * 32, "a" * 32),
        ("a" * 33, "a" * 31 + "b"),
        ("a" * 31 + LAST + "z", "a" * 30 + "b"),
        ("a" * 31 + "\ud7ff" + "z", "a" * 31 + "\ue000"),
        (LAST * 32 + "az", LAST * 32 + "b"),
        (LAST * 32, LAST * 32),
    ],
)
def test_a_long_text_is_below_a_raised_prefix(text: str, largest: str) -> None:
    said = stats(pa.table({"s": [text]}))
    assert (said["minValues"]["s"], said["maxValues"]["s"]) == (text[:32], largest)


def test_each_type_that_delta_has_bounds_of() -> None:
    moment = datetime(2024, 1, 1, 0, 0, 0, 1, UTC)
    table = pa.table(
        {
            "t": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "local": pa.array([moment.replace(tzinfo=None), None], pa.timestamp("us")),
            "day": pa.array([date(2024, 1, 1), None]),
            "f": pa.array([1.5, None]),
            "zero": pa.array([0.0, -0.0]),
            "b": pa.array([True, None]),
            "d": pa.array([Decimal(10**36) / 100, None], pa.decimal128(38, 2)),
            "none": pa.array([None, None], pa.string()),
            "bytes": pa.array([b"x", None]),
            "list": pa.array([[1], None]),
            "struct": pa.array([{"a": 1}, None]),
        }
    )
    said = stats(table)
    wanted = {
        "t": "2024-01-01T00:00:00.000001Z",
        "local": "2024-01-01T00:00:00.000001",
        "day": "2024-01-01",
        "f": 1.5,
        "b": True,
        "d": Decimal(10**36) / 100,
        "struct": {},
    }
    assert said["minValues"] == wanted | {"zero": 0} and str(said["minValues"]["zero"]) == "-0.0"
    assert said["maxValues"] == wanted | {"zero": 0} and str(said["maxValues"]["zero"]) == "0.0"
    counts = dict.fromkeys(("t", "local", "day", "f", "b", "d"), 1)
    assert said["nullCount"] == counts | {"zero": 0, "none": 2}


@pytest.mark.parametrize(
    "values",
    [
        [1.0, float("nan")],
        [float("inf")],
        [float("-inf"), 0.0],
        pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC")),
        pa.array([2**63 - 1], pa.timestamp("us")),
        pa.array([-62_135_596_800_000_001], pa.timestamp("us", "UTC")),
        pa.array([-719_163], pa.int32()).cast(pa.date32()),
        pa.array([2_932_897], pa.int32()).cast(pa.date32()),
        [LAST * 2_000],
    ],
)
def test_a_file_with_a_value_that_has_no_bound_is_given_by_its_rows_alone(values: Any) -> None:
    table = pa.table({"x": values, "n": [1] * len(values)})
    assert stats(table) == {"numRecords": table.num_rows}


def test_the_first_and_last_year_that_have_four_digits() -> None:
    times = pa.array([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
    said = stats(pa.table({"t": times, "d": times.cast(pa.date32())}))
    assert said["minValues"] == {"t": "0001-01-01T00:00:00.000000Z", "d": "0001-01-01"}
    assert said["maxValues"] == {"t": "9999-12-31T00:00:00.000000Z", "d": "9999-12-31"}
