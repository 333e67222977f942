"""How far decided rows stand in the outputs, under which leader epochs, and what proves that they are lost."""

from __future__ import annotations

import pytest

from semel.core.sink.decide import decide, ends_of
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Decision, decode, encode
from semel.core.sink.output_marks import OutputMark, has_lost_its_end, lost_output
from semel.core.sink.ranges import SourceRange
from semel.core.sink.run import Ticket
from semel.core.sink.task import OutputReport, TaskReport
from semel.types import NO_LEADER_EPOCH, TopicPartition

SOURCE = TopicPartition("in", 0)
A, B, C = (TopicPartition("out", number) for number in range(3))


def test_written_outputs_have_the_newest_and_others_keep_theirs() -> None:
    before = {A: OutputMark(4, 1), B: OutputMark(5, 1), C: OutputMark(6, 1)}
    history = SinkHistory("s")
    history.apply(Decision("s", 1, "q", 0, {SOURCE: 4}, 0, 0, {}, {A: 4, B: 5, C: 6}, output_marks=before))
    ticket = Ticket("s", 1, 1, 2, 0, {}, {}, {}, {A: 4, B: 5, C: 6})
    moved = SourceRange(SOURCE, 4, 9)
    outputs = {A: OutputReport(NO_ROWS, 3, 7), B: OutputReport(NO_ROWS, 2, 8)}
    reports = [TaskReport(moved.writer, moved, 5, 0, outputs=outputs)]
    assert ends_of(reports) == {A: 7, B: 8}
    decision = decide(
        ticket, history, reports, "q", 1, closed=False, leader_epochs={A: 3, B: NO_LEADER_EPOCH}
    )
    assert isinstance(decision, Decision)
    assert decision.output_marks == before | {A: OutputMark(7, 3)}
    assert decode(encode(decision)[1]) == decision


@pytest.mark.parametrize(
    ("log_end_offset", "epoch_before_end", "is_lost"),
    [
        (10, 3, False),
        (30, 2, False),  # written by an earlier leader, and asked of a later one
        (30, NO_LEADER_EPOCH, False),  # trimmed
        (9, NO_LEADER_EPOCH, True),
        (10, 4, True),
        (30, 4, True),
    ],
)
def test_a_later_epoch_before_the_end_is_a_loss(
    log_end_offset: int, epoch_before_end: int, is_lost: bool
) -> None:
    assert has_lost_its_end(OutputMark(10, 3), log_end_offset, epoch_before_end) is is_lost


@pytest.mark.parametrize("sink_id", ["s", "flow/stage", "txn.app"])
def test_the_error_says_whose_rows_are_gone_and_what_to_do(sink_id: str) -> None:
    told = str(lost_output(sink_id, A, OutputMark(10, 3), 4))
    assert told.startswith("offsets 4 to 9 of topic 'out', partition 0 are gone: rows of ")
    assert "Nothing was written now. The exact way is a" in told
    assert "and grew again" not in told
    assert "and grew again" in str(lost_output(sink_id, A, OutputMark(10, 3), 10))
