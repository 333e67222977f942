"""Chains of steps over the state that tasks have: what they emit is a function of the entries, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.flow.attempts import cut, plain, raw_piece

from semel.core.flow.chain import Chain
from semel.core.flow.codec import conform
from semel.core.flow.folds import Fold
from semel.core.flow.join import Join
from semel.core.flow.pieces import Entry, Piece
from semel.core.flow.ready import Count, Last, Max, Sum
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.core.flow.sessions import SessionWindow
from semel.core.flow.state import MemoryBase, State
from semel.core.flow.steps import Filter, FlatMap, Map, OnInputs
from semel.core.flow.windows import TumblingWindow
from semel.errors import StepFailed

CLICKS = parse_schema("user string, n bigint, at timestamp")
USERS = parse_schema("user string, country string")
KEY = (Field("user", Kind.STRING),)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def kept_sums(state: list[int] | None, row: Any) -> Any:
    """Emits nothing, one row or two; forgets at zero."""
    state = [*(state or []), row.n][-3:]
    if row.n == 0:
        return None, None
    return state, [{"user": row.user, "n": n, "at": row.at} for n in state[: 1 + row.n % 2]]


def raised(row: Any) -> Any:
    return {"user": row.user, "n": row.n + 1, "at": row.at}


STATELESS = (
    Map.of(raised, CLICKS, name="raised"),
    Filter.of(lambda row: row.n % 3 != 0, name="thirds"),
    FlatMap.of(lambda row: [raised(row)] * (abs(row.n) % 3), CLICKS, name="spread"),
    Map(lambda table: table, CLICKS, "same", "", True),
)
KEEPING = (Fold.of(kept_sums, None, CLICKS, name="kept"), Last(KEY))
ENDING = (
    Count(KEY),
    Sum(KEY, "n"),
    Max(KEY, "at"),
    TumblingWindow(Count(KEY), "at", CLICKS, KEY, 2000, length_ms=5000),
    TumblingWindow(Fold.of(kept_sums, None, CLICKS, name="kept"), "at", CLICKS, KEY, length_ms=5000),
    SessionWindow(Sum(KEY, "n"), "at", CLICKS, KEY, 1000, gap_ms=3000),
)


@st.composite
def chains(draw: Any) -> Chain:
    steps: list[Any] = draw(st.lists(st.sampled_from(STATELESS), max_size=2))
    is_joined = draw(st.booleans())
    if is_joined:
        steps = [OnInputs(step, (0,)) for step in steps]
        steps.append(
            Join(1, CLICKS, USERS, KEY, draw(st.sampled_from(["inner", "left"])), draw(st.booleans()))
        )
        steps.append(Map(lambda table: conform(CLICKS, table), CLICKS, "narrow", "", True))
    steps += draw(st.lists(st.sampled_from([*STATELESS, *KEEPING]), max_size=2))
    steps += draw(st.lists(st.sampled_from(ENDING), min_size=0 if is_joined else 1, max_size=1))
    return Chain(tuple(steps), frozenset({1} if is_joined else ()))


USER = st.sampled_from(["a", "b", None])
CLICK = st.tuples(USER, st.integers(-3, 3), st.integers(0, 40) | st.none())
TABLE_ROW = st.tuples(st.sampled_from("ab"), st.sampled_from(["IS", "NO", None]))
ENTRIES = st.lists(
    st.tuples(
        st.lists(CLICK | st.just(b"nonsense"), max_size=6), st.lists(TABLE_ROW, max_size=3), st.booleans()
    ),
    max_size=6,
)


def pieces_of(entry: Any, ends: Sequence[int], offset: int, *, is_joined: bool) -> list[Piece]:
    clicks, table, is_table_first = entry
    given = [
        click
        if isinstance(click, bytes)
        else {
            "user": click[0],
            "n": click[1],
            "at": None if click[2] is None else EPOCH + timedelta(seconds=click[2]),
        }
        for click in clicks
    ]
    keys = [None if isinstance(row, bytes) else row["user"] for row in given]
    made, at = [], offset
    for part, part_keys in zip(cut(given, ends), cut(keys, ends), strict=True):
        made.append(raw_piece(CLICKS, part, keys=part_keys, first_offset=at))
        at += len(part)
    if not is_joined:
        return made
    values = [None if country is None else {"user": user, "country": country} for user, country in table]
    users = [user for user, _ in table]
    of_table, at = [], offset
    for part, part_keys in zip(cut(values, ends), cut(users, ends), strict=True):
        of_table.append(raw_piece(USERS, part, keys=part_keys, input=1, first_offset=at, topic="users"))
        at += len(part)
    return [*of_table, *made] if is_table_first else [*made, *of_table]


def run(chain: Chain, entries: Any, attempts: set[int], ends: set[int]) -> Any:
    """All that is emitted, entry by entry, and the state behind each attempt and at the end."""
    state = State(MemoryBase(), None, inline_bytes_max=1 << 20)
    running = chain.start()
    emitted = []
    for number, entry in enumerate(entries):
        if number in attempts:  # another process, which has what is decided
            state = State(MemoryBase(dict(state.scan())), None, inline_bytes_max=1 << 20)
            running = chain.start()
        seen = Entry(number, None if number % 3 else 1_704_067_200_000 + 4000 * number, state)
        made = running.process(
            pieces_of(entry, sorted(ends), 100 * number, is_joined=bool(chain.table_inputs)), seen
        )
        list(state.end_entry(number))
        rows = [row for piece in made for row in plain(piece)]
        keys = [key for piece in made for key in piece.keys.to_pylist()]
        values = [value for piece in made for value in piece.values().to_pylist()]
        side: dict[str, list[Any]] = {}
        for each in seen.side:
            given = zip(each.keys.to_pylist(), each.values.to_pylist(), each.headers.to_pylist(), strict=True)
            side.setdefault(each.output, []).extend(given)
        emitted.append((rows, keys, values, {name: sorted(given, key=repr) for name, given in side.items()}))
    return emitted, dict(state.scan())


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    chains(),
    ENTRIES,
    st.sets(st.integers(1, 5)),
    st.sets(st.integers(1, 5)),
)
def test_what_a_chain_emits_and_keeps_is_a_function_of_the_entries(chain, entries, attempts, ends):
    assert run(chain, entries, set(), set()) == run(chain, entries, attempts, ends)


def test_a_failing_step_is_named_by_entry_where_no_row_is_known():
    chain = Chain((Sum(KEY, "n"),))
    piece = raw_piece(CLICKS, [{"user": "a", "n": 2**62}] * 2, key="user")
    with pytest.raises(StepFailed, match="step 'sum' failed at key 'a'"):
        chain.start().process([piece], Entry(7, None, State(MemoryBase(), None, inline_bytes_max=1 << 20)))


def test_texts_of_a_plan_tell_every_step_and_are_stable():
    steps = (
        *STATELESS,
        *KEEPING,
        *ENDING,
        Join(1, CLICKS, USERS, KEY, repair=True),
        OnInputs(STATELESS[0], (1,)),
    )
    texts = [Chain((step,)).plan_text() for step in steps]
    assert len(set(texts)) == len(texts)
    assert texts == [Chain((step,)).plan_text() for step in steps]
    states = [Chain((step,)).state_text() for step in steps if step.is_stateful]
    assert all(states) and Chain(STATELESS).state_text() == ""


def test_each_step_with_state_has_its_own():
    chain = Chain((Sum(KEY, "n"), Map.of(lambda row: {"user": row.user, "n": 1}, CLICKS), Sum(KEY, "n")))
    state = State(MemoryBase(), None, inline_bytes_max=1 << 20)
    running = chain.start()
    for number in range(2):
        piece = raw_piece(CLICKS, [{"user": "a", "n": 5}, {"user": "a", "n": 6}], key="user")
        (made,) = running.process([piece], Entry(number, None, state))
        list(state.end_entry(number))
    assert plain(made) == [{"user": "a", "sum_n": 2}]
    assert [key[:2] for key, _ in state.scan()] == [b"\0\0", b"\0\1"]


def test_a_piece_without_rows_calls_no_function_of_tables():
    def never(table: Any) -> Any:
        raise AssertionError("an empty piece is there or not as rows are cut")

    for step in (
        Map(never, None, "m", "", True),
        Filter(never, "f", "", True),
        FlatMap(never, None, "x", "", True),
    ):
        assert Chain((step,)).start().process([raw_piece(CLICKS, [b"nonsense"])], Entry()) == []
