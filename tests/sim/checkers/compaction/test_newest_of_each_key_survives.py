from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, Compacted, history, keyed
from tests.sim.conftest import Breaks

from semel.sim.checkers.compaction import NewestOfEachKeySurvives
from semel.sim.world.history import LoggedBatch

WRITTEN = [keyed(0, "a/:0", "b/:1"), keyed(2, "a/:2", "b/x:3"), keyed(4, "c/:4")]


def judge(*found: LoggedBatch, keeps_tombstones: bool = False, log_start: int = 0) -> None:
    told = history(log_start=log_start)
    told.compaction = Compacted(keeps_tombstones=keeps_tombstones)
    NewestOfEachKeySurvives().compacted(told, TP, WRITTEN, found)


def test_what_is_old_may_go_and_a_tombstone_behind_it() -> None:
    judge(*WRITTEN)
    judge(keyed(0, "b/:1", at=[1]), *WRITTEN[1:])
    judge(*WRITTEN[1:], keeps_tombstones=True)
    judge(keyed(2, "a/:2", at=[2]), WRITTEN[2])
    judge(WRITTEN[2], log_start=4)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([keyed(0, "a/:0", at=[0]), keyed(3, "b/x:3"), WRITTEN[2]], id="the newest is gone"),
        pytest.param(WRITTEN[:2], id="the only one is gone"),
        pytest.param([WRITTEN[0], keyed(2, "a/:2", at=[2]), WRITTEN[2]], id="what was deleted is back"),
    ],
)
def test_the_newest_stays(breaks: Breaks, found: list[LoggedBatch]) -> None:
    with breaks():
        judge(*found)


def test_no_tombstone_goes_before_its_time(breaks: Breaks) -> None:
    with breaks():
        judge(keyed(2, "a/:2", at=[2]), WRITTEN[2], keeps_tombstones=True)


def test_what_is_gone_is_older_than_what_is_there(breaks: Breaks) -> None:
    written = [keyed(0, "a/:0"), keyed(1, "a/:1"), keyed(2, "a/:2")]
    told = history()
    told.compaction = Compacted()
    NewestOfEachKeySurvives().compacted(told, TP, written, written[1:])
    with breaks():
        NewestOfEachKeySurvives().compacted(told, TP, written, [written[0], written[2]])
