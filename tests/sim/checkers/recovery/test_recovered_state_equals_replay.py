from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, WRITER, batch, ledger
from tests.sim.conftest import Breaks

from semel.sim.checkers.recovery import RecoveredStateEqualsReplay

REPLAYED = ledger(batch(0, "a:0", "a:1", sequence=0, epoch=3), batch(2, "a:2", sequence=2, epoch=3))
RIGHT = (3, 2, ((0, 0), (2, 2)))  # epoch, last sequence, (sequence, offset) of each batch


@pytest.mark.parametrize(
    "producers",
    [
        pytest.param({}, id="forgotten"),
        pytest.param({WRITER: RIGHT, WRITER + 1: RIGHT}, id="one too many"),
        pytest.param({WRITER: (2, *RIGHT[1:])}, id="another epoch"),
        pytest.param({WRITER: (3, 3, RIGHT[2])}, id="another sequence"),
        pytest.param({WRITER: (3, 2, RIGHT[2][1:])}, id="a shorter window"),
        pytest.param({WRITER: (3, 2, ((0, 0), (2, 3)))}, id="another offset"),
    ],
)
def test_what_a_start_knows(breaks: Breaks, producers) -> None:
    RecoveredStateEqualsReplay().recovered(TP, {WRITER: RIGHT}, REPLAYED)
    with breaks():
        RecoveredStateEqualsReplay().recovered(TP, producers, REPLAYED)
