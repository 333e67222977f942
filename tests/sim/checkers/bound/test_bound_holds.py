from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks

from semel.sim.checkers.bound import BoundHolds


@pytest.mark.parametrize(("known", "kept"), [(5, 0), (3, 2), (0, 5)])
def test_at_the_bound_and_beyond_it(breaks: Breaks, known: int, kept: int) -> None:
    checker = BoundHolds()
    checker.remembered(known, kept, 5, is_start=False)
    with breaks():
        checker.remembered(known + 1, kept, 5, is_start=False)


def test_a_start_may_find_more_and_none_is_added_to_them(breaks: Breaks) -> None:
    checker = BoundHolds()
    checker.remembered(8, 1, 5, is_start=True)
    checker.remembered(7, 0, 5, is_start=False)
    with breaks():
        checker.remembered(7, 1, 5, is_start=False)
