"""Every counter-example that the model checker found against the sequenced sink, as a story over the core.

Each test would end doubled, lost or stuck if the rule that its docstring names were left out.
"""

from __future__ import annotations

import pytest

from semel.core.sink.journal import Fence
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.run import goes_on
from semel.types import TopicPartition

SOURCE = TopicPartition("in", 0)


def test_micro_batches_follow_each_other_in_one_run(world, driver, source, rows):
    d = driver()
    d.batch((source(0, 3), rows(0, 3)))
    d.batch((source(3, 5), rows(3, 5)), batch_id=1)
    assert world.visible() == rows(0, 5)
    assert world.sink_epochs == 1
    assert b"marker" not in [row for log in world.rows.values() for _, row in log]


def test_a_killed_drivers_rows_are_met_again_and_not_written_twice(world, driver, source, rows):
    """Scan after the fence; drop exactly what is stored."""
    driver().plan().task(source(0, 4), rows(0, 4))
    first = driver().plan()
    attempt = first.task(source(0, 4), rows(0, 4))
    attempt.open()
    attempt.send(3)
    driver().batch((source(0, 4), rows(0, 4)))
    assert world.visible() == rows(0, 4)


def test_rows_of_three_unfinished_runs_add_up(world, driver, source, rows):
    """``have`` counts over all epochs of a writer."""
    for stored in (1, 2, 1):
        attempt = driver().plan().task(source(0, 5), rows(0, 5))
        attempt.open()
        attempt.send(stored)
    driver().batch((source(0, 5), rows(0, 5)))
    assert world.visible() == rows(0, 5)


def test_a_replayed_batch_that_was_decided_is_skipped(world, driver, source, rows):
    """Killed after DECISION and before Spark's commit entry."""
    driver().batch((source(0, 3), rows(0, 3)))
    again = driver().plan()
    assert again.task(source(0, 3), rows(0, 3)).open() is Verdict.SKIP
    assert world.visible() == rows(0, 3)


def test_an_older_decided_batch_is_skipped_too(world, driver, source, rows):
    """S1: an old driver decided one batch further; the new one replays the batch before it."""
    old = driver()
    old.batch((source(0, 2), rows(0, 2)))
    old.batch((source(2, 4), rows(2, 4)), batch_id=1)
    new = driver()
    assert new.batch((source(0, 2), rows(0, 2))) is None
    assert new.batch((source(2, 4), rows(2, 4)), batch_id=1) is None
    new.batch((source(4, 6), rows(4, 6)), batch_id=2)
    assert world.visible() == rows(0, 6)


def test_after_a_restored_checkpoint_the_same_batch_id_with_other_ranges_differs(
    driver, source, rows, stopped
):
    """S1: skipping by id would lose row 3; writing would double rows 0 to 2."""
    driver().batch((source(0, 3), rows(0, 3)))
    with stopped("ReplayDiffers"):
        driver().plan().task(source(0, 4), rows(0, 4)).open()


def test_a_gap_differs(driver, source, rows, stopped):
    driver().batch((source(0, 3), rows(0, 3)))
    with stopped("ReplayDiffers"):
        driver().plan().task(source(4, 6), rows(4, 6)).open()


def test_a_new_query_on_the_same_sink_from_earliest_differs(driver, source, rows, stopped):
    """S1: ranges that another query decided are no replay of this one's."""
    driver("q1").batch((source(0, 3), rows(0, 3)))
    with stopped("ReplayDiffers"):
        driver("q2").plan().task(source(0, 3), rows(0, 3)).open()


def test_a_new_query_that_starts_at_the_decided_ends_goes_on(world, driver, source, rows):
    driver("q1").batch((source(0, 3), rows(0, 3)))
    driver("q2").batch((source(3, 5), rows(3, 5)))
    assert world.visible() == rows(0, 5)


def test_a_zombie_task_is_fenced_before_the_scan(world, driver, source, rows, stopped):
    zombie = driver().plan().task(source(0, 4), rows(0, 4))
    zombie.open()
    zombie.send(1)
    driver().batch((source(0, 4), rows(0, 4)))
    with stopped("SinkFenced"):
        zombie.send(1)
    assert world.visible() == rows(0, 4)


def test_two_restarts_fence_to_different_epochs(world, driver, source, rows, stopped):
    """S3: "raise by one" lets the second restart fence nothing, and the first one's task writes on."""
    first = driver().plan().task(source(0, 4), rows(0, 4))
    first.open()
    first.send(1)
    second = driver().plan().task(source(0, 4), rows(0, 4))
    second.open()
    driver().plan()
    for zombie in (first, second):
        with stopped("SinkFenced"):
            zombie.send(1)


def test_an_older_driver_can_neither_begin_nor_decide(world, driver, source, rows, stopped):
    """Fence first, then read: the log itself refuses what an older driver appends after it."""
    old = driver().plan()
    attempt = old.task(source(0, 2), rows(0, 2))
    attempt.open()
    report = attempt.send().report()
    new = driver().plan()
    with stopped("SinkFenced"):
        old.decide([report])
    new_attempt = new.task(source(0, 2), rows(0, 2))
    new_attempt.open()
    new.decide([new_attempt.send().report()])
    assert world.visible() == rows(0, 2)


def test_a_driver_that_was_overtaken_before_its_begin_stops(driver, stopped):
    old = driver().take().fence().fence_writers()
    driver().plan()
    with stopped("SinkFenced"):
        old.begin()


def test_a_planner_within_its_run_stops_when_a_newer_fence_is_in(driver, source, rows, stopped):
    old = driver()
    old.batch((source(0, 2), rows(0, 2)))
    driver().take().fence()
    with stopped("SinkFenced"):
        old.plan()


def test_a_task_that_claims_after_a_newer_fence_stops(world, driver, source, rows, stopped):
    """A writer that the new driver cannot know must not come to be."""
    zombie = driver().plan().task(source(0, 2), rows(0, 2))
    driver().plan()
    with stopped("SinkFenced"):
        zombie.open()
    assert world.visible() == []


def test_the_first_writer_of_a_name_wins_for_every_attempt(world, driver, source, rows):
    """No claim, two ids: doubled."""
    d = driver().plan()
    one, two = d.task(source(0, 3), rows(0, 3)), d.task(source(0, 3), rows(0, 3), number=1)
    one.open()
    two.open()
    assert one.producer_id == two.producer_id
    one.send(2)
    two.send()
    one.send()
    d.decide([two.report()])
    assert world.visible() == rows(0, 3)


def test_a_skipped_batch_leaves_no_run_without_fences_and_begin(world, driver, source, rows):
    """S4: a planner that only skips has fenced and begun all the same."""
    driver().batch((source(0, 2), rows(0, 2)))
    again = driver()
    assert again.batch((source(0, 2), rows(0, 2))) is None
    again.batch((source(2, 4), rows(2, 4)), batch_id=1)
    assert world.visible() == rows(0, 4)


def test_idle_writers_are_carried_forward(world, driver, source, rows):
    """S5: source partition 1 is idle in the second micro-batch and goes on in the third."""
    d = driver()
    d.batch((source(0, 1), rows(0, 1)), (source(0, 1, partition=1), rows(10, 11)))
    d.batch((source(1, 2), rows(1, 2)), batch_id=1)
    d.batch((source(1, 2, partition=1), rows(11, 12)), batch_id=2)
    assert world.visible() == sorted(rows(0, 2) + rows(10, 12))
    assert world.sink_epochs == 1


@pytest.mark.parametrize("before, after", [(1, 2), (2, 1)])
def test_another_split_rule_over_undecided_rows_differs(driver, source, rows, stopped, before, after):
    """S6: half of the range stands in the log under the other rule's writers."""
    first = driver().plan()
    attempt = first.task(source(0, 4, split=(0, before)), rows(0, 4 // before))
    attempt.open()
    attempt.send()
    with stopped("ReplayDiffers"):
        driver().plan().task(source(0, 4, split=(0, after)), rows(0, 4 // after)).open()


def test_the_split_rule_may_change_between_decided_batches(world, driver, source, rows):
    driver().batch((source(0, 2), rows(0, 2)))
    driver().batch(
        (source(2, 6, split=(0, 2)), rows(2, 4)), (source(2, 6, split=(1, 2)), rows(4, 6)), batch_id=1
    )
    assert world.visible() == rows(0, 6)


def test_a_lost_checkpoint_with_smaller_batches_leaves_the_surplus_for_the_next(world, driver, source, rows):
    """S8: a longer ``have`` under a new query is no error."""
    driver("q1").batch((source(0, 2), rows(0, 2)))
    killed = driver("q1").plan().task(source(2, 8), rows(2, 8))
    killed.open()
    killed.send(5)
    new = driver("q2")
    new.batch((source(2, 4), rows(2, 4)))
    new.batch((source(4, 6), rows(4, 6)), batch_id=1)
    new.batch((source(6, 9), rows(6, 9)), batch_id=2)
    assert world.visible() == rows(0, 9)


def test_what_a_new_query_left_is_a_surplus_for_the_one_that_decided_last_too(world, driver, source, rows):
    """Its checkpoint is there again, and nothing was decided without it."""
    driver("q1").batch((source(0, 2), rows(0, 2)))
    killed = driver("q2").plan().task(source(2, 8), rows(2, 8))
    killed.open()
    killed.send(5)
    back = driver("q1")
    back.batch((source(2, 4), rows(2, 4)), batch_id=1)
    back.batch((source(4, 6), rows(4, 6)), batch_id=2)
    back.batch((source(6, 9), rows(6, 9)), batch_id=3)
    assert world.visible() == rows(0, 9)


def test_other_rows_than_a_new_query_left_are_refused(driver, source, rows, stopped):
    driver("q1").batch((source(0, 2), rows(0, 2)))
    killed = driver("q2").plan().task(source(2, 8), rows(2, 8))
    killed.open()
    killed.send()
    with stopped("NonDeterministicReplay"):
        driver("q1").plan().task(source(2, 4), rows(2, 4, version=b"x")).open()


def test_under_the_same_query_fewer_rows_than_stored_are_refused(driver, source, rows, stopped):
    driver().batch((source(0, 1), rows(0, 1)))
    attempt = driver().plan().task(source(1, 5), rows(1, 5))
    attempt.open()
    attempt.send()
    with stopped("NonDeterministicReplay"):
        driver().plan().task(source(1, 5), rows(1, 3)).open()


def test_other_rows_on_replay_are_refused_before_the_first_new_one(world, driver, source, rows, stopped):
    attempt = driver().plan().task(source(0, 4), rows(0, 4))
    attempt.open()
    attempt.send(2)
    with stopped("NonDeterministicReplay"):
        driver().plan().task(source(0, 4), rows(0, 4, version=b"other")).open()
    assert len(world.visible()) == 2


def test_a_twin_with_other_rows_is_found_before_the_decision(world, driver, source, rows, stopped):
    """The log vouches for the sequence, not for the content: mixed rows are read back."""
    d = driver().plan()
    one, two = d.task(source(0, 4), rows(0, 4)), d.task(source(0, 4), rows(0, 4, b"x"), number=1)
    one.open()
    two.open()
    one.send(1)
    two.send()
    one.send()
    with stopped("NonDeterministicReplay"):
        d.decide([one.report()])
    assert world.history().decision is None


def test_a_twin_with_one_row_more_is_found_or_fenced(world, driver, source, rows, stopped):
    """S9: the writers' epoch is closed before the decision, so that a late twin cannot add a row to it."""
    d = driver().plan()
    one, two = d.task(source(0, 3), rows(0, 3)), d.task(source(0, 3), rows(0, 4), number=1)
    one.open()
    two.open()
    report = one.send().report()
    d.decide([report])
    with stopped("SinkFenced"):
        two.send()
    assert world.visible() == rows(0, 3)


def test_a_twin_that_registers_after_the_decision_stops_by_itself(world, driver, source, rows, stopped):
    d = driver().plan()
    one = d.task(source(0, 3), rows(0, 3))
    one.open()
    report = one.send().report()
    two = d.task(source(0, 3), rows(0, 4), number=1)
    d.decide([report])
    with stopped("SinkFenced"):
        two.open()


def test_a_twin_that_registered_just_before_the_decision_makes_the_next_planner_begin_anew(
    world, driver, source, rows, stopped
):
    """The commit had read the log already: neither saw the other, but the next planner sees both."""
    d = driver().plan()
    one, two = d.task(source(0, 3), rows(0, 3)), d.task(source(0, 3), rows(0, 3), number=1)
    one.open()
    report = one.send().report()
    journal_before = len(world.journal)
    two.open()
    registered = world.journal[journal_before:]
    del world.journal[journal_before:]
    d.decide([report])
    world.journal[journal_before:journal_before] = registered
    two.send()
    assert d.batch((source(3, 5), rows(3, 5)), batch_id=1) is not None
    assert world.sink_epochs == 2
    assert world.visible() == rows(0, 5)


def test_a_writer_with_stored_rows_that_does_not_report_differs(driver, source, rows, stopped):
    attempt = driver().plan().task(source(0, 2, partition=1), rows(0, 2))
    attempt.open()
    attempt.send()
    with stopped("ReplayDiffers"):
        driver().batch((source(0, 2), rows(0, 2)))


def test_a_range_that_two_tasks_read_is_refused(driver, source, rows, stopped):
    """A union of a source with itself: deduplication would take one half away."""
    d = driver().plan()
    one, two = d.task(source(0, 2), rows(0, 2)), d.task(source(0, 2), rows(0, 2))
    one.open()
    two.open()
    with stopped("PlanNotSupported"):
        d.decide([one.send().report(), two.send().report()])


def test_a_decision_lost_in_the_network_means_a_new_run_that_skips_or_writes(world, driver, source, rows):
    d = driver().plan()
    attempt = d.task(source(0, 3), rows(0, 3))
    attempt.open()
    attempt.send().report()
    d.plan()  # the same process plans again, undecided: it cannot trust its run
    assert world.sink_epochs == 2
    attempt = d.task(source(0, 3), rows(0, 3))
    attempt.open()
    assert attempt.todo == []
    d.decide([attempt.report()])
    assert world.visible() == rows(0, 3)


@pytest.mark.parametrize("how", ["compacted", "made anew", "trimmed"])
def test_an_output_that_cannot_be_scanned_is_unprovable(world, driver, source, rows, stopped, how):
    driver().batch((source(0, 4), rows(0, 4)))
    attempt = driver().plan().task(source(4, 8), rows(4, 8))
    attempt.open()
    attempt.send()
    if how == "compacted":
        world.compacted = True
    elif how == "made anew":
        world.topic_id = "second"
    else:
        world.log_starts = dict.fromkeys(world.outputs, 10)
    with stopped("ReplayUnprovable"):
        driver().plan()


def others_write(world, output, count):
    world.log(output).extend([(-1, b"others'")] * count)


def test_an_idle_output_that_others_write_may_be_trimmed_up_to_the_last_scan(world, driver, source, rows):
    idle, written = world.outputs
    others_write(world, idle, 3)
    odd = [row for row in rows(0, 8) if row[-1] % 2]
    driver().batch((source(0, 2), odd[:1]))
    others_write(world, idle, 5)
    undecided = driver().plan().task(source(2, 4), odd[1:2])
    undecided.open()
    undecided.send()
    begun = world.history().begin
    world.log_starts = {idle: len(world.log(idle))}
    driver().plan()
    assert begun.scanned_from[idle] >= 8
    assert world.history().begin.scanned_from[written] == begun.scanned_from[written], "where its rows stand"
    driver().batch((source(2, 4), odd[1:2]), batch_id=1)
    assert world.visible().count(odd[1]) == 1


def test_rows_behind_a_scan_that_found_none_are_found_by_the_next(world, driver, source, rows):
    driver().plan()
    attempt = driver().plan().task(source(0, 4), rows(0, 4))
    attempt.open()
    attempt.send(3)
    driver().batch((source(0, 4), rows(0, 4)))
    assert world.visible() == rows(0, 4)


def test_an_output_that_grew_is_used(world, driver, source, rows):
    driver().batch((source(0, 4), rows(0, 4)))
    world.partition_count = 3
    d = driver()
    d.batch((source(4, 8), rows(4, 8)), batch_id=1)
    assert world.visible() == rows(0, 8)


@pytest.mark.parametrize("idle_end", [2, 9])
def test_an_idle_source_partition_neither_goes_back_nor_jumps(world, driver, rows, stopped, idle_end):
    """A plan that leaves it elsewhere than decided: its decided end would go back (rows written again), or
    pass over rows that nobody wrote."""
    other = TopicPartition("in", 1)
    driver().batch((SourceRange(SOURCE, 0, 2), rows(0, 2)), (SourceRange(other, 0, 5), rows(10, 15)))
    moved = SourceRange(SOURCE, 2, 4, idle_ends=((other, idle_end),))
    with stopped("ReplayDiffers"):
        driver().plan().task(moved, rows(2, 4)).open()
    steady = SourceRange(SOURCE, 2, 4, idle_ends=((other, 5),))
    driver().batch((steady, rows(2, 4)), batch_id=1)
    assert world.history().decision.source_ends[other] == 5


def test_an_idle_source_partition_of_a_skipped_range_is_not_looked_at(driver, rows):
    """An older micro-batch is replayed, and what was idle then has moved on since."""
    other = TopicPartition("in", 1)
    first = SourceRange(SOURCE, 0, 2, idle_ends=((other, 0),))
    d = driver()
    d.batch((first, rows(0, 2)))
    d.batch((SourceRange(other, 0, 3), rows(10, 13)), batch_id=1)
    assert driver().batch((first, rows(0, 2))) is None


def test_a_planner_of_the_same_query_begins_anew_and_another_query_stops(world, driver, source, rows):
    """Planner processes are pooled: the run that this one held was taken over by its own query's other one."""
    d = driver()
    d.batch((source(0, 2), rows(0, 2)))
    taken = Fence("orders", d.sink_epoch + 1, "process 2 on here", "here:1:checkpoint")
    world.append_as_driver(taken, d.granted.producer_id)
    assert goes_on(world.history(), d.sink_epoch, True, "here:1:checkpoint") is False
    for other in ("here:1:elsewhere", ""):
        assert goes_on(world.history(), d.sink_epoch, True, other).reason.value == "SinkFenced"


def test_fewer_rows_before_the_first_decision_are_missed(world, driver, source, rows, stopped):
    """There is no decided query yet; the CUT of the first range tells a mended plan from smaller micro-batches."""
    killed = driver().plan().task(source(0, 4), rows(0, 4))
    killed.open()
    killed.send()
    with stopped("NonDeterministicReplay"):
        driver().batch((source(0, 4), rows(0, 2)))
    assert world.visible() == rows(0, 4)
