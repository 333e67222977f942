from __future__ import annotations

from tests.sim.conftest import Breaks

from semel.sim.checkers.recovery import HealedWorldFinishes


def test_nothing_is_open(breaks: Breaks) -> None:
    HealedWorldFinishes().healed(120_000, None)
    with breaks():
        HealedWorldFinishes().healed(120_000, "one batch")
