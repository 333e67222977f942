from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import TP, begun, committed, read, story

from semel.sim.transactions.checkers import HistoriesHaveNoAnomaly


def test_one_without() -> None:
    of = story()
    read(of, *committed(of, (TP, 0)).rows)
    HistoriesHaveNoAnomaly().history_ended(of)


def test_one_with(breaks: Breaks) -> None:
    of = story()
    read(of, *begun(of, (TP, 0), asked=False).rows)
    with breaks():
        HistoriesHaveNoAnomaly().history_ended(of)
