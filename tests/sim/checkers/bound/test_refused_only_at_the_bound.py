from __future__ import annotations

from tests.sim.checkers.smallest import TP, WRITER
from tests.sim.conftest import Breaks

from semel.sim.checkers.bound import RefusedOnlyAtTheBound


def test_a_batch(breaks: Breaks) -> None:
    RefusedOnlyAtTheBound().append_refused_for_room(TP, WRITER, kept=0, free=0)
    with breaks():
        RefusedOnlyAtTheBound().append_refused_for_room(TP, WRITER, kept=0, free=1)


def test_a_lease(breaks: Breaks) -> None:
    RefusedOnlyAtTheBound().lease_refused_for_room(room=3, free=2)
    with breaks():
        RefusedOnlyAtTheBound().lease_refused_for_room(room=3, free=3)
