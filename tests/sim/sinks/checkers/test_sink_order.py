from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import WRITER
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import claim, rows, story, view

from semel.sim.sinks.checkers import SinkOrder
from semel.sim.world.history import LoggedBatch

LATER = {"by": WRITER + 1}


def judge(*output: LoggedBatch) -> None:
    SinkOrder().sink_logs([view(story(), output, claim(), claim("v", WRITER + 1))])


def test_as_in_the_source() -> None:
    judge(rows(0, "0", "3"), rows(2, "1", **LATER), rows(3, "5", "5x"))


@pytest.mark.parametrize("output", [[rows(0, "1", "0")], [rows(0, "1"), rows(1, "2", **LATER), rows(2, "0")]])
def test_out_of_order(breaks: Breaks, output: list[LoggedBatch]) -> None:
    with breaks():
        judge(*output)
