from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP
from tests.sim.conftest import Breaks

from semel.sim.checkers.acknowledgements import CommittedOffsetHolds


@pytest.mark.parametrize(("known", "was_acknowledged"), [(2, True), (1, True), (1, False), (-1, False)])
def test_one_that_was_sent_or_none_before_the_first_answer(known: int, was_acknowledged: bool) -> None:
    CommittedOffsetHolds().committed_is(TP, known, [1, 2], was_acknowledged=was_acknowledged)


@pytest.mark.parametrize(("known", "was_acknowledged"), [(3, False), (-1, True)])
def test_one_that_nobody_sent_or_none_after_it(breaks: Breaks, known: int, was_acknowledged: bool) -> None:
    with breaks():
        CommittedOffsetHolds().committed_is(TP, known, [1, 2], was_acknowledged=was_acknowledged)
