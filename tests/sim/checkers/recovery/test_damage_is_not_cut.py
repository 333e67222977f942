from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP
from tests.sim.conftest import Breaks

from semel.sim.checkers.recovery import DamageIsNotCut


@pytest.mark.parametrize("log_end_offset", [None, 9, 10])
def test_refused_or_served_to_its_end(log_end_offset: int | None) -> None:
    DamageIsNotCut().opened_damaged(TP, 9, log_end_offset)


def test_one_record_shorter(breaks: Breaks) -> None:
    with breaks():
        DamageIsNotCut().opened_damaged(TP, 9, 8)
