"""CUT: which range the splits of a source partition belong to, as long as rows of it are undecided."""

from __future__ import annotations

import pytest

from semel.core.sink.decide import to_settle
from semel.core.sink.digest import Digest
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Cut, Decision, Fence, Stored
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.run import Planned, Ticket, new_ticket, next_in_run, next_ticket
from semel.core.sink.task import Attempted, TaskReport, cut_of, may_write
from semel.types import TopicPartition

SINK = "s"
SOURCE, OUTPUT = TopicPartition("in", 0), TopicPartition("out", 0)
HALF = SourceRange(SOURCE, 8, 16, 0, 2)
STORED = {("in/0/1of2", OUTPUT): Stored(Digest(4), 12)}


def begin(sink_epoch: int, have=None) -> Begin:
    return Begin(SINK, sink_epoch, (), {OUTPUT: 8}, have or {})


def cut(sink_epoch: int, batch_end: int = 16, split_count: int = 2) -> Cut:
    return Cut(SINK, sink_epoch, SOURCE, 8, batch_end, split_count)


def history_of(*records) -> SinkHistory:
    history = SinkHistory(SINK)
    for record in records:
        history.apply(record)
    return history


def ticket_of(history: SinkHistory) -> Ticket:
    assert history.begin is not None
    return new_ticket(history, history.begin, 7, 2)


def test_a_whole_range_needs_no_cut():
    ticket = ticket_of(history_of(begin(0)))
    assert cut_of(ticket, SourceRange(SOURCE, 8, 16)) is None
    assert cut_of(ticket, None) is None
    assert cut_of(ticket, HALF) == cut(0)


def test_the_same_cut_goes_on():
    ticket = ticket_of(history_of(begin(0), cut(0), begin(1, STORED)))
    assert may_write(ticket, HALF, "q") is Verdict.WRITE


@pytest.mark.parametrize("batch_end", [12, 20])
def test_another_cut_over_undecided_rows_differs(batch_end):
    ticket = ticket_of(history_of(begin(0), cut(0), begin(1, STORED)))
    refused = may_write(ticket, SourceRange(SOURCE, 8, batch_end, 0, 2), "another")
    assert refused.reason.value == "ReplayDiffers"
    assert "in 2 splits and are not decided" in refused.evidence


def test_a_cut_without_rows_is_void_at_the_next_begin():
    ticket = ticket_of(history_of(begin(0), cut(0), begin(1)))
    assert may_write(ticket, SourceRange(SOURCE, 8, 20, 0, 2), "another") is Verdict.WRITE


def test_a_zombies_cut_behind_a_newer_begin_is_void():
    history = history_of(begin(0), begin(1), cut(0, 20))
    assert history.cuts == []


def test_a_decided_cut_is_void():
    decision = Decision(SINK, 0, "q", 0, {SOURCE: 16}, 8, 0, {}, {OUTPUT: 16})
    history = history_of(begin(0), cut(0), decision)
    assert history.cuts == []
    assert next_ticket(ticket_of(history_of(begin(0), cut(0))), history, 3).cuts == ()


def test_a_late_attempts_cut_of_a_decided_range_is_void():
    decision = Decision(SINK, 0, "q", 0, {SOURCE: 16}, 8, 0, {}, {OUTPUT: 16})
    assert history_of(begin(0), decision, cut(0)).cuts == []
    assert history_of(begin(0), decision, cut(0, 20)).cuts == [cut(0, 20)]


def test_a_replay_that_is_decided_whole_needs_nothing_of_the_rows_behind_it():
    history = history_of(begin(1, STORED))
    skipped = Attempted(TaskReport("in/0/0of1", SourceRange(SOURCE, 0, 8), -1, 0, skipped=True), False)
    assert to_settle(ticket_of(history), history, [skipped]) == []


def test_a_writer_with_stored_rows_has_to_report():
    history = history_of(begin(1, STORED))
    other = Attempted(TaskReport("in/1/0of1", SourceRange(TopicPartition("in", 1), 0, 8), 5, 8), False)
    refused = to_settle(ticket_of(history), history, [other])
    assert refused.reason.value == "ReplayDiffers"


def test_a_held_run_goes_on_behind_its_decision_only():
    history = history_of(Fence(SINK, 0, "here"), begin(0))
    held = Planned(ticket_of(history), None)
    assert next_in_run(held, history) is None
    history.apply(Decision(SINK, 0, "q", 0, {SOURCE: 16}, 8, 0, {}, {OUTPUT: 16}))
    assert next_in_run(held, history).journal_sequence == 3
    history.apply(Fence(SINK, 1, "there", "query"))
    assert next_in_run(held, history).reason.value == "SinkFenced"
    assert next_in_run(held, history, "query") is None
