"""Typed folds: (state, row) to (state, rows), by key, with state that is what its bytes say."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow.chain import Chain
from semel.core.flow.folds import Fold
from semel.core.flow.schema import parse_schema
from semel.errors import StepFailed

ROWS = "user string, n bigint"
OUT = parse_schema("user string, total bigint")


class Visit(msgspec.Struct):
    count: int = 0
    pages: tuple[str, ...] = ()


def running_total(state: int | None, row: Any) -> Any:
    total = (state or 0) + (row.n or 0)
    return total, {"user": row.user, "total": total}


def task(f: Any, init: Any = None, schema: Any = OUT) -> Task:
    return Task(Chain((Fold.of(f, init, schema),)))


def rows(*given: tuple[str, int], **more: Any) -> Any:
    return raw_piece(ROWS, [{"user": user, "n": n} for user, n in given], key="user", **more)


def test_a_row_is_folded_into_its_key_s_state_and_emits_in_row_order():
    fold = task(running_total)
    assert fold.entry(rows(("a", 1), ("b", 10), ("a", 2))) == [
        {"user": "a", "total": 1},
        {"user": "b", "total": 10},
        {"user": "a", "total": 3},
    ]
    assert fold.entry(rows(("b", 5))) == [{"user": "b", "total": 15}]
    assert fold.keys == [b"a", b"b", b"a", b"b"]


@pytest.mark.parametrize(
    "returned, emitted",
    [
        (None, []),
        ([], []),
        ({"user": "x", "total": 1}, [1]),
        ([{"user": "x", "total": 1}, {"user": "x", "total": 2}], [1, 2]),
        (({"user": "x", "total": 1}, {"user": "x", "total": 2}), [1, 2]),
    ],
)
def test_what_may_be_returned(returned, emitted):
    fold = task(lambda state, row: (1, returned))
    assert [row["total"] for row in fold.entry(rows(("a", 1)))] == emitted


def test_a_generator_is_rows_and_its_failure_is_the_rows():
    def f(state, row):
        def made():
            yield {"user": row.user, "total": row.n}
            if row.n == 2:
                raise KeyError("gone")

        return None, made()

    assert len(task(f).entry(rows(("a", 1)))) == 1
    with pytest.raises(StepFailed, match=r"offset 1.*KeyError"):
        task(f).entry(rows(("a", 1), ("a", 2)))


def test_state_none_deletes_the_key():
    fold = task(lambda state, row: (None if row.n == 0 else row.n, {"total": state}))
    fold.entry(rows(("a", 7), ("b", 8)))
    assert len(fold.state.held) == 2
    assert fold.entry(rows(("a", 0), ("a", 5)))[1] == {"user": None, "total": None}
    assert fold.entry(rows(("a", 0))) == [{"user": None, "total": 5}]
    assert len(fold.state.held) == 1


def test_no_two_keys_share_their_beginning():
    def f(state: list, row):
        state.append(row.n)
        return state, {"total": len(state)}

    assert [row["total"] for row in task(f, []).entry(rows(("a", 1), ("b", 1), ("a", 1)))] == [1, 1, 2]


def test_a_row_that_is_the_state_itself_is_emitted_as_it_was():
    def f(state: dict, row):
        state["total"] = state.get("total", 0) + row.n
        return state, state

    assert [row["total"] for row in task(f, {}).entry(rows(("a", 1), ("a", 2), ("a", 3)))] == [1, 3, 6]


def test_a_state_that_would_come_back_as_another_type_is_refused_at_once():
    with pytest.raises(StepFailed, match="annotate the first parameter"):
        task(lambda state, row: ((1, 2), None)).entry(rows(("a", 1)))
    with pytest.raises(StepFailed, match="could not be read back as int"):
        task(lambda state, row: ("text", None), 0).entry(rows(("a", 1)))
    with pytest.raises(StepFailed, match="cannot be stored"):
        task(lambda state, row: (2**70, None)).entry(rows(("a", 1)))
    with pytest.raises(StepFailed, match="could not be read back"):
        task(lambda state, row: (True, None), 0).entry(rows(("a", 1)))


def test_a_typed_state_keeps_its_type_over_entries_and_attempts():
    def f(state: Visit | None, row):
        state = state or Visit()
        return Visit(state.count + 1, (*state.pages, row.user)), {"total": state.count}

    fold = task(f)
    fold.entry(rows(("a", 1)))
    fold.entry(rows(("a", 1)))
    fold.new_attempt()
    assert fold.entry(rows(("a", 1))) == [{"user": None, "total": 2}]


def test_state_that_another_type_wrote_stops_the_flow():
    fold = task(running_total)
    fold.entry(rows(("a", 1)))
    other = task(lambda state, row: (state, None), "text")
    other.state = fold.state
    with pytest.raises(StepFailed, match="key 'a': its state is no str"):
        other.entry(rows(("a", 1)))


def test_an_error_names_step_and_row():
    def divide(state, row):
        return state, {"total": 1 // row.n}

    with pytest.raises(StepFailed) as failed:
        task(divide).entry(rows(("a", 1), ("a", 0), first_offset=41))
    assert "step 'fold divide' failed at topic 't', partition 0, offset 42: ZeroDivisionError" in str(
        failed.value
    )
    assert "was stored" in str(failed.value)


def test_an_error_names_the_line_of_the_users_file_that_raised_it():
    def helper(n):
        return 1 // n

    def divide(state, row):
        return state, {"total": helper(row.n)}

    with pytest.raises(StepFailed) as failed:
        task(divide).entry(rows(("a", 0)))
    line = helper.__code__.co_firstlineno + 1
    assert f"ZeroDivisionError: integer division or modulo by zero (test_folds.py:{line}). " in str(
        failed.value
    )
    with pytest.raises(StepFailed, match=r"a fold returns \(state, rows\)\. "):  # no line of theirs
        task(lambda state, row: 1).entry(rows(("a", 1)))


def test_the_error_crosses_processes_also_where_its_cause_cannot():
    class Odd(Exception):
        def __init__(self, first: int, second: int) -> None:
            super().__init__(f"{first} and {second}")
            self.call = lambda: None

    def f(state, row):
        raise Odd(1, 2)

    with pytest.raises(StepFailed) as failed:
        task(f).entry(rows(("a", 1)))
    there = pickle.loads(pickle.dumps(failed.value))
    assert str(there) == str(failed.value) and "Odd: 1 and 2" in str(there)
    assert isinstance(failed.value.cause, Odd)


@pytest.mark.parametrize(
    "row, why",
    [
        ({"user": "a", "total": "x"}, "does not fit its schema"),
        ({"user": "a", "totl": 1}, "column 'totl'"),
        (7, "no row of its schema"),
        ("text", "no row of its schema"),
        ({"user": 3}, "does not fit"),
        ({"total": 2**63}, "does not fit"),
    ],
)
def test_a_row_that_is_not_of_the_schema_stops_at_the_row(row, why):
    with pytest.raises(StepFailed, match=why) as failed:
        task(lambda state, given: (1, row if given.n else None)).entry(rows(("a", 0), ("a", 1)))
    assert "offset 1" in str(failed.value)


def test_a_fold_that_returns_no_pair_is_told_what_to_return():
    with pytest.raises(StepFailed, match=r"a fold returns \(state, rows\)"):
        task(lambda state, row: state).entry(rows(("a", 1)))


def test_a_row_without_a_key_is_bad_and_as_it_came():
    fold = task(running_total)
    value = b'{"n": 1,   "more": 0}'
    fold.entry(raw_piece(ROWS, [value, {"user": "a", "n": 3}], keys=[None, b"a"]))
    assert fold.rows == [{"user": "a", "total": 3}]
    assert fold.side == [("bad", None, value, "it has no key: a column of the key is null")]


def test_a_state_that_was_deleted_begins_anew_also_within_an_entry():
    def f(state: list, row):
        return (None, {"total": -1}) if row.n == 0 else ([*state, row.n], {"total": len(state)})

    fold = task(f, [])
    assert [row["total"] for row in fold.entry(rows(("a", 5), ("a", 0), ("a", 5), ("a", 6)))] == [0, -1, 0, 1]


def test_a_state_s_order_is_that_of_its_bytes_whatever_the_attempts():
    """What a function sees of a mapping or a set it made itself is in another order than what is read back."""

    def f(state: dict | None, row):
        state = state or {}
        state[str(row.n)] = 1
        return state, {"user": ",".join(state), "total": 0}

    whole, parts = task(f), task(f)
    for n in (9, 7, 8, 1):
        whole.entry(rows(("a", n)))
        parts.new_attempt()
        parts.entry(rows(("a", n)))
    assert whole.rows == parts.rows


def test_a_state_that_is_too_large_is_the_step_s_fault():
    fold = task(lambda state, row: ("x" * 10, None))

    def put(key, value):
        raise ValueError("a value of the state has 10 bytes, and may have 3")

    fold.state.of = lambda prefix: fold.state
    fold.state.put = put
    with pytest.raises(StepFailed, match=r"step 'fold <lambda>' failed at entry 0.*may have 3"):
        fold.entry(rows(("a", 1)))


def test_the_state_of_a_renamed_or_mended_fold_is_still_its_state():
    first = Chain((Fold.of(running_total, None, OUT, name="a", version="1"),))
    assert (
        first.state_text() == Chain((Fold.of(running_total, None, None, name="b", version="2"),)).state_text()
    )
    assert first.state_text() != Chain((Fold.of(lambda state, row: None, "", OUT),)).state_text()
    assert first.plan_text() != Chain((Fold.of(running_total, None, OUT, name="a", version="2"),)).plan_text()


USERS = st.sampled_from("abc")
ENTRIES = st.lists(st.lists(st.tuples(USERS, st.integers(-5, 5)), max_size=6), max_size=6)


def last_two(state: list[int] | None, row: Any) -> Any:
    """State that mutates, is deleted, and emits nothing, one row or several."""
    state = state or []
    state.append(row.n)
    if row.n == 0:
        return None, None
    del state[:-2]
    return state, [{"user": row.user, "total": n} for n in state]


@given(ENTRIES, st.sets(st.integers(1, 5)), st.sets(st.integers(1, 5)))
def test_no_cut_of_entries_into_attempts_or_of_rows_into_pieces_can_be_told(entries, attempts, pieces):
    whole, parts = task(last_two), task(last_two)
    for number, entry in enumerate(entries):
        whole.entry(rows(*entry))
        if number in attempts:
            parts.new_attempt()
        parts.entry(*(rows(*part) for part in cut(entry, sorted(pieces))))
    assert whole.values == parts.values and whole.keys == parts.keys
    assert whole.state.held == parts.state.held


@given(ENTRIES)
def test_a_fold_is_the_loop_over_its_rows(entries):
    fold, totals, expected = task(running_total), {}, []
    for entry in entries:
        fold.entry(rows(*entry))
        for user, n in entry:
            totals[user] = totals.get(user, 0) + n
            expected.append({"user": user, "total": totals[user]})
    assert fold.rows == expected
