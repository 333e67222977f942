"""What Delta's log is told of a file, held against the file's rows."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.stats import delta_stats


def stats(table: pa.Table, row_group_size: int = 3) -> dict[str, object]:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=row_group_size)
    return dict(json.loads(delta_stats(pq.read_metadata(out))))


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_bounds_and_counts_are_those_of_the_rows(values: list[int | None]) -> None:
    told = stats(pa.table({"n": pa.array(values, pa.int64())}))
    filled = [value for value in values if value is not None]
    assert told["numRecords"] == len(values)
    assert told["minValues"] == ({"n": min(filled)} if filled else {})
    assert told["maxValues"] == ({"n": max(filled)} if filled else {})
    assert told["nullCount"] == ({"n": len(values) - len(filled)} if values else {})


def test_times_are_told_to_the_microsecond_and_texts_are_not() -> None:
    times = pa.array([datetime(2024, 1, 1, 0, 0, 0, 1, UTC), None], pa.timestamp("us", "UTC"))
    told = stats(pa.table({"t": times, "s": ["a", "b"], "f": [1.5, float("nan")], "b": [True, False]}))
    assert told["minValues"] == told["maxValues"] == {"t": "2024-01-01T00:00:00.000001Z"}
    assert told["nullCount"] == {"t": 1, "s": 0, "f": 0, "b": 0}


def test_a_year_has_four_digits() -> None:
    times = pa.array([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
    told = stats(pa.table({"t": times, "d": times.cast(pa.date32())}))
    assert told["minValues"] == {"t": "0001-01-01T00:00:00.000000Z", "d": "0001-01-01"}
    assert told["maxValues"] == {"t": "9999-12-31T00:00:00.000000Z", "d": "9999-12-31"}


@pytest.mark.parametrize(
    ("odd_us", "smallest", "largest"),
    [
        (253_402_300_800_000_000, "1970-01-01", "9999-12-31"),
        (2**63 - 1, "1970-01-01", "9999-12-31"),
        (-62_135_596_800_000_001, "0001-01-01", "1970-01-01"),
        (-(2**63), "0001-01-01", "1970-01-01"),
    ],
)
@pytest.mark.parametrize("row_group_size", [1, 2])
def test_the_first_and_last_year_stand_for_those_that_no_date_has(
    odd_us: int, smallest: str, largest: str, row_group_size: int
) -> None:
    times = pa.array([0, odd_us], pa.timestamp("us", "UTC"))
    days = pa.array([0, odd_us // 86_400_000_000], pa.int64()).cast(pa.int32()).cast(pa.date32())
    told = stats(pa.table({"t": times, "d": days, "n": [1, 2]}), row_group_size)
    if row_group_size == 1:  # on which side of the years a group lies that has none of them, nobody knows
        smallest, largest = "0001-01-01", "9999-12-31"
    assert (told["minValues"]["d"], told["maxValues"]["d"]) == (smallest, largest)
    assert told["minValues"]["t"].startswith(smallest) and told["maxValues"]["t"].startswith(largest)
    assert told["nullCount"] == {"t": 0, "d": 0, "n": 0}
