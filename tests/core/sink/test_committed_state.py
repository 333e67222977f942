"""What may be decided of tasks' states, which of them is carried on, and which one a task starts from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semel.core.sink.committed_state import (
    STATE_BYTES_MAX,
    STATES_BYTES_MAX,
    CommittedState,
    StateReport,
    judge_split,
    judge_start,
    judge_state,
    judge_states,
    next_states,
    other_plan,
    other_state_plan,
    plan_too_long,
    state_of,
)
from semel.core.sink.ranges import SourceRange
from semel.core.sink.refusal import Reason
from semel.types import TopicPartition

SINK = "visits/fold"
FIRST = SourceRange(TopicPartition("merge", 0), 0, 5, topic_id="A", from_topic_id="A")
SECOND = replace(FIRST, source=TopicPartition("merge", 1))
ONE, TWO, THREE = (CommittedState(bytes([number])) for number in (1, 2, 3))


def report(source_range: SourceRange | None, state: CommittedState | None) -> StateReport:
    return StateReport("write:x/0" if source_range is None else source_range.writer, source_range, state)


# -- which are carried on ------------------------------------------------------------------------------------


def test_an_idle_writers_state_is_carried_forward():
    previous = {FIRST.writer: ONE, SECOND.writer: TWO}
    states = next_states(previous, [report(FIRST, THREE)], {"merge": "A"}, {"merge": "A"})
    assert states == {FIRST.writer: THREE, SECOND.writer: TWO}


@pytest.mark.parametrize(("told", "is_kept"), [({"merge": "B"}, False), ({"merge": "A"}, True), ({}, True)])
def test_states_of_a_topic_that_was_made_anew_are_dropped(told, is_kept):
    states = next_states({SECOND.writer: TWO}, [report(FIRST, THREE)], {"merge": "A"}, told)
    assert (SECOND.writer in states) is is_kept


def test_another_topics_states_stay_when_one_was_made_anew():
    other = replace(FIRST, source=TopicPartition("other", 0))
    states = next_states({other.writer: TWO}, [report(FIRST, THREE)], {"merge": "A"}, {"merge": "B"})
    assert states == {other.writer: TWO, FIRST.writer: THREE}


def test_a_writer_that_came_to_know_its_topics_id_takes_over_from_the_one_without():
    unnamed = replace(FIRST, topic_id=None, from_topic_id=None)
    assert unnamed.writer != FIRST.writer
    states = next_states({unnamed.writer: ONE}, [report(FIRST, THREE)], {}, {"merge": "A"})
    assert states == {FIRST.writer: THREE}


def test_partition_ten_is_none_of_partition_ones():
    first, tenth = (replace(FIRST, source=TopicPartition("merge", number)) for number in (1, 10))
    assert tenth.writer in next_states({tenth.writer: ONE}, [report(first, TWO)], {}, {})
    assert state_of({tenth.writer: ONE}, first) is None


# -- which one a task starts from ----------------------------------------------------------------------------


def test_a_task_starts_from_its_own():
    states = {FIRST.writer: ONE, SECOND.writer: TWO}
    assert state_of(states, FIRST) == ONE
    assert state_of(states, replace(FIRST, source=TopicPartition("merge", 2))) is None


def test_a_task_starts_from_the_state_of_its_name_without_an_id():
    unnamed = replace(FIRST, topic_id=None, from_topic_id=None)
    assert state_of({unnamed.writer: ONE}, FIRST) == ONE
    assert state_of({FIRST.writer: ONE}, unnamed) == ONE


def test_no_task_starts_from_another_topics_state():
    assert state_of({FIRST.writer: ONE}, replace(FIRST, topic_id="B", from_topic_id="B")) is None
    assert state_of({FIRST.writer: ONE}, replace(FIRST, topic_id="B")) is None, (
        "the range is all of the new topic"
    )
    unnamed = replace(FIRST, topic_id=None, from_topic_id=None)
    assert state_of({unnamed.writer: ONE}, replace(FIRST, topic_id="B")) is None


# -- which may be decided ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "state_plan", "why"),
    [
        (report(FIRST, None), "p", "has written, and has no state"),
        (report(FIRST, ONE), "", "has a state, and no plan of it"),
        (report(None, ONE), "p", "has a state, and no plan of it"),
        (report(replace(FIRST, split_count=2), ONE), "p", "is split in 2: each task would know a part of it"),
        (report(FIRST, CommittedState(bytes(STATE_BYTES_MAX + 1))), "p", "a decision takes 65536 of it"),
    ],
)
def test_what_cannot_be_decided(told, state_plan, why):
    refusal = judge_state(SINK, state_plan, told)
    assert refusal is not None
    assert refusal.reason is Reason.PLAN_NOT_SUPPORTED
    assert why in refusal.evidence
    assert judge_states(SINK, state_plan, {}, [told]) == refusal


def test_a_flows_ranges_are_not_split_and_a_users_may_be():
    split = replace(FIRST, split_count=2)
    refusal = judge_split(SINK, "", split)
    assert refusal is not None
    assert "it could never be cut the same way again" in refusal.evidence
    assert judge_split("orders", "", split) is None


def test_a_state_that_is_missing_is_no_empty_one():
    """Something has decided rows and kept no state, or under a name that is not found: to begin at none would be
    another fold's rows."""
    refusal = judge_start(SINK, "p", {SECOND.writer: TWO}, {FIRST.writer, SECOND.writer}, FIRST)
    assert refusal is not None
    assert (
        f"rows of {FIRST.writer} are decided, and no state of it is. Nothing was written now"
        in refusal.evidence
    )
    unnamed = replace(FIRST, topic_id=None, from_topic_id=None)
    assert judge_start(SINK, "p", {}, {unnamed.writer}, FIRST) is not None


@pytest.mark.parametrize(
    ("state_plan", "states", "decided_writers", "source_range"),
    [
        pytest.param("", {}, {FIRST.writer}, FIRST, id="none is kept"),
        pytest.param("p", {FIRST.writer: ONE}, {FIRST.writer}, FIRST, id="there is one"),
        pytest.param("p", {SECOND.writer: TWO}, {SECOND.writer}, FIRST, id="another partition's rows"),
        pytest.param(
            "p",
            {},
            {FIRST.writer},
            replace(FIRST, topic_id="B", from_topic_id="B"),
            id="another topic's rows",
        ),
        pytest.param("p", {FIRST.writer: ONE}, {FIRST.writer}, replace(FIRST, topic_id="B"), id="made anew"),
    ],
)
def test_where_a_task_may_start(state_plan, states, decided_writers, source_range):
    assert judge_start(SINK, state_plan, states, decided_writers, source_range) is None


@pytest.mark.parametrize(
    ("told", "state_plan"),
    [
        (report(FIRST, None), ""),
        (report(None, None), ""),
        (report(FIRST, ONE), "p"),
        (report(FIRST, CommittedState(None, 7)), "p"),
        (report(FIRST, CommittedState(bytes(STATE_BYTES_MAX))), "p"),
        (report(replace(FIRST, is_gone=True), None), "p"),
    ],
)
def test_what_can(told, state_plan):
    assert judge_state(SINK, state_plan, told) is None


def test_the_states_of_idle_writers_count_too():
    full = {f"merge/{number}/0of1": CommittedState(bytes(STATE_BYTES_MAX)) for number in range(64)}
    assert sum(state.inline_bytes for state in full.values()) == STATES_BYTES_MAX
    assert judge_states(SINK, "p", full, [report(FIRST, ONE)]) is None
    refusal = judge_states(SINK, "p", full | {"merge/64/0of1": ONE}, [report(FIRST, ONE)])
    assert refusal is not None
    assert "are 4194305 bytes together" in refusal.evidence


# -- what is said of plans -----------------------------------------------------------------------------------


def test_long_plans_are_shown_where_they_begin_to_differ():
    was = "[" + "a" * 1000 + "-the old-" + "b" * 1000 + "]"
    text = other_state_plan(SINK, was, was.replace("-the old-", "-the new-")).evidence
    assert "-the old-" in text
    assert "-the new-" in text
    assert len(text) < 1500


@pytest.mark.parametrize(
    ("decided", "planned", "said"),
    [
        ("p1", "p2", "by the plan p1, and it is now the plan p2"),
        ("", "p2", "without keeping state, and its plan now keeps one (p2)"),
        ("p1", "", "with a state (p1), and its plan now keeps none"),
    ],
)
def test_both_plans_of_a_state_are_named(decided, planned, said):
    refusal = other_state_plan(SINK, decided, planned)
    assert said in refusal.evidence
    assert "stage 'fold' of flow 'visits'" in refusal.evidence
    assert "Run it as it was" in refusal.evidence


@pytest.mark.parametrize(("written", "planned"), [("p1", "p2"), ("", "p2"), ("p1", "")])
def test_both_plans_of_undecided_rows_are_named(written, planned):
    refusal = other_plan(SINK, written, planned)
    assert refusal.reason is Reason.REPLAY_DIFFERS
    assert all(plan in refusal.evidence for plan in (written or "of no flow", planned or "that of no flow"))


def test_a_plan_has_a_bound():
    assert plan_too_long(SINK, "x" * 65_536) is None
    refusal = plan_too_long(SINK, "é" * 32_769)
    assert refusal is not None
    assert "a text of 65538 bytes" in refusal.evidence
