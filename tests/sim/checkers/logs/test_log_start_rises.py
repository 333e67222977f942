from __future__ import annotations

from tests.sim.checkers.smallest import OTHER, TP
from tests.sim.conftest import Breaks

from semel.sim.checkers.logs import LogStartRises


def test_what_was_deleted_comes_back(breaks: Breaks) -> None:
    checker = LogStartRises()
    for start in (0, 5, 5):
        checker.log_start(TP, start)
    checker.log_start(OTHER, 4)
    with breaks():
        checker.log_start(TP, 4)
