"""Plans of a merge log: bounded, fair, and nothing left that fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.merge_samples import (
    C,
    U,
    head,
    history_of,
    of,
    read,
)

from semel.core.flow.merge import MergeHistory
from semel.core.flow.merge_plan import ENTRY_BYTES_MAX, plan_entries, rows_that_fit, shares
from semel.core.flow.merge_records import InputTopic

KEYS = [InputTopic(f"t{number}", f"id{number}") for number in range(5)]


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 10**12), min_size=1), st.integers(5, 70_000))
def test_shares_are_whole_proportional_and_never_nothing(accumulator, rows_max):
    found = shares(accumulator, rows_max)
    total = sum(accumulator.values())
    assert sum(found.values()) == min(total, rows_max)
    for key, share in found.items():
        assert 1 <= share <= accumulator[key]
        if total > rows_max:
            exact = accumulator[key] * rows_max / total
            assert abs(share - exact) <= len(accumulator) + 1


def test_shares_of_fewer_rows_than_inputs_are_a_mistake():
    with pytest.raises(ValueError, match="1 row cannot be shared by 2 inputs"):
        shares({C: 5, U: 5}, 1)


@given(
    st.fixed_dictionaries({key: st.integers(0, 50) for key in KEYS}),
    st.fixed_dictionaries({key: st.integers(0, 300) for key in KEYS}),
    st.integers(5, 100),
    st.integers(0, 6),
    st.sampled_from([None, 77]),
)
def test_a_plan_is_bounded_and_leaves_nothing_that_fits(starts, accumulator, rows_max, entries_max, tick_ms):
    latest = {key: starts[key] + accumulator[key] for key in KEYS}
    history = MergeHistory(3, "", 8, dict(starts), 20)
    plan = plan_entries(history, KEYS, latest, 3, rows_max=rows_max, entries_max=entries_max, tick_ms=tick_ms)
    assert len(plan) <= entries_max
    for offset, each in enumerate(plan, 30):
        assert history.apply(offset, each)
        assert sum(one.end_offset - one.from_offset for one in each.ranges) <= rows_max
        assert [one.key for one in each.ranges] == [
            key for key in KEYS if key in {one.key for one in each.ranges}
        ]
        assert each.tick_ms is None or plan == [each]
    has_tick = bool(plan) and plan[-1].tick_ms is not None
    if len(plan) < entries_max:
        assert history.ends == latest
        assert has_tick == (tick_ms is not None and not any(accumulator.values()))
    rows = sum(accumulator.values())
    assert len(plan) - has_tick == min(entries_max, -(-rows // rows_max))


@given(st.lists(st.floats(0, 1e9), max_size=6), st.integers(6, 70_000))
def test_rows_that_fit_are_bounded_in_bytes_and_never_none(sizes, rows_max):
    rows = rows_that_fit(sizes, rows_max)
    assert len(sizes) <= rows <= rows_max
    assert rows == max(1, len(sizes)) or rows * max(sizes, default=0) <= ENTRY_BYTES_MAX


def test_tables_are_read_ahead_of_the_first_row_of_another_input():
    latest = {C: 100, U: 8}
    history = history_of([head(1)])
    entries = plan_entries(history, [C, U], latest, 1, rows_max=5, entries_max=3, ahead={U: 7})
    assert [each.ranges for each in entries] == [(of(U, 0, 5),), (of(U, 5, 7),), (of(C, 0, 4), of(U, 7, 8))]
    assert [each.is_ahead for each in entries] == [True, True, False]
    for count, rest in enumerate(entries):  # also by who begins behind one of them
        log = [head(1), *entries[:count]]
        begun = MergeHistory.at(read(log)[-1]) if count else history_of(log)
        assert plan_entries(begun, [C, U], latest, 1, rows_max=5, entries_max=1, ahead={U: 7}) == [rest]
    assert plan_entries(
        history_of([head(1), *entries]), [C, U], {C: 100, U: 99}, 1, rows_max=50, ahead={U: 99}
    )[0].ranges == (of(C, 4, 29), of(U, 8, 33))


def test_a_table_stays_ahead_while_nothing_else_has_a_row():
    history = history_of(
        [head(1), *plan_entries(history_of([head(1)]), [C, U], {C: 0, U: 3}, 1, ahead={U: 3})]
    )
    tick = plan_entries(history, [C, U], {C: 0, U: 3}, 1, tick_ms=7, ahead={U: 3})
    assert history.apply(2, tick[0])
    assert [each.ranges for each in plan_entries(history, [C, U], {C: 5, U: 4}, 1, ahead={U: 4})] == [
        (of(U, 3, 4),),
        (of(C, 0, 5),),
    ]


def test_what_waits_in_a_slow_input_is_in_the_next_entry():
    history = MergeHistory(1, "", 0, {C: 0, U: 0})
    first = plan_entries(history, [U, C], {C: 10_000_000, U: 1}, 1)[0]
    assert first.ranges == (of(U, 0, 1), of(C, 0, 65_535))
