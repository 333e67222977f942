"""Records as hypothesis draws them, and the golden batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from semel.record.batch import Record

GOLDEN = Path(__file__).parent / "golden"
COLUMN_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


@st.composite
def _record_lists(draw: st.DrawFn, timestamp_ms_max: int = COLUMN_TIMESTAMP_MS_MAX) -> list[Record]:
    base_ms = draw(st.integers(-1, timestamp_ms_max // 2))
    field = st.none() | st.binary(max_size=40) | st.sampled_from([b"x" * 63, b"y" * 64, b"z" * 9000])
    header = st.tuples(st.text(max_size=5), field)
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(-1000, 1000) | st.sampled_from([0, timestamp_ms_max // 2]),
                field,
                field,
                st.lists(header, max_size=3) | st.just([("many", b"h")] * 20),
            ),
            min_size=1,
            max_size=70,
        )
    )
    return [
        Record(offset_delta, base_ms + delta, key, value, tuple(headers))
        for offset_delta, (delta, key, value, headers) in enumerate(rows)
    ]


@pytest.fixture(scope="session")
def record_lists() -> Callable[..., st.SearchStrategy[list[Record]]]:
    return _record_lists


@pytest.fixture(scope="session")
def golden() -> list[tuple[str, bytes, list[str]]]:
    """(name, batch, the rows its client was given) of each captured batch."""
    index = json.loads((GOLDEN / "index.json").read_text())
    return [
        (name, (GOLDEN / f"{name}.bin").read_bytes(), index["rows"][::every] if every else [])
        for name, every in sorted(index["every"].items())
    ]
