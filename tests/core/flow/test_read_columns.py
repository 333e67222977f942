"""What of its rows a chain reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow.chain import Chain
from semel.core.flow.codec import encode_rows, key_bytes
from semel.core.flow.pieces import Entry, Piece
from semel.core.flow.ready import Count, Last, Max, Min, Sum
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.core.flow.state import MemoryBase, State

SCHEMA = parse_schema("user string, n bigint, m bigint")
KEY = (Field("user", Kind.STRING),)
ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(-9, 9), st.integers(0, 9)), max_size=20
)


def pieces_of(rows: list[tuple[str, int | None, int]], sizes: int = 5) -> list[Piece]:
    made = []
    for start in range(0, len(rows), sizes):
        part = rows[start : start + sizes]
        keys = pa.array([key_bytes(KEY, (user,)) for user, _, _ in part], pa.binary())
        values = encode_rows([{"user": user, "n": n, "m": m} for user, n, m in part])
        made.append(Piece(keys, SCHEMA, raw=values))
    return made


def emitted(step: Any, pieces: list[Piece], *, own: bool) -> tuple[list[Any], list[Any]]:
    chain = Chain((step,), own_inputs=frozenset({0}) if own else frozenset()).start()
    entry = Entry(7, None, State(MemoryBase(), None, inline_bytes_max=10_000))
    made = chain.process(pieces, entry)
    return [row for piece in made for row in piece.as_table().to_pylist()], entry.side


@pytest.mark.parametrize(
    "step", [Count(KEY), Sum(KEY, of="n"), Min(KEY, of="n"), Max(KEY, of="m"), Last(KEY)]
)
@given(rows=ROWS)
def test_of_a_flow_s_own_rows_only_the_columns_are_read_that_a_fold_needs(step: Any, rows: Any) -> None:
    assert emitted(step, pieces_of(rows), own=True) == emitted(step, pieces_of(rows), own=False)


def test_a_count_reads_no_value_of_the_flow_s_own() -> None:
    piece = Piece(pa.array([b"a", b"b", b"a"]), SCHEMA, raw=pa.array([b"not", b"looked", b"at"]))
    rows, side = emitted(Count(KEY), [piece], own=True)
    assert rows == [{"user": "a", "count": 2}, {"user": "b", "count": 1}]
    assert not side


def test_a_count_reads_the_values_of_others() -> None:
    piece = Piece(pa.array([b"a"]), SCHEMA, raw=pa.array([b"no JSON"]))
    rows, side = emitted(Count(KEY), [piece], own=False)
    assert not rows
    assert [each.values.to_pylist() for each in side] == [[b"no JSON"]]
