"""Windows over event time: what they gather, when they close and in which order, and what is late."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow.chain import Chain
from semel.core.flow.folds import Fold
from semel.core.flow.ready import Count, Last, Max, Sum
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.core.flow.sessions import SessionWindow
from semel.core.flow.windows import TumblingWindow
from semel.errors import ConfigError, StepFailed

SCHEMA = parse_schema("user string, at timestamp, n bigint")
USER = (Field("user", Kind.STRING),)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
SECOND_MS = 1000


def second(number: float) -> datetime:
    return EPOCH + timedelta(seconds=number)


def tumbling(
    gathers: Any = None, lateness_s: int = 0, inputs: tuple[int, ...] = (0,), idle_s: int = 0
) -> Task:
    spec = TumblingWindow(
        gathers or Count(USER),
        "at",
        SCHEMA,
        USER,
        lateness_s * SECOND_MS,
        inputs,
        idle_s * SECOND_MS,
        length_ms=10 * SECOND_MS,
    )
    return Task(Chain((spec,)))


def sessions(gathers: Any = None, lateness_s: int = 0, merge: Any = None) -> Task:
    spec = SessionWindow(
        gathers or Count(USER),
        "at",
        SCHEMA,
        USER,
        lateness_s * SECOND_MS,
        gap_ms=10 * SECOND_MS,
        merge=merge,
    )
    return Task(Chain((spec,)))


def rows(*given: tuple[str, float | None], input: int = 0) -> Any:
    made = [
        {"user": user, "at": None if at is None else second(at), "n": number}
        for number, (user, at) in enumerate(given, start=1)
    ]
    return raw_piece(SCHEMA, made, key="user", input=input)


def told(emitted: list[dict[str, Any]], what: str = "count") -> list[tuple[str, float, float, Any]]:
    return [
        (
            row["user"],
            (row["window_start"] - EPOCH).total_seconds(),
            (row["window_end"] - EPOCH).total_seconds(),
            row[what],
        )
        for row in emitted
    ]


def test_a_window_closes_when_time_has_come_to_its_end_and_is_told_once():
    window = tumbling()
    assert window.entry(rows(("a", 1), ("b", 2), ("a", 9.9))) == []
    assert told(window.entry(rows(("a", 10)))) == [("a", 0, 10, 2), ("b", 0, 10, 1)]
    assert window.entry(rows(("a", 11))) == []
    assert window.keys == [b"a", b"b"]


def test_what_closes_together_is_told_by_end_and_key():
    window = tumbling()
    window.entry(rows(("b", 12), ("c", 1), ("a", 13), ("b", 2)))
    assert told(window.entry(rows(("z", 30)))) == [
        ("a", 10, 20, 1),
        ("b", 10, 20, 1),
    ]
    assert told(window.rows) == [("b", 0, 10, 1), ("c", 0, 10, 1), ("a", 10, 20, 1), ("b", 10, 20, 1)]


def test_lateness_holds_a_window_open_and_behind_that_rows_are_late():
    window = tumbling(lateness_s=5)
    window.entry(rows(("a", 1), ("a", 14.9)))
    assert told(window.entry(rows(("a", 3), ("a", 15)))) == [("a", 0, 10, 2)]
    assert window.entry(rows(("a", 4), ("a", 16))) == []
    ((output, key, value, why),) = window.side
    assert (output, key, value) == ("late", b"a", b'{"at":"2024-01-01T00:00:04Z","n":1,"user":"a"}')
    assert why == (
        "its window, from 2024-01-01T00:00:00Z to 2024-01-01T00:00:10Z, was closed: event time had come to "
        "2024-01-01T00:00:15Z"
    )


def test_rows_of_one_entry_are_judged_by_the_time_at_its_beginning():
    window = tumbling()
    assert told(window.entry(rows(("a", 100), ("a", 1)))) == [("a", 0, 10, 1)]
    assert not window.side


def test_several_inputs_go_by_the_one_that_is_behind():
    window = tumbling(inputs=(0, 2))
    assert window.entry(rows(("a", 1)), rows(("a", 50))) == []
    assert window.entry(rows(("a", 5), input=2)) == []
    assert told(window.entry(rows(("b", 11), input=2))) == [("a", 0, 10, 2)]


def test_rows_of_other_inputs_pass_by():
    window = tumbling()
    assert [row["n"] for row in window.entry(rows(("a", 1), input=1))] == [1]


def test_a_tick_closes_what_a_resting_input_holds_open_and_time_never_goes_back():
    window = tumbling(lateness_s=5, inputs=(0, 1), idle_s=1)
    window.entry(rows(("a", 1)))
    assert window.entry(tick_ms=13_999) == []  # 14.999 s, by the one input that had a row
    window.new_attempt()
    assert told(window.entry(tick_ms=1)) == [("a", 0, 10, 1)]
    window.new_attempt()
    window.entry(rows(("a", 9), ("a", 11), input=1))
    assert [side[0] for side in window.side] == ["late"]


def test_ticks_go_on_from_the_latest_row_and_ticks_behind_it_add_up():
    window = tumbling(idle_s=1)
    window.entry(rows(("a", 1)))
    window.entry(tick_ms=5_000)
    window.entry(rows(("a", 2)))  # behind the time, and not late
    assert window.entry(tick_ms=3_999) == []
    assert told(window.entry(tick_ms=1)) == [("a", 0, 10, 2)]
    window.entry(rows(("a", 31)))
    assert told(window.entry(tick_ms=9_000)) == [("a", 30, 40, 1)]


def test_rows_of_another_year_are_not_late_by_a_tick_of_today():
    window = tumbling(idle_s=1)
    year_s = 366 * 24 * 60 * 60
    window.entry(rows(("a", 1 - year_s)))
    window.entry(tick_ms=5_000)
    window.entry(rows(("a", 6 - year_s)))
    assert not window.side and not window.rows


def test_a_window_that_asked_for_no_idle_time_hears_no_tick_nor_does_one_without_rows():
    window = tumbling()
    window.entry(rows(("a", 1)))
    assert window.entry(tick_ms=60_000) == []
    empty = tumbling(idle_s=1)
    assert empty.entry(tick_ms=60_000) == []
    assert empty.entry(rows(("a", -100))) == []
    assert not empty.side


def test_ticks_end_at_the_end_of_time():
    window = tumbling(idle_s=1)
    window.entry(rows(("a", 1)))
    for _ in range(3):
        window.entry(tick_ms=8_000 * 366 * 24 * 60 * 60 * 1000)
    assert told(window.rows) == [("a", 0, 10, 1)]


def test_the_idle_time_is_of_the_plan_and_not_of_the_state():
    asked, other = tumbling(idle_s=1).chain, tumbling().chain
    assert asked.plan_text() != other.plan_text()
    assert asked.state_text() == other.state_text()
    assert "idle" not in other.plan_text()


def test_a_row_without_time_or_at_the_end_of_time_is_bad():
    window = tumbling()
    window.entry(rows(("a", None)))
    window.entry(
        raw_piece(SCHEMA, [{"user": "a", "at": datetime.max.replace(tzinfo=UTC)}], key="user"),
    )
    assert [(output, why) for output, _, _, why in window.side] == [
        ("bad", "its time (column 'at') is null"),
        ("bad", "its time (column 'at') is at the end of what times can be"),
    ]
    window.entry(raw_piece(SCHEMA, [{"at": second(1)}], keys=[None]))
    assert window.side[-1][3].startswith("it has no key")


@pytest.mark.parametrize("at", [-5, -10, -0.000001])
def test_windows_before_1970_and_negative_times(at):
    window = tumbling()
    start = datetime(1970, 1, 1, tzinfo=UTC)
    piece = raw_piece(SCHEMA, [{"user": "a", "at": start + timedelta(seconds=at)}], key="user")
    window.entry(piece)
    (row,) = window.entry(raw_piece(SCHEMA, [{"user": "b", "at": start}], key="user"))
    assert row["window_end"] == start and row["window_start"] == start - timedelta(seconds=10)


def test_totals_in_windows():
    for gathers, what, expected in [
        (Sum(USER, "n"), "sum_n", 3),
        (Max(USER, "n"), "max_n", 2),
        (Last(USER), "n", 2),
    ]:
        window = tumbling(gathers)
        window.entry(rows(("a", 1), ("a", 2)))
        assert told(window.entry(rows(("b", 10))), what) == [("a", 0, 10, expected)]


def newest(state: int | None, row: Any) -> Any:
    total = (state or 0) + row.n
    return total, {"user": row.user, "total": total}


TOTAL = parse_schema("user string, total bigint")


def test_a_typed_fold_in_a_window_tells_what_its_last_call_gave():
    window = tumbling(Fold.of(newest, None, TOTAL))
    window.entry(rows(("a", 1), ("a", 2)))
    window.entry(rows(("a", 3), ("b", 3)))
    made = window.entry(rows(("a", 10)))
    assert told(made, "total") == [("a", 0, 10, 4), ("b", 0, 10, 2)]
    assert list(made[0]) == ["window_start", "window_end", "user", "total"]


def test_a_fold_may_tell_nothing_or_several_rows_and_may_drop_the_window():
    def f(state: int | None, row: Any) -> Any:
        if row.user == "drop":
            return None, None
        if row.user == "none":
            return 1, []
        return None, ({"user": row.user, "total": total} for total in (1, 2))

    window = tumbling(Fold.of(f, None, TOTAL))
    window.entry(rows(("drop", 1), ("none", 1), ("two", 1)))
    assert sum(key[2:3] == b"w" for key in window.state.held) == 2
    assert told(window.entry(rows(("a", 10))), "total") == [("two", 0, 10, 1), ("two", 0, 10, 2)]
    assert window.keys == [b"two", b"two"]


def test_a_failing_fold_names_the_row():
    def f(state: int | None, row: Any) -> Any:
        return 1, {"total": 1 // (row.n - 2)}

    with pytest.raises(StepFailed, match="offset 1: ZeroDivisionError"):
        tumbling(Fold.of(f, None, TOTAL)).entry(rows(("a", 1), ("a", 2)))
    with pytest.raises(StepFailed, match=r"offset 0.*does not fit"):
        tumbling(Fold.of(lambda state, row: (1, {"total": "x"}), None, TOTAL)).entry(rows(("a", 1)))


def test_windows_that_make_no_sense():
    with pytest.raises(ConfigError, match="is string, and a window is over a timestamp"):
        TumblingWindow(Count(USER), "user", SCHEMA, USER, length_ms=1).output_schema()
    with pytest.raises(ConfigError, match="no length"):
        TumblingWindow(Count(USER), "at", SCHEMA, USER)
    with pytest.raises(ConfigError, match="needs merge"):
        sessions(Fold.of(newest, None, TOTAL))
    with pytest.raises(ConfigError, match="say the schema"):
        TumblingWindow(Fold.of(newest), "at", SCHEMA, USER, length_ms=1).output_schema()


# --- sessions -------------------------------------------------------------------------------------------


def test_a_session_lasts_as_long_as_rows_come_within_the_gap():
    window = sessions()
    window.entry(rows(("a", 0), ("b", 5), ("a", 9)))
    window.entry(rows(("a", 18.9)))
    window.entry(rows(("c", 29)))
    assert told(window.rows) == [("b", 5, 15, 1), ("a", 0, 28.9, 3)]


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("order", [(0, 10, 20), (20, 10, 0), (0, 20, 10)])
def test_a_row_exactly_a_gap_away_is_of_the_session(is_apart, order):
    """As Spark has it: [0, 30) of three rows."""
    window = sessions(lateness_s=20)
    for at in order:
        if is_apart:
            window.new_attempt()
        window.entry(rows(("a", at)))
    window.entry(rows(("z", 100)))
    assert told(window.rows) == [("a", 0, 30, 3)]


@pytest.mark.parametrize(
    ("apart_s", "told_rows"), [(10, [("a", 0, 20, 2)]), (10.001, [("a", 0, 10, 1), ("a", 10.001, 20.001, 1)])]
)
def test_the_border_of_a_session(apart_s, told_rows):
    window = sessions()
    window.entry(rows(("a", 0), ("a", apart_s)))
    window.entry(rows(("z", 100)))
    assert told(window.rows) == told_rows


def test_the_border_is_of_the_plan_and_not_of_the_state():
    chain = sessions().chain
    assert "border" in chain.plan_text()
    assert "border" not in chain.state_text()


def test_a_tumbling_window_has_its_beginning_and_not_its_end():
    window = tumbling()
    window.entry(rows(("a", 0), ("a", 9.999), ("a", 10), ("a", -10), ("a", -0.001)))
    window.entry(rows(("z", 100)))
    assert told(window.rows) == [("a", -10, 0, 2), ("a", 0, 10, 2), ("a", 10, 20, 1)]


@pytest.mark.parametrize("is_apart", [False, True])
def test_two_sessions_become_one_when_a_row_falls_between_them(is_apart):
    window = sessions(Sum(USER, "n"), lateness_s=10)
    window.entry(rows(("a", 0), ("a", 15)))
    if is_apart:
        window.new_attempt()
    window.entry(rows(("a", 8), ("a", 40)))
    window.entry(rows(("z", 100)))
    assert told(window.rows, "sum_n") == [("a", 0, 25, 4), ("a", 40, 50, 2)]


def test_the_states_of_two_sessions_of_a_typed_fold_are_merged():
    def longest(state: list | None, row: Any) -> Any:
        state = [*(state or []), row.n]
        return state, {"user": row.user, "total": len(state)}

    merged = []

    def merge(first: list, second: list) -> list:
        merged.append((first, second))
        return first + second

    window = sessions(Fold.of(longest, None, TOTAL), 10, merge)
    window.entry(rows(("a", 15), ("a", 0)))
    window.entry(rows(("a", 8)))
    assert merged == [([2], [1])]
    assert told(window.entry(rows(("z", 100))), "total") == [("a", 0, 25, 3)]
    broken = sessions(Fold.of(longest, None, TOTAL), 10, lambda first, second: 1 // 0)
    broken.entry(rows(("a", 15), ("a", 0)))
    with pytest.raises(StepFailed, match="two sessions of key 'a' that become one: ZeroDivisionError"):
        broken.entry(rows(("a", 8)))


def test_a_row_is_late_unless_it_reaches_into_an_open_session():
    window = sessions()
    window.entry(rows(("a", 20), ("b", 20)))
    window.entry(rows(("a", 10), ("b", 9), ("b", 1)))
    assert [(key, why[:58]) for _, key, _, why in window.side] == [
        (b"b", "its window, from 2024-01-01T00:00:09Z to 2024-01-01T00:00:"),
        (b"b", "its window, from 2024-01-01T00:00:01Z to 2024-01-01T00:00:"),
    ]
    assert told(window.entry(rows(("z", 100)))) == [("a", 10, 30, 2), ("b", 20, 30, 1)]


# --- properties -----------------------------------------------------------------------------------------

TIMES = st.integers(0, 60)
ENTRIES = st.lists(st.lists(st.tuples(st.sampled_from("abc"), TIMES), max_size=6), max_size=6)


def run(make: Any, entries: Any, attempts: set[int], ends: set[int]) -> Task:
    """``at`` of every third row in tenths of a second, so that equal times are rare and still met."""
    window = make()
    for number, entry in enumerate(entries):
        if number in attempts:
            window.new_attempt()
        window.entry(*(rows(*part) for part in cut(entry, sorted(ends))))
    return window


@pytest.mark.parametrize("make", [tumbling, sessions])
@given(entries=ENTRIES, lateness_s=st.integers(0, 20))
def test_each_row_is_in_one_window_or_late(make, entries, lateness_s):
    window = run(lambda: make(lateness_s=lateness_s), entries, set(), set())
    late = len(window.side)
    window.entry(rows(("z", 10_000)))
    window.entry(rows(("z", 20_000)))
    assert sum(row["count"] for row in window.rows if row["user"] != "z") + late == sum(map(len, entries))
    met = Counter((row["user"], row["window_start"], row["window_end"]) for row in window.rows)
    assert max(met.values()) == 1
    state = {key[2:3] for key in window.state.held}
    assert state <= {b"e", b"w", b"s"} and sum(key[2:3] == b"w" for key in window.state.held) == 1


@pytest.mark.parametrize("make", [tumbling, sessions])
@given(
    entries=ENTRIES,
    lateness_s=st.integers(0, 20),
    attempts=st.sets(st.integers(1, 5)),
    ends=st.sets(st.integers(1, 5)),
)
def test_no_cut_can_be_told(make, entries, lateness_s, attempts, ends):
    whole = run(lambda: make(Last(USER), lateness_s), entries, set(), set())
    parts = run(lambda: make(Last(USER), lateness_s), entries, attempts, ends)

    assert [told([row], "user") for row in whole.rows] == [told([row], "user") for row in parts.rows]
    assert [side[:2] for side in whole.side] == [side[:2] for side in parts.side]
    assert whole.state.held.keys() == parts.state.held.keys()


def reference_tumbling(entries: Any, lateness_s: int) -> tuple[list[Any], int]:
    """Row by row, closing entry by entry."""
    open_windows: dict[tuple[float, str], int] = {}
    now: float | None = None
    told_rows, late = [], 0
    for entry in entries:
        before = now
        for user, at in entry:
            end = at // 10 * 10 + 10
            if before is not None and end + lateness_s <= before:
                late += 1
            else:
                open_windows[end, user] = open_windows.get((end, user), 0) + 1
            now = at if now is None else max(now, at)
        for end, user in sorted(open_windows):
            if now is not None and end + lateness_s <= now:
                told_rows.append((user, end - 10, end, open_windows.pop((end, user))))
    return told_rows, late


@given(ENTRIES, st.integers(0, 20))
def test_tumbling_windows_are_the_loop_over_their_rows(entries, lateness_s):
    window = run(lambda: tumbling(lateness_s=lateness_s), entries, {1, 3}, {2})
    assert (told(window.rows), len(window.side)) == reference_tumbling(entries, lateness_s)


def reference_sessions(entries: Any, lateness_s: int) -> tuple[list[Any], int]:
    """Intervals that grow and merge, row by row."""
    open_sessions: dict[str, list[list[float]]] = {}
    now: float | None = None
    told_rows, late = [], 0
    for entry in entries:
        before = now
        for user, at in entry:
            mine = open_sessions.setdefault(user, [])
            met = [session for session in mine if session[0] <= at + 10 and at <= session[1]]
            if not met and before is not None and at + 10 + lateness_s <= before:
                late += 1
            else:
                for session in met:
                    mine.remove(session)
                start, end = min([at, *(s[0] for s in met)]), max([at + 10, *(s[1] for s in met)])
                mine.append([start, end, 1 + sum(s[2] for s in met)])
            now = at if now is None else max(now, at)
        due = sorted(
            (end, user, start, count)
            for user, mine in open_sessions.items()
            for start, end, count in mine
            if now is not None and end + lateness_s <= now
        )
        for end, user, start, count in due:
            open_sessions[user].remove([start, end, count])
            told_rows.append((user, start, end, count))
    return told_rows, late


@given(ENTRIES, st.integers(0, 20))
def test_sessions_are_the_intervals_that_grow_and_merge(entries, lateness_s):
    window = run(lambda: sessions(lateness_s=lateness_s), entries, {1, 3}, {2})
    assert (told(window.rows), len(window.side)) == reference_sessions(entries, lateness_s)
