from __future__ import annotations

import pytest
from tests.sim.checkers.conftest import TP, Breaks

from semel.sim.checkers.damage_is_not_cut import DamageIsNotCut


@pytest.mark.parametrize("log_end_offset", [None, 9, 10])
def test_refused_or_served_to_its_end(log_end_offset: int | None) -> None:
    DamageIsNotCut().opened_damaged(TP, 9, log_end_offset)


def test_one_record_shorter(breaks: Breaks) -> None:
    with breaks():
        DamageIsNotCut().opened_damaged(TP, 9, 8)
