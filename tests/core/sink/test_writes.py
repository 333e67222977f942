"""Named batch writes: one version at a time; and what batch writes leave in the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semel.core.sink import run
from semel.core.sink.decide import decide, has_twin
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Attempt, Decision, NamedWrite, OutputTopic, Stored, WriterClaim
from semel.core.sink.ranges import Verdict
from semel.core.sink.refusal import Reason, Refusal
from semel.core.sink.run import Ticket
from semel.core.sink.task import TaskReport, claimed
from semel.core.sink.writes import (
    KEPT_MAX,
    judge_rerun,
    judge_version,
    may_write_version,
    writer_of,
    writers_of_version,
)
from semel.types import TopicPartition

RESET_EPOCH = 99


def decision(version: int, writers=(), versions=()) -> Decision:
    sink_epoch = version if version >= 0 else RESET_EPOCH  # each version's write is a run of its own
    return Decision(
        "txn.a", sink_epoch, "", 0, {}, 0, 0, dict(writers), {}, txn_version=version, versions=tuple(versions)
    )


def claim(version: int, query_id: str | None = None) -> WriterClaim:
    return WriterClaim("txn.a", writer_of(version, query_id, query_id and 0, 0), 100 + version, version)


def history(*records) -> SinkHistory:
    folded = SinkHistory("txn.a")
    for record in records:
        folded.apply(record)
    return folded


@pytest.mark.parametrize("version, verdict", [(2, Verdict.SKIP), (3, Verdict.SKIP), (4, Verdict.WRITE)])
def test_decided_versions_and_those_below_are_not_written(version, verdict):
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


def test_a_version_is_no_other_one_that_begins_with_its_digits():
    assert writer_of(12, None, None, 0).startswith(writers_of_version(12))
    assert not writer_of(12, None, None, 0).startswith(writers_of_version(1))
    assert not writer_of(1, "q", 2, 0).startswith(writers_of_version(12))


def test_a_history_forgets_the_writers_of_decided_versions():
    """There is one for each version and task, for ever."""
    assert list(history(claim(3), decision(3), claim(4)).writers) == [writer_of(4, None, None, 0)]


def test_an_attempt_that_comes_late_to_a_decided_version_writes_nothing():
    """Nobody has its name any more: as the first one it would write the version again, under an id of its own."""
    zombie, since = claim(3), history(claim(3), decision(3))
    assert not since.apply(zombie)
    refusal = claimed(since, zombie.sink_epoch, zombie.writer)
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, "was decided while this attempt waited" in refusal.evidence) == (
        Reason.SINK_FENCED,
        True,
    )
    assert judge_version(since, 4) is Verdict.WRITE, "and nothing of it is to be run again first"


def test_a_reset_forgets_a_version_that_was_begun():
    assert judge_version(history(claim(3), decision(3), claim(4), decision(-1)), 0) is Verdict.WRITE


# -- a version that is not above the last decided one -----------------------------------------------------

BATCH = NamedWrite(7, None, None, 100, 0xABC)
STREAM = NamedWrite(7, "q1", 7, 100, 0xABC)


@pytest.mark.parametrize("write", [BATCH, STREAM])
def test_the_same_rows_of_the_same_micro_batch_are_skipped(write):
    assert judge_rerun("txn.a", [write], [], write) is None


@pytest.mark.parametrize("other", [{"row_count": 101}, {"row_hash": 0xABD}])
@pytest.mark.parametrize("write", [BATCH, STREAM])
def test_other_rows_under_a_decided_version_differ(write, other):
    """An older checkpoint that was put back plans the same micro-batch with other rows: they were lost."""
    refusal = judge_rerun("txn.a", [write], [], replace(write, **other))
    assert refusal.reason is Reason.REPLAY_DIFFERS


def test_equal_rows_of_another_query_prove_nothing():
    """Each micro-batch of a count is one row, and a lost checkpoint begins at 0: the new ones were lost."""
    refusal = judge_rerun("txn.a", [STREAM], [], replace(STREAM, query_id="q2"))
    assert "query q2" in refusal.evidence
    assert "newest checkpoint" in refusal.evidence


def test_equal_rows_of_another_micro_batch_prove_nothing():
    assert "one micro-batch only" in judge_rerun("txn.a", [STREAM], [], replace(STREAM, batch_id=8)).evidence


def test_a_batch_job_may_run_a_streams_version_again():
    assert judge_rerun("txn.a", [STREAM], [], replace(STREAM, query_id=None, batch_id=None)) is None


def test_a_stream_may_not_take_a_batch_jobs_version_for_its_own():
    assert judge_rerun("txn.a", [BATCH], [], STREAM) is not None


def test_nothing_is_lost_where_there_are_no_rows():
    assert judge_rerun("txn.a", [STREAM], [], NamedWrite(0, "q2", 0)) is None


def test_a_version_that_was_passed_over_was_not_written():
    """It was skipped without a word: 3 is below 7, and nobody ever wrote it."""
    refusal = judge_rerun("txn.a", [BATCH], [], replace(BATCH, version=3))
    assert "a version above 7" in refusal.evidence


def test_a_named_write_is_told_of_by_its_own_options():
    for write in (BATCH, STREAM):
        refusal = judge_rerun("txn.a", [write], [8], replace(write, version=3))
        assert "txnAppId 'a'" in refusal.evidence
        assert "sinkId" not in refusal.evidence
        assert "reset" not in refusal.evidence
    assert "version 8 stand there undecided" in refusal.evidence


def test_older_versions_are_known_up_to_a_bound():
    before = history(
        decision(40, versions=[NamedWrite(number, None, None, 1, number) for number in range(41)])
    )
    report = TaskReport(writer_of(41, None, None, 0), None, 5, 3, task_attempt_id=1, row_hash=2**64 + 9)
    name = NamedWrite(41, None, None)
    decided = decide(TICKET, before, [report], "", 0, closed=False, carry=False, write=name)
    assert len(decided.versions) == KEPT_MAX
    assert decided.versions[-1] == NamedWrite(41, None, None, 3, 9)
    assert decided.txn_version == 41


@pytest.mark.parametrize("mine", [(0, "q2", 0), (0, "q1", 1), (0, None, None)])
def test_what_another_query_began_under_this_version_is_not_taken_for_ones_own(mine):
    """Its rows may be equal to ours, and are others: ours were lost."""
    have = {(writer_of(0, "q1", 0, 3), TopicPartition("out", 0)): Stored(NO_ROWS, 1)}
    assert may_write_version(replace(TICKET, have=have), writer_of(*mine, 3)) is not None
    assert may_write_version(replace(TICKET, have=have), writer_of(0, "q1", 0, 5)) is None


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
    before = history(decision(3, {"write:3~/0": None}))
    report = TaskReport("write:4~/0", None, 5, 0, task_attempt_id=1)
    decided = decide(
        TICKET, before, [report], "4", 0, closed=False, carry=False, write=NamedWrite(4, None, None)
    )
    assert list(decided.writers) == ["write:4~/0"]
