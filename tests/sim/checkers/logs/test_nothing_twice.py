from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import OTHER, TP, batch, history
from tests.sim.conftest import Breaks

from semel.sim.checkers.logs import NothingTwice

SENT = ("a:0", "a:1")


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param({TP: [batch(0, "a:0"), batch(1, "a:0")]}, id="sent again"),
        pytest.param({TP: [batch(0, "a:0", "a:0")]}, id="in one batch"),
        pytest.param({TP: [batch(0, "a:0")], OTHER: [batch(0, "a:0")]}, id="in two partitions"),
        pytest.param({TP: [batch(0, "a:9")]}, id="never sent"),
    ],
)
def test_a_record_twice(breaks: Breaks, logs) -> None:
    NothingTwice().logs(history(SENT), {TP: [batch(0, "a:0"), batch(1, "a:1")], OTHER: []})
    with breaks():
        NothingTwice().logs(history(SENT), logs)


def test_what_was_trimmed_counts_and_what_a_crash_took_does_not(breaks: Breaks) -> None:
    checker, moved = NothingTwice(), {TP: [batch(1, "a:0")]}
    checker.logs(history(SENT), {TP: [batch(0, "a:0")]})
    checker.logs(history(SENT), moved)
    checker.logs(history(SENT, log_start=2), {TP: []})
    with breaks():
        checker.logs(history(SENT, log_start=2), {TP: [batch(2, "a:0")]})
