"""What Delta's log is told of a file, held against the file's rows."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
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
