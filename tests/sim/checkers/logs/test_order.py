from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, WRITER, batch, history, marker
from tests.sim.conftest import Breaks

from semel.sim.checkers.logs import Order
from semel.sim.world.history import LoggedBatch, Promise

LATER = {"by": WRITER + 1}
STORED, UNKNOWN = Promise.STORED, Promise.UNKNOWN


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([batch(0, "a:0", "a:1"), batch(2, "b:0"), batch(3, "a:5")], id="numbers rise"),
        pytest.param(
            [batch(0, "a:0", epoch=0), marker(1, epoch=1), batch(2, "a:1", epoch=1)], id="epochs rise"
        ),
        pytest.param([batch(0, "a:1", **LATER), batch(1, "a:0")], id="in doubt, late, under an older id"),
    ],
)
def test_as_it_was_sent(log: list[LoggedBatch]) -> None:
    Order().logs(history({"a:0": UNKNOWN, "a:1": STORED, "a:5": STORED, "b:0": STORED}), {TP: log})


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([batch(0, "a:1"), batch(1, "a:0")], id="under one id"),
        pytest.param([batch(0, "a:1", "a:0")], id="in one batch"),
        pytest.param([batch(0, "a:1"), batch(1, "a:0", **LATER)], id="acknowledged, across two ids"),
        pytest.param([batch(0, "a:0", epoch=1), batch(1, "a:1", epoch=0)], id="an older epoch"),
        pytest.param([marker(0, epoch=1), batch(1, "a:0", epoch=0)], id="an older epoch, behind a fence"),
    ],
)
def test_out_of_order(breaks: Breaks, log: list[LoggedBatch]) -> None:
    with breaks():
        Order().logs(history({"a:0": STORED, "a:1": STORED}), {TP: log})
