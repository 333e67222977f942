"""Folds over tables: once an entry, with the states of its keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow.chain import Chain
from semel.core.flow.fold_table import FoldTable
from semel.core.flow.schema import parse_schema
from semel.errors import ConfigError, StepFailed

ROWS = parse_schema("user string, n bigint")
STATE = parse_schema("total bigint")
OUT = parse_schema("user string, total bigint")


def summed(state: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The sum for each key; one that comes to zero is forgotten."""
    totals = dict(zip(state["_key"].to_pylist(), state["total"].to_pylist(), strict=True))
    for key, n in zip(rows["_key"].to_pylist(), rows["n"].to_pylist(), strict=True):
        totals[key] = totals.get(key, 0) + n
    keys = list(dict.fromkeys(rows["_key"].to_pylist()))
    kept = {key: total for key, total in totals.items() if total}
    users = [key.decode() for key in keys]
    return (
        pa.table({"_key": list(kept), "total": pa.array(list(kept.values()), pa.int64())}),
        pa.table({"_key": keys, "user": users, "total": [totals[key] for key in keys]}),
    )


def task(f: Any = summed) -> Task:
    return Task(Chain((FoldTable.of(f, ROWS, STATE, OUT),)))


def rows(*given: tuple[str | None, int]) -> Any:
    return raw_piece(ROWS, [{"user": user, "n": n} for user, n in given], key="user")


def test_states_and_rows_go_in_as_tables_and_come_out_as_tables():
    fold = task()
    assert fold.entry(rows(("b", 1), ("a", 2), ("b", 3))) == [
        {"user": "b", "total": 4},
        {"user": "a", "total": 2},
    ]
    fold.new_attempt()
    assert fold.entry(rows(("a", -2))) == [{"user": "a", "total": 0}]
    assert len(fold.state.held) == 1
    assert fold.entry(rows((None, 1))) == [] and len(fold.side) == 1
    assert fold.keys == [b"b", b"a", b"a"]


@pytest.mark.parametrize(
    "made, why",
    [
        (lambda s, r: s, r"a fold returns \(state table, rows table\)"),
        (lambda s, r: (s, None), "not a table with the column '_key'"),
        (lambda s, r: (s.drop_columns("_key"), r), "not a table with the column '_key'"),
        (lambda s, r: (r.select(["_key"]), r), "its schema is total bigint"),
        (lambda s, r: (1 // 0, r), "ZeroDivisionError"),
        (lambda s, r: (pa.table({"_key": [b"z"], "total": [1]}), summed(s, r)[1]), "b'z', which is no key"),
        (lambda s, r: (pa.table({"_key": [b"a"] * 2, "total": [1, 2]}), summed(s, r)[1]), "several rows"),
        (lambda s, r: (pa.table({"_key": pa.nulls(1, pa.binary()), "total": [1]}), r), "is null"),
        (lambda s, r: (s, pa.table({"_key": [b"a"], "user": ["a"], "total": ["x"]})), "does not fit"),
    ],
)
def test_what_it_must_not_return(made, why):
    with pytest.raises(StepFailed, match=why):
        task(made).entry(rows(("a", 1)))


def test_the_key_s_column_is_its_own():
    with pytest.raises(ConfigError, match="'_key' is the key's own"):
        FoldTable.of(summed, parse_schema("_key string"), STATE, OUT)


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3)), max_size=5), max_size=5),
    st.sets(st.integers(1, 4)),
    st.sets(st.integers(1, 4)),
)
def test_no_cut_into_pieces_or_attempts_can_be_told(entries, attempts, ends):
    whole, parts = task(), task()
    for number, entry in enumerate(entries):
        whole.entry(rows(*entry))
        if number in attempts:
            parts.new_attempt()
        parts.entry(*(rows(*part) for part in cut(entry, sorted(ends))))
    assert (whole.values, whole.keys, whole.state.held) == (parts.values, parts.keys, parts.state.held)
    totals: dict[str, int] = {}
    for entry in entries:
        for user, n in entry:
            totals[user] = totals.get(user, 0) + n
    assert len(whole.state.held) == sum(map(bool, totals.values()))
