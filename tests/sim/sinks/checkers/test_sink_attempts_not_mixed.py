from __future__ import annotations

from dataclasses import replace

import pytest
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import OUT, claim, decision, rows, story, view

from semel.core.sink.digest import NO_ROWS
from semel.core.sink.journal import WriterOutput, WriterState
from semel.sim.sinks.checkers import SinkAttemptsNotMixed


def judge(*names: str, rows_differ: bool = True) -> None:
    """Of rows 0 and 1, decided together."""
    seen = view(story(rows_differ=rows_differ), [rows(0, *names)], claim(), decision(2))
    SinkAttemptsNotMixed().sink_logs([seen])


@pytest.mark.parametrize("names", [("0", "1"), ("0~2", "1~2"), ("0~3", "1~3", "1x~3")])
def test_one_attempt_whole(names: tuple[str, ...]) -> None:
    judge(*names)


@pytest.mark.parametrize("names", [("0~1", "1~2"), ("0~2",), ("0~3", "1~3"), ("0~2", "1~2", "1x~3")])
def test_of_two_attempts_or_not_whole(breaks: Breaks, names: tuple[str, ...]) -> None:
    with breaks():
        judge(*names)


def test_rows_behind_the_decision_are_the_next_ones() -> None:
    seen = view(
        story(rows_differ=True), [rows(0, "0", "1"), rows(2, "2~1")], claim(), decision(2, output_end=2)
    )
    SinkAttemptsNotMixed().sink_logs([seen])


def test_a_surplus_of_a_writer_that_has_another_producer_id_by_now_is_not_decided() -> None:
    writers = {"w": WriterState(8, 1, {OUT: WriterOutput(0, NO_ROWS, surplus_from=1)})}
    decided = replace(decision(1, output_end=2), writers=writers)
    stored = rows(0, "0~3", "0x~3")  # by the producer id that it had before
    seen = view(story(rows_differ=True), [stored], claim(), claim(producer_id=8), decided)
    assert [each.row.is_extra for each in seen.decided_rows] == [False]
