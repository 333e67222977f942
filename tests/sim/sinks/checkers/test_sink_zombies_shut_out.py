from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import WRITER, header, ledger
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import OUT, ticket

from semel.core.sink.epochs import writer_epoch
from semel.sim.sinks.checkers import SinkZombiesShutOut


def begun(*sink_epochs: int) -> SinkZombiesShutOut:
    checker = SinkZombiesShutOut()
    for sink_epoch in sink_epochs:
        checker.sink_planned(ticket(sink_epoch))
    return checker


def judge(
    checker: SinkZombiesShutOut, epoch: int, verdict: str = "Append", producer_id: int = WRITER
) -> None:
    checker.judged(OUT, header(0, by=producer_id, epoch=epoch), ledger(), verdict, 0)


def test_the_run_writes_and_older_ones_are_refused() -> None:
    checker = begun(2)
    judge(checker, writer_epoch(2))
    judge(checker, writer_epoch(1), "InvalidProducerEpoch")
    judge(checker, writer_epoch(1), producer_id=WRITER + 1)


@pytest.mark.parametrize("runs", [(2,), (2, 1)])
def test_an_older_run_gets_in(breaks: Breaks, runs: tuple[int, ...]) -> None:
    with breaks():
        judge(begun(*runs), writer_epoch(2) - 1)
