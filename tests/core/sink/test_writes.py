"""Named batch writes: one version at a time; and what batch writes leave in the log."""

from __future__ import annotations

import pytest

from semel.core.sink import run
from semel.core.sink.decide import decide, has_twin
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Attempt, Decision, OutputTopic, WriterClaim
from semel.core.sink.ranges import Verdict
from semel.core.sink.refusal import Reason, Refusal
from semel.core.sink.run import Ticket
from semel.core.sink.task import TaskReport
from semel.core.sink.writes import judge_version, writers_of_write
from semel.types import TopicPartition


def decision(version: int, writers=()) -> Decision:
    return Decision("txn.a", 1, str(version), 0, {}, 0, 0, dict(writers), {}, txn_version=version)


def claim(version: int) -> WriterClaim:
    return WriterClaim("txn.a", f"{writers_of_write(str(version))}0", 100 + version, 1)


def history(*records) -> SinkHistory:
    folded = SinkHistory("txn.a")
    for record in records:
        folded.apply(record)
    return folded


@pytest.mark.parametrize("version, verdict", [(2, Verdict.SKIP), (3, Verdict.SKIP), (4, Verdict.WRITE)])
def test_decided_versions_and_those_below_are_skipped(version, verdict):
    assert judge_version(history(claim(3), decision(3)), version) is verdict


def test_a_killed_version_is_run_again():
    assert judge_version(history(claim(3), decision(3), claim(4)), 4) is Verdict.WRITE


@pytest.mark.parametrize("version", [5, 9])
def test_no_other_version_runs_while_one_stands_half_in_the_output(version):
    """Version 4's rows would lie below the decided end: its rerun would be skipped, or would double them."""
    refusal = judge_version(history(claim(3), decision(3), claim(4)), version)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.REPLAY_DIFFERS
    assert "run version 4 again first" in refusal.evidence


def test_a_later_version_that_was_begun_first_is_finished_first():
    assert isinstance(judge_version(history(claim(7)), 6), Refusal)


TICKET = Ticket("txn.a", 1, 1, 2, 0, {}, {}, {}, {})


def test_an_attempt_that_is_alone_has_no_twin_and_each_of_two_has():
    """A stage that runs again numbers its attempts from 0 again: only the log knows them apart."""
    alone = history(Attempt("txn.a", "w", 1, 10))
    assert not has_twin(alone, TICKET, TaskReport("w", None, 5, 1, task_attempt_id=10))
    both = history(Attempt("txn.a", "w", 1, 10), Attempt("txn.a", "w", 1, 11))
    assert has_twin(both, TICKET, TaskReport("w", None, 5, 1, task_attempt_id=10))
    assert has_twin(both, TICKET, TaskReport("w", None, 5, 1, task_attempt_id=11))


def test_a_scan_for_one_writes_rows_passes_those_of_another_by():
    """The other may stand half in the output, and has to find its rows there when it is run again."""
    output = TopicPartition("out", 0)
    topics = {"out": OutputTopic("out", "first", 1)}
    begun = run.begin(history(), 1, topics, {output: 3}, {}, {})
    assert begun.scanned_from == {output: 3}


def test_a_batch_writes_decision_does_not_grow_with_the_versions_before_it():
    before = history(decision(3, {"write:3/0": None}))
    report = TaskReport("write:4/0", None, 5, 0, task_attempt_id=1)
    decided = decide(TICKET, before, [report], "4", 0, closed=False, carry=False, txn_version=4)
    assert list(decided.writers) == ["write:4/0"]
