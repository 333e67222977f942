"""Under which leader epochs the decided ends of the sources are: a DECISION says it, and whoever goes on is told."""

from __future__ import annotations

from semel.core.sink.decide import decide
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Decision
from semel.core.sink.ranges import SourceRange
from semel.core.sink.run import Ticket
from semel.core.sink.task import TaskReport
from semel.types import TopicPartition

A, B, C = (TopicPartition("in", number) for number in range(3))


def test_moved_ends_have_those_of_their_ranges_and_others_keep_theirs() -> None:
    history = SinkHistory("s")
    history.apply(
        Decision("s", 1, "q", 0, {A: 4, B: 5, C: 6}, 0, 0, {}, {}, source_epochs={A: 1, B: 1, C: 1})
    )
    assert history.resume_epochs() == {A: 1, B: 1, C: 1}
    ticket = Ticket("s", 1, 1, 2, 0, {}, {}, {}, {}, source_ends={A: 4, B: 5, C: 6})
    moved = SourceRange(A, 4, 9, idle_ends=((B, 5),), end_leader_epoch=7, idle_leader_epochs=((B, 3),))
    unknown = SourceRange(C, 6, 8)  # as brokers that tell none have it
    reports = [TaskReport(each.writer, each, 5, 0) for each in (moved, unknown)]
    decision = decide(ticket, history, reports, "q", 1, closed=False)
    assert isinstance(decision, Decision)
    assert decision.source_ends == {A: 9, B: 5, C: 8}
    assert decision.source_epochs == {A: 7, B: 3}
