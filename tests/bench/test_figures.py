"""Medians and ratios."""

from __future__ import annotations

import pytest
from bench.figures import Spread, interval_of_median, ratios
from hypothesis import given
from hypothesis import strategies as st

FIGURES = st.lists(st.floats(min_value=1e-3, max_value=1e9), min_size=1, max_size=9)


def test_a_spread_is_the_middle_and_both_ends() -> None:
    assert Spread.of([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0)


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    # The ratio of the medians would be 20 / 10; round by round it is 2, 4 and 1.
    assert ratios([20.0, 40.0, 10.0], [10.0, 10.0, 10.0]) == Spread(2.0, 1.0, 4.0)


def test_less_is_better_turns_the_ratio_round() -> None:
    assert ratios([10.0], [30.0], less_is_better=True).median == 3.0


def test_rounds_without_a_neighbour_are_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        ratios([1.0, 2.0], [1.0])


def test_the_more_values_the_surer_is_their_median() -> None:
    assert interval_of_median([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert interval_of_median([float(n) for n in range(101)]) == Spread(50.0, 40.0, 60.0)


@given(FIGURES)
def test_a_spread_is_ordered(values: list[float]) -> None:
    spread = Spread.of(values)
    assert spread.least <= spread.median <= spread.greatest


@given(FIGURES, st.booleans())
def test_against_itself_nobody_wins(values: list[float], less_is_better: bool) -> None:
    assert ratios(values, values, less_is_better=less_is_better) == Spread(1.0, 1.0, 1.0)
