from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, history, keyed
from tests.sim.conftest import Breaks

from semel.sim.checkers.compaction import CompactionAddsNothing
from semel.sim.world.history import LoggedBatch
from semel.types import NO_PRODUCER_ID

WRITTEN = [keyed(0, "a/:0", "b/:1"), keyed(2, "a/:2")]


def judge(*found: LoggedBatch) -> None:
    CompactionAddsNothing().compacted(history(), TP, WRITTEN, found)


def test_what_is_left_was_written() -> None:
    judge(*WRITTEN)
    judge(keyed(0, "b/:1", at=[1]), WRITTEN[1])
    judge(keyed(0, "b/:1", at=[1], by=NO_PRODUCER_ID), WRITTEN[1])


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([keyed(0, "b/:1", at=[0]), WRITTEN[1]], id="at another offset"),
        pytest.param([keyed(0, "b/:1", at=[1], by=99), WRITTEN[1]], id="by another producer"),
        pytest.param([keyed(0, "b/:1", at=[1], epoch=1), WRITTEN[1]], id="by another epoch"),
        pytest.param([*WRITTEN, keyed(3, "a/:3")], id="more than was written"),
        pytest.param(WRITTEN[:1], id="the end is gone"),
    ],
)
def test_nothing_else_is_there(breaks: Breaks, found: list[LoggedBatch]) -> None:
    with breaks():
        judge(*found)
