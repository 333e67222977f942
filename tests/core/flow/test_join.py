"""Join: the table as of the recorded order, tombstones, and rows that are joined again when the table changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow import join
from semel.core.flow.chain import Chain
from semel.core.flow.join import Join, joined_schema
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.errors import ConfigError

CLICKS = parse_schema("user string, n bigint")
USERS = parse_schema("user string, country string, born date")
USER = (Field("user", Kind.STRING),)


def task(how: str = "inner", repair: bool = False) -> Task:
    return Task(Chain((Join(1, CLICKS, USERS, USER, how, repair),), frozenset({1})))


def clicks(*given: tuple[str, int]) -> Any:
    return raw_piece(CLICKS, [{"user": user, "n": n} for user, n in given], key="user")


def users(*given: tuple[str, str | None]) -> Any:
    """``None``: a tombstone."""
    rows = [None if country is None else {"user": user, "country": country} for user, country in given]
    return raw_piece(USERS, rows, keys=[user for user, _ in given], input=1)


def countries(rows: list[dict[str, Any]]) -> list[tuple[str, int, str | None]]:
    return [(row["user"], row["n"], row["country"]) for row in rows]


def test_a_row_meets_the_table_as_it_is_where_it_stands():
    joined = task()
    made = joined.entry(clicks(("a", 0)), users(("a", "IS"), ("b", "NO")), clicks(("b", 1), ("a", 2)))
    assert made == [
        {"user": "b", "n": 1, "country": "NO", "born": None},
        {"user": "a", "n": 2, "country": "IS", "born": None},
    ]
    assert joined.keys == [b"b", b"a"]
    assert joined.entry(users(("a", "DK"))) == []
    assert countries(joined.entry(clicks(("a", 3)))) == [("a", 3, "DK")]


def test_left_keeps_rows_that_meet_nothing_and_a_tombstone_deletes():
    joined = task("left")
    assert countries(joined.entry(clicks(("a", 0)), users(("a", "IS")), clicks(("a", 1)))) == [
        ("a", 0, None),
        ("a", 1, "IS"),
    ]
    assert countries(joined.entry(users(("a", None), ("b", "NO")), clicks(("a", 2), ("b", 3)))) == [
        ("a", 2, None),
        ("b", 3, "NO"),
    ]
    assert len(joined.state.held) == 1


def test_repair_joins_the_rows_that_met_another_table_row_or_none():
    joined = task(repair=True)
    assert joined.entry(clicks(("a", 0), ("b", 1), ("a", 2))) == []
    assert countries(joined.entry(users(("a", "IS")))) == [("a", 0, "IS"), ("a", 2, "IS")]
    assert joined.entry(users(("a", "IS"))) == []
    assert countries(joined.entry(clicks(("a", 3)), users(("a", "DK"), ("b", "NO")))) == [
        ("a", 3, "IS"),
        ("a", 0, "DK"),
        ("a", 2, "DK"),
        ("a", 3, "DK"),
        ("b", 1, "NO"),
    ]
    assert joined.entry(users(("a", None))) == []
    assert joined.keys[-5:] == [b"a"] * 4 + [b"b"]


def test_repair_of_a_left_join_says_that_the_table_row_is_gone():
    joined = task("left", repair=True)
    joined.entry(users(("a", "IS")), clicks(("a", 0)))
    assert countries(joined.entry(users(("a", None)))) == [("a", 0, None)]


def test_only_the_last_rows_of_a_key_are_repaired(monkeypatch):
    monkeypatch.setattr(join, "REPAIR_ROWS_MAX", 3)
    joined = task(repair=True)
    joined.entry(clicks(("a", 0), ("a", 1)))
    joined.entry(clicks(("a", 2), ("b", 9), ("a", 3)))
    assert [row["n"] for row in joined.entry(users(("a", "IS")))] == [1, 2, 3]
    joined.entry(clicks(*(("a", n) for n in range(4, 10))))
    assert [row["n"] for row in joined.entry(users(("a", "DK")))] == [7, 8, 9]
    assert sum(key[:3] == b"\0\0r" for key in joined.state.held) == 4


def test_rows_of_other_inputs_pass_by():
    joined = task()
    other = raw_piece(CLICKS, [{"user": "z", "n": 5}], key="user", input=2)
    assert [row["n"] for row in joined.entry(clicks(("a", 1)), other)] == [5]


def test_a_row_without_a_key_is_bad_on_both_sides():
    joined = task("left")
    joined.entry(
        raw_piece(CLICKS, [{"n": 1}], keys=[None]),
        raw_piece(USERS, [{"country": "IS"}, None], keys=[None, None], input=1),
    )
    assert joined.rows == [] and [side[0] for side in joined.side] == ["bad"] * 3


def test_columns_of_both_sides_clash_except_the_key_s():
    assert joined_schema(CLICKS, USERS, ["user"]).names == ("user", "n", "country", "born")
    with pytest.raises(ConfigError, match="column 'n' is in the stream"):
        joined_schema(CLICKS, parse_schema("user string, n int"), ["user"])
    assert joined_schema(parse_schema("n bigint"), USERS, ["user"]).names == ("n", "user", "country", "born")
    with pytest.raises(ValueError, match="no join"):
        Join(1, CLICKS, USERS, USER, "outer")


KEYS = st.sampled_from("ab")
LEFT_ROWS = st.lists(st.tuples(KEYS, st.integers(0, 9)), max_size=4).map(lambda rows: ("left", rows))
TABLE_ROWS = st.lists(st.tuples(KEYS, st.sampled_from(["IS", "NO", None])), max_size=4).map(
    lambda rows: ("table", rows)
)
ENTRIES = st.lists(st.lists(LEFT_ROWS | TABLE_ROWS, max_size=4), max_size=5)


def reference(entries: Any, how: str, repair: bool, bound: int) -> list[tuple[str, int, str | None]]:
    """Row for row in the recorded order."""
    table: dict[str, str] = {}
    kept: dict[str, list[int]] = {}
    out = []
    for entry in entries:
        for side, rows in entry:
            for key, value in rows:
                if side == "left":
                    if key in table or how == "left":
                        out.append((key, value, table.get(key)))
                    kept[key] = [*kept.get(key, []), value][-bound:]
                    continue
                if table.get(key) == value:
                    continue
                table.pop(key, None)
                if value is not None:
                    table[key] = value
                if repair and (value is not None or how == "left"):
                    out += [(key, n, value) for n in kept.get(key, [])]
    return out


@given(
    ENTRIES,
    st.sampled_from(["inner", "left"]),
    st.booleans(),
    st.sets(st.integers(1, 4)),
    st.sets(st.integers(1, 3)),
)
def test_any_cut_gives_the_loop_over_the_recorded_order(entries, how, repair, attempts, ends):
    bound = 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join, "REPAIR_ROWS_MAX", bound)
        joined = task(how, repair)
        for number, entry in enumerate(entries):
            if number in attempts:
                joined.new_attempt()
            pieces = []
            for side, rows in entry:
                make = clicks if side == "left" else users
                pieces += [make(*part) for part in cut(rows, sorted(ends))]
            joined.entry(*pieces)
    assert countries(joined.rows) == reference(entries, how, repair, bound)
