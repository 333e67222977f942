"""Ready folds: what the columns give is what a loop over the rows gives, and one row for each key of an entry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow.chain import Chain
from semel.core.flow.ready import Count, Last, Max, Min, Sum
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.errors import StepFailed

USER = (Field("user", Kind.STRING),)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = (
    "user string, n bigint, i int, x double, f float, s string, b boolean, at timestamp, d date, raw binary"
)

VALUES: dict[str, Any] = {
    "n": st.integers(-(2**62), 2**62) | st.integers(-3, 3),
    "i": st.integers(-(2**31), 2**31 - 1),
    "x": st.floats(-1e300, 1e300) | st.sampled_from([0.0, -0.0, 1.5, 0.1]),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "s": st.text(max_size=3).filter(lambda text: text.isprintable()),
    "b": st.booleans(),
    "at": st.integers(-(10**12), 10**12).map(lambda us: EPOCH + timedelta(microseconds=us)),
    "d": st.dates(),
    "raw": st.binary(max_size=3),
}


def task(*steps: Any) -> Task:
    return Task(Chain(steps))


def rows(*given: dict[str, Any], **more: Any) -> Any:
    return raw_piece(SCHEMA, given, key="user", **more)


def test_one_row_for_each_key_of_an_entry_in_the_order_of_first_appearance():
    count = task(Count(USER))
    assert count.entry(rows({"user": "b"}, {"user": "a"}, {"user": "b"})) == [
        {"user": "b", "count": 2},
        {"user": "a", "count": 1},
    ]
    assert count.entry(rows({"user": "c"}, {"user": "b"})) == [
        {"user": "c", "count": 1},
        {"user": "b", "count": 3},
    ]
    assert count.keys == [b"b", b"a", b"c", b"b"]
    assert count.entry() == []


def test_keys_of_several_columns_and_of_numbers_come_back_as_columns():
    fields = (Field("n", Kind.LONG), Field("s", Kind.STRING))
    piece = raw_piece(SCHEMA, [{"n": 1, "s": "x"}, {"n": 1, "s": "x"}], keys=[b'[1,"x"]', b'[1,"x"]'])
    assert task(Count(fields)).entry(piece) == [{"n": 1, "s": "x", "count": 2}]


def test_a_key_that_is_not_of_its_columns_makes_its_rows_bad():
    count = task(Count((Field("n", Kind.LONG),)))
    piece = raw_piece(SCHEMA, [{"s": "1"}, {"s": "2"}, {"s": "3"}], keys=[b"7", b"seven", b"7"])
    assert count.entry(piece) == [{"n": 7, "count": 2}]
    assert count.side == [
        ("bad", b"seven", b'{"s":"2"}', "its key is not of the columns of the key (n bigint)")
    ]
    text = task(Count(USER))
    text.entry(raw_piece(SCHEMA, [{"s": "1"}, {"s": "2"}], keys=[b"\xff", b"a"]))
    assert [row["user"] for row in text.rows] == ["a"] and len(text.side) == 1


def test_nulls_are_left_out_and_a_sum_over_nothing_is_null():
    entry = rows({"user": "a"}, {"user": "b", "n": 3}, {"user": "a"})
    assert task(Sum(USER, "n")).entry(entry) == [{"user": "a", "sum_n": None}, {"user": "b", "sum_n": 3}]
    assert task(Min(USER, "n", "least")).entry(entry) == [
        {"user": "a", "least": None},
        {"user": "b", "least": 3},
    ]


def test_last_is_the_last_row_with_all_its_columns_and_needs_no_state():
    last = task(Last(USER))
    made = last.entry(rows({"user": "a", "n": 1, "at": EPOCH}, {"user": "a", "s": "x"}))
    assert made == [{name: {"user": "a", "s": "x"}.get(name) for name in parse_schema(SCHEMA).names}]
    assert not last.state.held


def test_a_sum_that_its_column_cannot_hold_stops_the_flow():
    with pytest.raises(StepFailed, match=r"step 'sum' failed at key 'a'.*9223372036854775808"):
        task(Sum(USER, "n")).entry(
            rows({"user": "b", "n": 5}, {"user": "a", "n": 2**63 - 1}, {"user": "a", "n": 1})
        )
    summed = task(Sum(USER, "n"))
    summed.entry(rows({"user": "a", "n": 2**63 - 1}))
    with pytest.raises(StepFailed, match="key 'a'"):
        summed.entry(rows({"user": "a", "n": 1}))
    with pytest.raises(StepFailed, match="inf"):
        task(Sum(USER, "x")).entry(rows({"user": "a", "x": 1e308}, {"user": "a", "x": 1e308}))


def test_a_sum_of_what_is_no_number_is_an_error_of_the_plan():
    with pytest.raises(ValueError, match="column 's' is string"):
        Sum(USER, "s").output_schema(parse_schema(SCHEMA))


def reference(spec: Any, entries: list[list[dict[str, Any]]]) -> tuple[list[Any], dict[str, Any]]:
    """The loop over the rows."""
    schema = parse_schema(SCHEMA)
    total = spec.total(schema)
    states: dict[str, Any] = {}
    emitted = []
    for entry in entries:
        met = list(dict.fromkeys(row["user"] for row in entry))
        for row in entry:
            value = (
                tuple(row.get(field.name) for field in total.fields)
                if isinstance(spec, Last)
                else row.get(getattr(spec, "of", ""))
            )
            if value is not None or isinstance(spec, Count):
                states[row["user"]] = total.reference(states.get(row["user"]), value)
        emitted += [(user, states.get(user)) for user in met]
    return emitted, states


@st.composite
def totals(draw: Any) -> tuple[Any, Any]:
    kind = draw(st.sampled_from([Count, Sum, Min, Max, Last]))
    of = draw(st.sampled_from(["n", "i", "x", "f"] if kind is Sum else sorted(VALUES)))
    spec = kind(USER) if kind in (Count, Last) else kind(USER, of)
    row = st.fixed_dictionaries({"user": st.sampled_from("abc"), of: st.none() | VALUES[of]})
    return spec, draw(st.lists(st.lists(row, max_size=6), max_size=4))


@given(totals(), st.sets(st.integers(1, 3)), st.sets(st.integers(1, 5)))
def test_columns_give_what_the_loop_over_the_rows_gives(drawn, attempts, pieces):
    spec, entries = drawn
    ready = task(spec)
    total = spec.total(parse_schema(SCHEMA))
    try:
        for number, entry in enumerate(entries):
            if number in attempts:
                ready.new_attempt()
            ready.entry(*(rows(*part) for part in cut(entry, sorted(pieces))))
    except StepFailed:
        _, states = reference(spec, entries)
        assert (
            any(abs(total) >= 2**63 for total in states.values() if total is not None)
            or any(total in (float("inf"), float("-inf")) for total in states.values())
            or isinstance(spec, Sum)
        )
        return
    emitted, _ = reference(spec, entries)
    if isinstance(spec, Last):
        got = [(row["user"], tuple(row[field.name] for field in total.fields)) for row in ready.rows]
    else:
        got = [(row["user"], row[total.fields[0].name]) for row in ready.rows]
    assert repr(got) == repr(emitted)
