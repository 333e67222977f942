from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP
from tests.sim.conftest import Breaks

from semel.sim.checkers.recovery import LostEndIsTold


@pytest.mark.parametrize(("lost", "told"), [(3, 3), (0, None), (0, 0)])
def test_what_is_lost_is_told(lost: int, told: int | None) -> None:
    LostEndIsTold().read_before_power_cut(TP, lost, told)


@pytest.mark.parametrize(("lost", "told"), [(3, None), (3, 2), (3, 4), (0, 1)])
def test_something_else_is_told(breaks: Breaks, lost: int, told: int | None) -> None:
    with breaks():
        LostEndIsTold().read_before_power_cut(TP, lost, told)
