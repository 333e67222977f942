"""A fold's task starts from the state of the decided end: whatever is cut, killed and begun again, its rows and its
state are those of one pass over the source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.sink.committed_state import CommittedState
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.task import surplus_allowed
from semel.types import TopicPartition

PARTITIONS = [TopicPartition("in", number) for number in (0, 1, 2)]
STATE_PLAN = "sum of numbers"


def fold(partition: TopicPartition, first: int, end: int, total: int = 0) -> tuple[list[bytes], int]:
    """A row for each offset: whose partition, the sum so far, the offset. And the sum behind the last."""
    rows = []
    for number in range(first, end):
        total = (total + (number + 1) * (partition.partition + 1)) % 256
        rows.append(bytes([partition.partition, total, number]))
    return rows, total


def folded(driver, source_range: SourceRange):
    """The task of a fold, from the state that the ticket has of it."""
    state = driver.ticket.state_of(source_range)
    total = 0 if state is None else state.inline[0]
    rows, total = fold(source_range.source, source_range.batch_from, source_range.batch_end, total)
    attempt = driver.task(source_range, rows)
    attempt.state = CommittedState(bytes([total]))
    return attempt


@pytest.fixture
def folding(driver):
    def make(query_id: str = "q1", plan_text: str = "p1", state_plan: str = STATE_PLAN):
        made = driver(query_id)
        made.plan_text, made.state_plan = plan_text, state_plan
        return made

    return make


def write(driver, *ranges: SourceRange, batch_id: int = 0):
    """A whole micro-batch without any trouble."""
    driver.plan()
    reports = []
    for source_range in ranges:
        attempt = folded(driver, source_range)
        if attempt.open() is Verdict.WRITE:
            reports.append(attempt.send().report())
    return driver.decide(reports, batch_id)


def test_a_run_goes_on_from_its_last_state(world, folding, source):
    first = folding()
    write(first, source(0, 3))
    write(first, source(3, 5), batch_id=1)
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 5)[0])


def test_the_state_of_an_idle_source_partition_is_there_when_it_goes_on(world, folding, source):
    first = folding()
    write(first, source(0, 3), source(0, 2, partition=1))
    write(first, source(3, 5), batch_id=1)
    write(folding("q2"), source(2, 6, partition=1), batch_id=0)
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 5)[0] + fold(PARTITIONS[1], 0, 6)[0])


def test_what_was_not_decided_is_in_no_state(world, folding, source):
    first = folding()
    write(first, source(0, 3))
    attempt = folded(first.plan(), source(3, 8))
    attempt.open()
    attempt.send(4).todo.clear()
    zombies = attempt.report()
    write(folding("q2"), source(3, 5))
    with pytest.raises(Exception, match="SinkFenced"):
        first.decide([zombies], 1)
    write(folding("q3"), source(5, 9))
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 9)[0])


def test_a_skipped_range_leaves_the_state_of_the_decided_end(world, folding, source):
    """Spark replays what it has no commit entry of: the state is further than the start of that range."""
    write(folding(), source(0, 3))
    write(folding(), source(0, 3))
    again = folding()
    write(again, source(0, 3), source(0, 2, partition=1))
    assert again.decide([], 1) is None
    write(folding(), source(3, 4), source(2, 3, partition=1), batch_id=1)
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 4)[0] + fold(PARTITIONS[1], 0, 3)[0])


def test_an_end_without_its_state_is_not_decided(world, folding, source, stopped):
    first = folding()
    write(first, source(0, 3))
    attempt = folded(first.plan(), source(3, 5))
    attempt.open()
    attempt.send().state = None
    with stopped("PlanNotSupported"):
        first.decide([attempt.report()], 1)
    assert world.history().decision.source_ends == {PARTITIONS[0]: 3}
    write(folding("q2"), source(3, 5))
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 5)[0])


@pytest.mark.parametrize("came_to", [3, 5])
def test_a_task_that_fails_ends_its_range_there_and_the_others_are_decided(world, folding, source, came_to):
    """So that nothing is undecided when its step is mended: a row that it cannot take is the first of the next."""
    first = folding()
    write(first, source(0, 3), source(0, 2, partition=1))
    first.plan()
    failing = folded(first, source(3, 8))
    rows, total = fold(PARTITIONS[0], 3, came_to, first.ticket.state_of(source(3, 8)).inline[0])
    failing.rows, failing.state = rows, CommittedState(bytes([total]))
    other = folded(first, source(2, 4, partition=1))
    for attempt in (failing, other):
        attempt.open()
        attempt.send()
    ended = replace(failing.report(), source_range=source(3, came_to))
    first.decide([ended, other.report()], 1)
    assert world.history().resume_ends()[0] == {PARTITIONS[0]: came_to, PARTITIONS[1]: 4}
    write(folding("q2", "p2"), source(came_to, 9))
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 9)[0] + fold(PARTITIONS[1], 0, 4)[0])


def test_a_split_of_a_stateful_range_is_refused_before_its_first_row(world, folding, source, stopped):
    attempt = folded(folding().plan(), source(0, 4, split=(0, 2)))
    with stopped("PlanNotSupported"):
        attempt.open()
    assert world.visible() == []


def test_decided_rows_without_a_state_are_begun_by_nobody(world, folding, source, stopped):
    first = folding()
    write(first, source(0, 3))
    attempt = folded(first.plan(), source(3, 5))
    attempt.ticket = replace(attempt.ticket, states={})
    with stopped("PlanNotSupported"):
        attempt.open()


def test_a_range_up_to_where_the_source_ended_leaves_no_surplus(folding, source):
    """Undecided rows are of what was there when the sink was fenced: who comes so far has met them all."""
    attempt = folded(folding().plan(), source(0, 6))
    attempt.open()
    attempt.send(5)
    ticket, output = folding("q2").plan().ticket, TopicPartition("out", 0)
    shorter = source(0, 4)
    assert surplus_allowed(ticket, shorter, output, "q2")
    assert surplus_allowed(ticket, shorter, output, "q2", 5)
    assert not surplus_allowed(ticket, shorter, output, "q2", 4)
    assert not surplus_allowed(ticket, shorter, output, "q2", 3)


# -- plans ---------------------------------------------------------------------------------------------------


def test_a_changed_plan_waits_for_the_undecided_rows(world, folding, source, stopped):
    first = folding()
    write(first, source(0, 3))
    attempt = folded(first.plan(), source(3, 6))
    attempt.open()
    attempt.send(1)
    with stopped("ReplayDiffers") as why:
        folding("q2", "p2").plan()
    assert "Run it as it was until they are decided, then change it" in why.value.text
    write(folding("q2", "p1"), source(3, 6))
    write(folding("q3", "p2"), source(6, 7))
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 7)[0])


def test_a_plan_may_change_while_nothing_is_undecided(world, folding, source):
    first = folding()
    first.plan()  # a BEGIN of the older plan, and not a row
    write(folding("q2", "p2"), source(0, 3))
    assert len(world.visible()) == 3


def test_a_surplus_binds_its_plan_too(world, folding, source, stopped):
    """It is rows of the next micro-batch, which the one that decided before has left where they are."""
    attempt = folded(folding().plan(), source(0, 6))
    attempt.open()
    attempt.send(5)
    write(folding("q2"), source(0, 3))
    with stopped("ReplayDiffers"):
        folding("q3", "p2").plan()
    write(folding("q3"), source(3, 6))
    write(folding("q4", "p2"), source(6, 7))
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 7)[0])


@pytest.mark.parametrize("other", ["mean of numbers", ""])
def test_another_plans_state_is_refused(world, folding, source, stopped, other):
    write(folding(), source(0, 3))
    with stopped("PlanNotSupported") as why:
        folding("q2", "p2", other).plan()
    assert "sum of numbers" in why.value.text
    write(folding("q3", "p3"), source(3, 4))
    assert world.visible() == sorted(fold(PARTITIONS[0], 0, 4)[0])


def test_ends_that_were_decided_without_a_state_are_refused(world, driver, folding, source, rows, stopped):
    driver().batch((source(0, 3), rows(0, 3)))
    with stopped("PlanNotSupported") as why:
        folding("q2").plan()
    assert "without keeping state" in why.value.text
    driver("q3").batch((source(3, 4), rows(3, 4)))
    assert world.visible() == rows(0, 4)


# -- where a query without a checkpoint begins ---------------------------------------------------------------


def test_it_begins_at_the_decided_ends(world, folding, source):
    assert world.history().resume_ends() == ({}, {})
    write(folding(), source(2, 5))
    assert world.history().resume_ends() == ({PARTITIONS[0]: 5}, {})


@pytest.mark.parametrize("sent", [0, 1, 3])
def test_it_begins_where_the_first_range_began_that_was_not_decided(world, folding, source, sent):
    attempt = folded(folding().plan(), source(2, 6))
    attempt.open()
    attempt.send(sent)
    ends, _ = world.history().resume_ends()
    assert ends == {PARTITIONS[0]: 2}
    write(folding("q2"), source(ends[PARTITIONS[0]], 8))
    assert world.visible() == sorted(fold(PARTITIONS[0], 2, 8)[0])
    assert world.history().resume_ends()[0] == {PARTITIONS[0]: 8}


def test_it_begins_each_source_partition_where_that_one_was(world, folding, source):
    first = folding()
    write(first, source(0, 3))
    first.plan()
    for source_range in (source(3, 6), source(4, 9, partition=1)):
        attempt = folded(first, source_range)
        attempt.open()
        attempt.send(2)
    assert world.history().resume_ends()[0] == {PARTITIONS[0]: 3, PARTITIONS[1]: 4}


def test_the_ids_are_those_of_the_ends(world, folding):
    named = SourceRange(PARTITIONS[0], 0, 3, topic_id="A", from_topic_id="A")
    attempt = folded(folding().plan(), named)
    attempt.open()
    attempt.send(2)
    assert world.history().resume_ends() == ({PARTITIONS[0]: 0}, {"in": "A"})
    write(folding("q2"), named)
    assert world.history().resume_ends() == ({PARTITIONS[0]: 3}, {"in": "A"})


def test_who_was_overtaken_since_it_read_where_to_begin_stops(driver):
    """It would plan from ends that are older than the decided ones, and differ for ever."""
    resumed = driver().take().fence()
    epoch = resumed.sink_epoch
    assert resumed.history.resumed_before(epoch, "run 1") is None
    writing = named(driver(), "run 1")
    assert writing.history.resumed_before(epoch, "run 1") is None
    assert named(driver(), "run 1").history.resumed_before(epoch, "run 1") is None, (
        "a planner of the same run"
    )
    between = driver().take().fence()
    last = named(driver(), "run 1")
    refusal = last.history.resumed_before(epoch, "run 1")
    assert refusal is not None
    assert f"sink epoch {between.sink_epoch}" in refusal.evidence
    assert last.history.resumed_before(between.sink_epoch, "run 1") is None


def named(made, query: str):
    """The same driver once its FENCE is in, which says whose query's planner it is."""
    made.take()
    made.granted = replace(made.granted, query=query)
    return made.fence()


# -- whatever happens ----------------------------------------------------------------------------------------

BATCHES = st.lists(
    st.tuples(
        st.tuples(*[st.integers(0, 5)] * len(PARTITIONS)),  # how many offsets of each
        st.sampled_from(["decided", "undecided", "new driver", "new driver, undecided"]),
        st.integers(0, 9),  # rows that an undecided one has sent
    ),
    max_size=12,
)


@given(batches=BATCHES)
def test_any_cuts_and_kills_are_one_pass(make_world, make_driver, batches):
    world = make_world()

    def new_driver():
        made = make_driver(world, query_id=f"q{world.sink_epochs}")
        made.plan_text, made.state_plan = "p", STATE_PLAN
        return made

    driver, ends = new_driver(), {}
    whole = [((3, 3, 3), "new driver", 0)]
    for sizes, what, sent in [*batches, *whole]:
        if what.startswith("new"):
            driver, (ends, _) = new_driver(), world.history().resume_ends()
        driver.plan()
        told = []
        for partition, size in zip(PARTITIONS, sizes, strict=True):
            begun = any(writer.startswith(f"in/{partition.partition}/") for writer, _ in driver.ticket.have)
            first = ends.get(partition, 0)
            if size or begun:
                told.append(SourceRange(partition, first, first + max(size, 1)))
        attempts = [folded(driver, source_range) for source_range in told]
        for attempt in attempts:
            assert attempt.open() is Verdict.WRITE
            attempt.send(sent if what.endswith("undecided") else 10**6)
        if what.endswith("undecided"):
            driver, (ends, _) = new_driver(), world.history().resume_ends()
        elif driver.decide([attempt.report() for attempt in attempts]) is not None:
            ends = dict(world.history().decision.source_ends)
    decided = world.history().decision
    expected = {tp: fold(tp, 0, end) for tp, end in decided.source_ends.items()}
    assert {state.inline[0] for state in decided.states.values()} == {total for _, total in expected.values()}
    rows = sorted(row for rows, _ in expected.values() for row in rows)
    visible = world.visible()
    assert [row for row in visible if row[2] < decided.source_ends[PARTITIONS[row[0]]]] == rows
    later = {
        tp: [row for row in visible if row[0] == tp.partition and row[2] >= end]
        for tp, end in decided.source_ends.items()
    }
    for tp, undecided in later.items():
        of_one_pass = set(fold(tp, 0, 256)[0])
        assert set(undecided) <= of_one_pass
        assert len(undecided) == len(set(undecided))
