from __future__ import annotations

from dataclasses import replace

import pytest
from tests.sim.checkers.smallest import header
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import JOURNAL, OUT, SINK, SOURCE

from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import (
    Begin,
    Cut,
    Decision,
    Fence,
    JournalRecord,
    OutputTopic,
    WriterClaim,
    encode,
)
from semel.sim.sinks.checkers import SinkLogSaysTheSame
from semel.sim.world.history import History, LoggedBatch

FIRST, SECOND = (Fence(SINK, epoch, "driver", "q", 7) for epoch in (0, 1))
CUT = Cut(SINK, 0, SOURCE, 0, 5, 2)


def begin(epoch: int, *before: JournalRecord) -> Begin:
    history = SinkHistory(SINK)
    for record in before:
        history.apply(record)
    begun = Begin(SINK, epoch, (OutputTopic("out", "id", 1),), {OUT: 0})
    return replace(begun, carried=history.carried(begun, 1 << 20))


def decision(epoch: int, sequence: int) -> Decision:
    return Decision(SINK, epoch, "q", 0, {SOURCE: 5 * sequence}, 1, 1, {}, {}, sequence=sequence)


RUN = [FIRST, begin(0, FIRST), WriterClaim(SINK, "w", 9, 0), CUT, decision(0, 2), decision(0, 3)]
NEXT = [SECOND, begin(1, *RUN, SECOND), decision(1, 2), decision(1, 3)]
ALL = dict(enumerate([*RUN, *NEXT]))


def log(*gone: int) -> list[LoggedBatch]:
    batches = []
    for at, record in ALL.items():
        key, value = encode(record)
        batches.append(LoggedBatch(header(at, by=7), (value,), (key,)))
        if at in gone:
            batches[-1] = LoggedBatch(header(at, by=7), (), (), ())
    return batches


def judge(*gone: int) -> None:
    SinkLogSaysTheSame().compacted(History(), JOURNAL, log(), log(*gone))


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param((), id="nothing"),
        pytest.param((0, 1, 2, 3, 4, 5), id="all in front of the last BEGIN"),
        pytest.param((0, 5), id="some of that"),
        pytest.param((8,), id="a decision behind which there is another one"),
    ],
)
def test_what_is_settled_may_be_gone(gone: tuple[int, ...]) -> None:
    judge(*gone)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param((7,), id="the last BEGIN"),
        pytest.param((9,), id="the last DECISION"),
        pytest.param((6, 7), id="a run"),
    ],
)
def test_what_counts_may_not(breaks: Breaks, gone: tuple[int, ...]) -> None:
    with breaks():
        judge(*gone)


def test_who_reads_on_is_told_the_same(breaks: Breaks) -> None:
    """From in front of the first BEGIN on: the last one has it all again, but nobody may miss what stands behind it."""
    judge(1, 2, 3, 4)
    with breaks():
        judge(8, 9)


def test_another_topic_is_no_decision_log() -> None:
    SinkLogSaysTheSame().compacted(History(), OUT, log(), [])
