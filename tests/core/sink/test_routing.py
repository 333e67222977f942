"""Where rows go is part of the plan: it stands in BEGIN, and is another only when every row is decided."""

from __future__ import annotations

import pytest

from semel.core.sink.digest import NO_ROWS
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Stored
from semel.core.sink.routing import Routing
from semel.core.sink.run import begin
from semel.types import TopicPartition


def killed(driver, source, rows, first: int = 0, end: int = 4, stored: int = 3):
    """All that is undecided: ``stored`` rows of a driver that is dead."""
    attempt = driver.plan().task(source(first, end), rows(first, end))
    attempt.open()
    attempt.send(stored)


def test_another_topic_in_the_first_micro_batch_differs(world, driver, source, rows, stopped):
    """All rows came to stand in the new topic, and 3 of them in the old one as well."""
    killed(driver(), source, rows)
    with stopped("ReplayDiffers"):
        driver(topic="b").batch((source(0, 4), rows(0, 4)))
    driver().batch((source(0, 4), rows(0, 4)))
    assert world.visible() == rows(0, 4)


def test_another_topic_in_a_later_micro_batch_differs_for_a_new_query_too(
    world, driver, source, rows, stopped
):
    """A lost checkpoint: what the earlier query left may be a surplus, so that nothing missed those rows."""
    first = driver()
    first.batch((source(0, 2), rows(0, 2)))
    killed(first, source, rows, 2, 6)
    with stopped("ReplayDiffers"):
        driver("q2", topic="b").batch((source(2, 6), rows(2, 6)), batch_id=0)
    driver("q2").batch((source(2, 6), rows(2, 6)), batch_id=0)
    assert world.visible() == rows(0, 6)


@pytest.mark.parametrize("columns", [(), ("key", "partition"), ("partition",)])
def test_a_key_or_a_partition_column_that_comes_or_goes_differs(driver, source, rows, stopped, columns):
    killed(driver(columns=("key",)), source, rows)
    with stopped("ReplayDiffers"):
        driver(columns=columns).plan()


def test_rows_that_name_their_topics_do_not_turn_to_the_options(driver, source, rows, stopped):
    killed(driver(), source, rows)
    with stopped("ReplayDiffers"):
        driver(topic=None).plan()


def test_once_all_is_decided_the_topic_may_change(world, driver, source, rows):
    driver().batch((source(0, 2), rows(0, 2)))
    driver(topic="b").batch((source(2, 4), rows(2, 4)), batch_id=1)
    driver().batch((source(4, 6), rows(4, 6)), batch_id=2)
    assert world.visible() == rows(0, 6)
    assert {topic for (topic, _), log in world.rows.items() if any(who >= 0 for who, _ in log)} == {
        "out",
        "b",
    }


def test_a_run_that_wrote_nothing_binds_nobody(world, driver, source, rows):
    driver().plan()
    driver(topic="b").batch((source(0, 2), rows(0, 2)))
    assert world.visible() == rows(0, 2)


def test_rows_that_were_left_to_a_later_micro_batch_are_undecided_too(driver, source, rows, stopped):
    killed(driver(), source, rows, 0, 6, stored=6)
    driver("q2").batch((source(0, 2), rows(0, 2)))
    with stopped("ReplayDiffers"):
        driver("q2", topic="b").plan()


def test_rows_of_the_first_micro_batch_that_name_another_topic_now_are_missed(driver, source, rows, stopped):
    """The column decides, and what is in it is the query's: the rows that stand elsewhere are not met again."""
    killed(driver(), source, lambda first, end: [b"@a" + row for row in rows(first, end)])
    with stopped("NonDeterministicReplay"):
        driver().batch((source(0, 4), [b"@b" + row for row in rows(0, 4)]))


def test_fewer_rows_in_the_first_micro_batch_are_left_to_the_next_if_its_range_was_larger(
    world, driver, source, rows
):
    killed(driver(), source, rows, 0, 6, stored=5)
    second = driver("q2")
    second.batch((source(0, 2), rows(0, 2)))
    second.batch((source(2, 4), rows(2, 4)), batch_id=1)
    second.batch((source(4, 6), rows(4, 6)), batch_id=2)
    assert world.visible() == rows(0, 6)


def test_fewer_rows_of_the_same_first_range_are_no_surplus(driver, source, rows, stopped):
    killed(driver(), source, rows, 0, 6, stored=5)
    with stopped("NonDeterministicReplay"):
        driver().batch((source(0, 6), rows(0, 3)))


def test_a_first_micro_batch_that_begins_elsewhere_than_its_undecided_rows_differs(
    driver, source, rows, stopped
):
    """A new query from ``latest``: rows that are equal would have been taken for those that stand there."""
    killed(driver(), source, rows, 0, 4)
    with stopped("ReplayDiffers"):
        driver("q2").batch((source(4, 6), rows(0, 2)))


def test_a_source_partition_that_came_later_has_a_first_micro_batch_of_its_own(world, driver, source, rows):
    first = driver()
    first.batch((source(0, 2), rows(0, 2)))
    attempt = first.plan().task(source(0, 6, partition=1), rows(10, 16))
    attempt.open()
    attempt.send()
    second = driver("q2")
    second.batch((source(0, 3, partition=1), rows(10, 13)))
    second.batch((source(3, 6, partition=1), rows(13, 16)), batch_id=1)
    assert world.visible() == [*rows(0, 2), *rows(10, 16)]


def test_an_output_that_grew_is_used_as_it_was_until_its_rows_are_decided(world, driver, source, rows):
    killed(driver(), source, rows, 0, 4)
    world.partition_count = 5
    last = driver()
    last.batch((source(0, 4), rows(0, 4)))
    assert world.visible() == rows(0, 4)
    assert {tp.partition for tp, log in world.rows.items() if any(who >= 0 for who, _ in log)} == {0, 1}
    driver().batch((source(4, 9), rows(4, 9)), batch_id=1)
    assert world.visible() == rows(0, 9)
    assert world.history().outputs["out"].partition_count == 5


def test_an_output_that_grew_where_rows_name_their_partitions_is_unprovable(
    world, driver, source, rows, stopped
):
    """They may name the new ones; and those that name none would be placed by the new count."""
    killed(driver(columns=("partition",)), source, rows, 0, 4)
    world.partition_count = 5
    with stopped("ReplayUnprovable"):
        driver(columns=("partition",)).plan()


def test_what_wrote_the_undecided_rows_is_named(driver, source, rows):
    outputs = {"out": driver().world.topic("out")}
    history = SinkHistory("s", outputs=dict(outputs))
    have = {("in/0/0of1", TopicPartition("out", 0)): Stored(NO_ROWS, 1)}
    history.apply(begin(history, 1, outputs, {}, have, {}, routing=Routing("out", ("key",))))
    refusal = begin(history, 2, outputs, {}, have, {}, routing=Routing(None, ()))
    assert "topic 'out' by key" in refusal.evidence
    assert "each row's own topic by row number" in refusal.evidence
    assert "Set it back" in refusal.evidence
