from __future__ import annotations

from tests.sim.conftest import Breaks

from semel.sim.checkers.recovery import RotBesideCostsNothing


def test_nothing_is_wrong(breaks: Breaks) -> None:
    RotBesideCostsNothing().rotted_beside(None)
    with breaks():
        RotBesideCostsNothing().rotted_beside("a batch is not found")
