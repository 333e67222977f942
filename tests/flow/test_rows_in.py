"""Pieces are cut at the same places whatever a fetch held, and fit a column however large rows are."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.flow import rows_in
from semel.flow.plan import Input
from semel.flow.rows_in import PIECE_OFFSETS, cut_at_offsets, cut_in_rows, piece_of
from semel.types import TopicPartition

PART = TopicPartition("t", 0)


def _table(sizes: list[int], first: int = 0) -> pa.Table:
    return pa.table(
        {
            "offset": pa.array(range(first, first + len(sizes)), pa.int64()),
            "key": pa.array([None] * len(sizes), pa.binary()),
            "value": pa.array([b"x" * size for size in sizes], pa.binary()),
        }
    )


@given(st.lists(st.integers(0, 60), max_size=40), st.lists(st.integers(1, 9), max_size=40), st.integers(0, 9))
def test_the_same_rows_are_cut_the_same_however_they_were_fetched(sizes, fetches, first):
    whole = _table(sizes, first)
    fetched, at = [], 0
    for count in [*fetches, len(sizes)]:
        fetched.append(whole.slice(at, count))
        at = min(len(sizes), at + count)
    offsets_max, bytes_max = rows_in.PIECE_OFFSETS, rows_in.PIECE_BYTES_MAX
    rows_in.PIECE_OFFSETS, rows_in.PIECE_BYTES_MAX = 8, 100
    try:
        at_once = [piece.column("offset").to_pylist() for piece in cut_at_offsets([whole])]
        found = [piece.column("offset").to_pylist() for piece in cut_at_offsets(fetched)]
        by_rows = list(cut_in_rows(whole))
    finally:
        rows_in.PIECE_OFFSETS, rows_in.PIECE_BYTES_MAX = offsets_max, bytes_max
    assert found == at_once
    assert [offset for piece in found for offset in piece] == whole.column("offset").to_pylist()
    for piece in found:
        assert len({offset // 8 for offset in piece}) == 1
        assert len(piece) == 1 or sum(sizes[offset - first] for offset in piece) <= 100
    assert sum(part.num_rows for part in by_rows) == len(sizes)
    assert all(
        part.num_rows == 1 or sum(map(len, part.column("value").to_pylist())) <= 100 for part in by_rows
    )


@pytest.mark.thorough
def test_rows_that_no_column_could_hold_together_are_several_pieces():
    value = pa.array([b"x" * 300_000], pa.binary())
    key = pa.array([None], pa.binary())
    fetched = (
        pa.table({"offset": pa.array([offset], pa.int64()), "key": key, "value": value})
        for offset in range(PIECE_OFFSETS)
    )
    pieces = [len(piece_of(Input("t", None), 0, table, PART)) for table in cut_at_offsets(fetched)]
    assert sum(pieces) == PIECE_OFFSETS
    assert max(pieces) == 16 * 2**20 // 300_000
