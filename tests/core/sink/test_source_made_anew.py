"""A range against what the log has decided and what stands undecided, where its topic was made anew."""

from __future__ import annotations

import pytest

from semel.core.sink.decide import check_reports, decide
from semel.core.sink.digest import Digest
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Cut, Decision, Stored, decode, encode
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.refusal import Refusal
from semel.core.sink.run import Ticket, new_ticket
from semel.core.sink.task import TaskReport, may_write, surplus_allowed
from semel.types import TopicPartition

SINK = "s"
SOURCE, OTHER, OUTPUT = TopicPartition("in", 0), TopicPartition("in", 1), TopicPartition("out", 0)
OLD, NEW = "old-id", "new-id"
OF_OLD = Stored(Digest(4), 12)


def ticket_of(decided: dict | None = None, ids: dict | None = None, have=None, cuts=()) -> Ticket:
    history = SinkHistory(SINK)
    if decided is not None:
        history.apply(Decision(SINK, 0, "q", 3, decided, 0, 0, {}, {OUTPUT: 8}, source_ids=ids or {}))
    history.apply(Begin(SINK, 1, (), {OUTPUT: 8}, have or {}))
    for cut in cuts:
        history.apply(cut)
    return new_ticket(history, history.begin, 7, 2)


def range_of(
    first: int, end: int, topic_id=NEW, from_id=NEW, *, tp=SOURCE, split=(0, 1), is_gone=False
) -> SourceRange:
    return SourceRange(tp, first, end, *split, topic_id=topic_id, from_topic_id=from_id, is_gone=is_gone)


@pytest.mark.parametrize(
    ("decided_end", "decided_id", "planned", "verdict"),
    [
        (10, OLD, range_of(0, 5), None),  # below the decided end, of another topic
        (10, OLD, range_of(10, 15), None),  # exactly at it, of another topic
        (10, OLD, range_of(10, 5, from_id=OLD), Verdict.WRITE),  # the source was told to go on
        (10, OLD, range_of(10, 10, from_id=OLD), Verdict.WRITE),
        (10, NEW, range_of(10, 10, from_id=OLD), Verdict.SKIP),  # and again, decided
        (10, NEW, range_of(40, 8, from_id=OLD), Verdict.SKIP),
        (10, NEW, range_of(40, 18, from_id=OLD), None),
        (10, NEW, range_of(5, 9, OLD, OLD, is_gone=True), None),  # an older checkpoint was put back
        (10, OLD, range_of(10, 15, OLD, OLD, is_gone=True), Verdict.WRITE),
        (10, None, range_of(10, 15), Verdict.WRITE),  # of an older semel
        (10, None, range_of(4, 8), Verdict.SKIP),
        (10, OLD, range_of(10, 15, OLD, None), Verdict.WRITE),
        (10, OLD, range_of(4, 8, NEW, None), None),
        (10, OLD, range_of(4, 8, None, None), Verdict.SKIP),  # of brokers that have no ids
    ],
)
def test_what_becomes_of_a_range(decided_end, decided_id, planned, verdict) -> None:
    ids = {} if decided_id is None else {"in": decided_id}
    found = may_write(ticket_of({SOURCE: decided_end}, ids), planned, "q")
    if verdict is None:
        assert isinstance(found, Refusal)
        assert "the planned range of in-0 is" in found.evidence
    else:
        assert found is verdict


def test_a_partition_without_rows_is_of_its_topic_too() -> None:
    ticket = ticket_of({SOURCE: 10, OTHER: 5}, {"in": OLD})
    idle = SourceRange(
        TopicPartition("else", 0), 0, 3, idle_ends=((OTHER, 5),), idle_topic_ids=(("in", NEW),)
    )
    assert isinstance(may_write(ticket, idle, "q"), Refusal)


WRITERS = {
    "of the older topic": f"in/0/{OLD}/0of1",
    "in other splits": f"in/0/{OLD}/1of3",
    "of an older semel": "in/0/0of1",
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_rows_of_the_older_topic_are_given_up_only_where_the_source_says_so(writer) -> None:
    have = {(writer, OUTPUT): OF_OLD}
    ticket = ticket_of({SOURCE: 10}, {"in": OLD}, have)
    on = range_of(10, 5, from_id=OLD)
    assert may_write(ticket, on, "q") is Verdict.WRITE
    decision = decide(ticket, SinkHistory(SINK), [TaskReport(on.writer, on, 5, 3)], "q", 4, closed=False)
    assert (decision.source_ends, decision.source_ids) == ({SOURCE: 5}, {"in": NEW})
    assert (decision.output_ends, decision.row_count) == ({OUTPUT: 12}, 3 + 4)
    first = range_of(0, 5)
    refusal = may_write(ticket_of(have=have), first, "q")
    assert "read another topic of the name 'in'" in refusal.evidence
    assert isinstance(check_reports(ticket_of(have=have), [TaskReport(first.writer, first, 5, 3)]), Refusal)


def test_the_older_topics_other_partitions_are_forgotten() -> None:
    have = {(f"in/1/{OLD}/0of1", OUTPUT): OF_OLD}
    ticket = ticket_of({SOURCE: 10, OTHER: 5, TopicPartition("else", 0): 7}, {"in": OLD, "else": "e"}, have)
    on = range_of(10, 5, from_id=OLD)
    decision = decide(ticket, SinkHistory(SINK), [TaskReport(on.writer, on, 5, 3)], "q", 4, closed=False)
    assert decision.source_ends == {SOURCE: 5, TopicPartition("else", 0): 7}
    assert decision.source_ids == {"in": NEW, "else": "e"}


def test_what_is_gone_gives_up_its_own_partition_only() -> None:
    gone = range_of(10, 15, OLD, OLD, is_gone=True)
    assert gone.gives_up(f"in/0/{OLD}/2of3")
    assert not gone.gives_up(f"in/1/{OLD}/0of1")
    assert not gone.gives_up("in/01/x/0of1")


def test_a_cut_is_of_its_topic() -> None:
    cut = Cut(SINK, 1, SOURCE, 10, 30, 2, OLD)
    assert decode(encode(cut)[1]) == cut
    ticket = ticket_of({SOURCE: 10}, {"in": OLD}, cuts=[cut])
    assert may_write(ticket, range_of(10, 20, from_id=OLD, split=(0, 2)), "q") is Verdict.WRITE
    assert isinstance(may_write(ticket, range_of(10, 20, OLD, OLD, split=(0, 2)), "q"), Refusal)
    assert surplus_allowed(ticket, range_of(10, 20, OLD, OLD), OUTPUT, "q")
    assert not surplus_allowed(ticket, range_of(10, 20, from_id=OLD), OUTPUT, "q")
    below = Cut(
        SINK, 1, SOURCE, 10, 5, 2, NEW
    )  # ends below the older topic's decided end, and is not decided
    assert ticket_of({SOURCE: 10}, {"in": OLD}, cuts=[below]).cuts == (below,)


def test_a_decision_keeps_the_ids() -> None:
    decision = Decision(SINK, 1, "q", 3, {SOURCE: 5}, 0, 0, {}, {}, source_ids={"in": NEW})
    assert decode(encode(decision)[1]) == decision
    older = encode(decision)[1].replace(b'"source_ids"', b'"not_known"')
    assert decode(older).source_ids == {}
