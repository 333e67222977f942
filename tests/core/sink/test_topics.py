"""Rows to several topics: which ones is known only once a task meets them, and is then in the log."""

from __future__ import annotations

import pytest


@pytest.fixture
def mixed():
    """Rows to the option's topic and to "a" and "b", in turn."""

    def make(first: int, end: int) -> list[bytes]:
        return [(b"", b"@a", b"@b")[number % 3] + bytes([0, number]) for number in range(first, end)]

    return make


def test_rows_go_to_their_topics_and_a_killed_driver_writes_none_twice(world, driver, source, mixed):
    killed = driver().plan().task(source(0, 9), mixed(0, 9))
    killed.open()
    killed.send(4)
    d = driver()
    d.batch((source(0, 9), mixed(0, 9)))
    d.batch((source(9, 12), mixed(9, 12)), batch_id=1)
    assert world.visible() == sorted(mixed(0, 12))
    assert {tp.topic for tp, log in world.rows.items() if log} == {"out", "a", "b"}


def test_a_topic_that_only_a_killed_task_had_met_is_scanned(world, driver, source, mixed):
    """Without OUTPUT the next driver would not know where to look: doubled."""
    d = driver()
    d.batch((source(0, 1), mixed(0, 1)))
    killed = d.plan().task(source(1, 3), mixed(1, 3))
    killed.open()
    killed.send()
    driver().batch((source(1, 3), mixed(1, 3)), batch_id=1)
    assert world.visible() == sorted(mixed(0, 3))


def test_a_zombie_is_fenced_in_the_topics_that_it_met_itself(world, driver, source, mixed, stopped):
    zombie = driver().plan().task(source(0, 9), mixed(0, 9))
    zombie.open()
    zombie.send(1)
    driver().batch((source(0, 9), mixed(0, 9)))
    with stopped("SinkFenced"):
        zombie.send()
    assert world.visible() == sorted(mixed(0, 9))


def test_a_zombie_that_meets_a_topic_after_a_newer_fence_stops(world, driver, source, mixed, stopped):
    d = driver()
    d.batch((source(0, 1), mixed(0, 1)))
    zombie = d.plan().task(source(1, 2), mixed(1, 2))
    driver().plan()
    with stopped("SinkFenced"):
        zombie.open()
    assert world.visible() == mixed(0, 1)


def test_all_tasks_see_a_topic_as_the_first_that_met_it(world, driver, source, rows):
    """It grew in between: the row's partition is a function of the count that the log has saved."""
    d = driver().plan()
    one = d.task(source(0, 3), [b"@a" + row for row in rows(0, 3)])
    one.open()
    world.partition_count = 3
    two = d.task(source(0, 3, partition=1), [b"@a" + row for row in rows(3, 6)])
    two.open()
    assert {tp.partition for tp, *_ in [*one.todo, *two.todo]} == {0, 1}
    d.decide([one.send().report(), two.send().report()])
    d.batch((source(3, 6), [b"@a" + row for row in rows(6, 9)]), batch_id=1)
    assert len(world.visible()) == 9


def test_a_topic_first_met_in_a_later_micro_batch_is_scanned_from_its_start(world, driver, source, rows):
    """Its rows are decided: the next scan begins behind them, in the new topic too."""
    d = driver()
    d.batch((source(0, 2), rows(0, 2)))
    d.batch((source(2, 4), [b"@a" + row for row in rows(2, 4)]), batch_id=1)
    decided = world.history().decision
    assert all(decided.output_ends[tp] == len(world.log(tp)) for tp in world.partitions_of("a"))
    driver().batch((source(4, 5), rows(4, 5)), batch_id=2)
    assert len(world.visible()) == 5


def test_a_topic_that_only_the_losing_attempt_met_is_remembered(world, driver, source, rows, stopped):
    d = driver().plan()
    one = d.task(source(0, 2), rows(0, 2))
    two = d.task(source(0, 2), [b"@a" + row for row in rows(0, 2)], number=1)
    one.open()
    two.open()
    two.send(1)
    with stopped("NonDeterministicReplay"):
        d.decide([one.send().report()])


def test_a_deleted_output_is_unprovable(world, driver, source, mixed, stopped):
    driver().batch((source(0, 6), mixed(0, 6)))
    world.deleted.add("a")
    with stopped("ReplayUnprovable"):
        driver().plan()


def test_rows_in_a_topic_that_the_replay_no_longer_writes_are_missed(driver, source, mixed, rows, stopped):
    killed = driver().plan().task(source(0, 6), mixed(0, 6))
    killed.open()
    killed.send()
    with stopped("NonDeterministicReplay"):
        driver().plan().task(source(0, 6), rows(0, 6)).open()


def test_the_number_of_topics_is_bounded(driver, source, monkeypatch, stopped, rows):
    monkeypatch.setattr("semel.core.sink.task.OUTPUT_TOPICS_MAX", 1)
    d = driver().plan()
    with stopped("PlanNotSupported"):
        d.task(source(0, 2), [b"@a" + row for row in rows(0, 2)]).open()
