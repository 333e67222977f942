"""CUT: which range the splits of a source partition belong to, as long as rows of it are undecided."""

from __future__ import annotations

import pytest

from semel.core.sink.decide import to_settle
from semel.core.sink.digest import Digest
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Cut, Decision, Fence, Stored
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.run import Planned, Ticket, new_ticket, next_in_run, next_ticket
from semel.core.sink.task import Attempted, TaskReport, cut_of, may_write, surplus_allowed
from semel.types import TopicPartition

SINK = "s"
SOURCE, OUTPUT = TopicPartition("in", 0), TopicPartition("out", 0)
HALF = SourceRange(SOURCE, 8, 16, 0, 2)
WHOLE = SourceRange(SOURCE, 8, 16)
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


def decided(end: int = 8) -> Decision:
    return Decision(SINK, 0, "q", 0, {SOURCE: end}, end, 0, {}, {OUTPUT: end})


def left(batch_end: int = 16) -> list:
    """Another query's rows in one split, behind what "q" has decided, as a new run finds them."""
    stored = {("in/0/0of1", OUTPUT): Stored(Digest(4), 12)}
    return [begin(0), decided(), begin(1), cut(1, batch_end, 1), begin(2, stored)]


def test_a_whole_range_needs_no_cut_behind_a_decided_end():
    ticket = ticket_of(history_of(begin(0), decided()))
    assert cut_of(ticket, WHOLE, "q") is None
    assert cut_of(ticket, None, "q") is None
    assert cut_of(ticket, HALF, "q") == cut(0)


def test_the_first_range_of_a_source_partition_needs_one():
    """No decided end says where it has to begin, nor which query it was."""
    assert cut_of(ticket_of(history_of(begin(0))), WHOLE, "q") == cut(0, split_count=1)
    elsewhere = Decision(SINK, 0, "q", 0, {TopicPartition("in", 1): 3}, 3, 0, {}, {OUTPUT: 3})
    assert cut_of(ticket_of(history_of(begin(0), elsewhere)), WHOLE, "q") == cut(0, split_count=1)


def test_a_whole_range_of_another_query_than_decided_last_needs_one():
    ticket = ticket_of(history_of(begin(0), decided()))
    assert cut_of(ticket, WHOLE, "q") is None
    assert cut_of(ticket, WHOLE, "another") == cut(0, split_count=1)
    assert cut_of(ticket, None, "another") is None


def test_another_querys_larger_range_explains_a_surplus():
    ticket = ticket_of(history_of(*left()))
    smaller = SourceRange(SOURCE, 8, 11)
    assert may_write(ticket, smaller, "q") is Verdict.WRITE
    assert surplus_allowed(ticket, smaller, OUTPUT, "q")


@pytest.mark.parametrize("batch_end", [11, 16])
def test_another_querys_range_explains_no_row_of_one_as_large(batch_end):
    assert not surplus_allowed(ticket_of(history_of(*left(batch_end))), WHOLE, OUTPUT, "q")


def test_another_querys_range_explains_nothing_of_another_source():
    ticket = ticket_of(history_of(*left()))
    assert not surplus_allowed(ticket, SourceRange(TopicPartition("in", 1), 8, 11), OUTPUT, "q")


def test_another_querys_range_explains_nothing_of_the_next_micro_batch():
    history = history_of(*left(), decided(11), begin(3, {("in/0/0of1", OUTPUT): Stored(Digest(2), 14)}))
    assert history.cuts == [cut(1, 16, 1)]
    assert not surplus_allowed(ticket_of(history), SourceRange(SOURCE, 11, 13), OUTPUT, "q")


def test_a_range_of_which_nothing_was_stored_explains_nothing():
    ticket = ticket_of(history_of(*left(), begin(3)))
    assert not surplus_allowed(ticket, SourceRange(SOURCE, 8, 11), OUTPUT, "q")


def test_a_range_in_one_split_does_not_bind_others():
    ticket = ticket_of(history_of(begin(0), decided(), begin(1), cut(1, split_count=1)))
    assert may_write(ticket, HALF, "q") is Verdict.WRITE


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
    decision = decided(16)
    history = history_of(begin(0), cut(0), decision)
    assert history.cuts == []
    assert next_ticket(ticket_of(history_of(begin(0), cut(0))), history, 3).cuts == ()


def test_a_late_attempts_cut_of_a_decided_range_is_void():
    decision = decided(16)
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


def test_a_decision_that_was_read_again_is_no_new_one():
    """A planner process whose history was dropped meanwhile, by a commit there that could not read the log."""
    records = [Fence(SINK, 0, "here"), begin(0), decided()]
    held = Planned(next_ticket(ticket_of(history_of(begin(0))), history_of(*records), 3), decided())
    assert next_in_run(held, history_of(*records)) is None
