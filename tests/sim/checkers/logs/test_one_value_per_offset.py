from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import OTHER, TP, batch, history
from tests.sim.conftest import Breaks

from semel.sim.checkers.logs import OneValuePerOffset

READ = [batch(4, "a:0", "a:1")]


def who_has_read() -> OneValuePerOffset:
    checker = OneValuePerOffset()
    checker.read(TP, READ, 6)
    return checker


def test_it_is_read_again_and_lies_there() -> None:
    checker = who_has_read()
    checker.read(TP, [batch(5, "a:1")], 6)
    checker.read(OTHER, [batch(4, "b:0")], 6)
    checker.logs(history(), {TP: [*READ, batch(6, "a:2")], OTHER: [batch(4, "b:0")]})
    checker.logs(history(log_start=6), {TP: []})


def test_another_is_read_there(breaks: Breaks) -> None:
    with breaks():
        who_has_read().read(TP, [batch(5, "a:2")], 6)


@pytest.mark.parametrize("log", [[batch(4, "a:0", "a:2")], [batch(4, "a:0")], []])
def test_another_lies_there_or_none(breaks: Breaks, log) -> None:
    with breaks():
        who_has_read().logs(history(), {TP: log})


def test_a_trim_takes_only_what_is_in_front_of_it(breaks: Breaks) -> None:
    with breaks():
        who_has_read().logs(history(log_start=5), {TP: []})
