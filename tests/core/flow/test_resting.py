"""When a tick is due, by a clock in the test's hands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow.resting import Resting


def test_a_partition_rests_from_its_last_row_and_a_tick_says_for_how_long():
    resting = Resting(10, (100,))
    resting.see(0, {"c": 5}, 1_000)
    resting.see(1, {"c": 7}, 1_004)
    assert resting.due(1_009) == {}
    assert resting.due(1_012) == {0: 12}
    assert resting.due(1_014) == {0: 14, 1: 10}
    resting.see(0, {"c": 6}, 1_015)
    assert resting.due(1_020) == {1: 16}


def test_a_tick_that_was_recorded_ends_where_the_next_begins():
    resting = Resting(10, (100,))
    resting.see(0, {}, 0)
    resting.ticked(0, resting.due(17)[0])
    assert resting.due(26) == {}
    assert resting.due(27) == {0: 10}
    resting.see(0, {}, 28)  # the ends are the same: this is no row
    assert resting.due(29) == {0: 12}


def test_there_is_none_where_nothing_can_be_open():
    resting = Resting(10, (25, 5))
    resting.see(0, {"c": 1}, 0)
    ticks = []
    for now in range(0, 200, 3):
        for number, tick in resting.due(now).items():
            resting.ticked(number, tick)
            ticks.append(tick)
    assert ticks == [12, 12, 12, 12]  # 25 are over with the third, and 5 behind that
    resting.see(0, {"c": 2}, 300)
    assert resting.due(310) == {0: 10}


def test_a_partition_of_which_nothing_was_ever_recorded_has_no_window():
    resting = Resting(10, (25,))
    resting.see(0, {"c": 0}, 0, is_new=True)
    assert resting.due(50) == {}
    resting.see(0, {"c": 1}, 60)
    assert resting.due(70) == {0: 10}


@given(
    st.integers(1, 30),
    st.lists(st.integers(0, 60), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["look", "row", "lost"])), max_size=60),
)
def test_ticks_never_say_more_than_went_by_and_close_every_window_in_the_end(idle, rests, steps):
    resting = Resting(idle, rests)
    now, row_at, told, ends = 0, 0, 0, 0
    resting.see(0, ends, now)
    for wait, what in [*steps, *[(idle, "look")] * (sum(rests) // idle + 2 * len(rests) + 2)]:
        now += wait
        if what == "row":
            ends, row_at, told = ends + 1, now, 0
        else:
            for number, tick in resting.due(now).items():
                assert tick >= idle
                if what == "look":  # else it did not come into the log
                    resting.ticked(number, tick)
                    told += tick
        resting.see(0, ends, now)
        assert told <= now - row_at
    assert told >= sum(rests[:1])
    assert resting.due(now + 1_000) == {}
