"""What a refusal's text advises is done here, to the letter: no row is lost or doubled by it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from semel.core.sink.committed_state import other_plan, other_state_plan
from semel.core.sink.decide import check_reports
from semel.core.sink.ranges import SourceRange
from semel.core.sink.refusal import Refusal, other_routing, unprovable
from semel.core.sink.routing import Routing
from semel.core.sink.run import Ticket, compacted, journal_trimmed
from semel.core.sink.task import TaskReport, fewer_rows, may_write, other_rows
from semel.types import TopicPartition

OTHER = TopicPartition("in", 1)


def begin_where_the_text_says(world, text: str) -> dict[TopicPartition, int]:
    """``startingOffsets=sink:<id>`` on a new checkpoint, under the same sinkId."""
    assert "new, empty checkpoint folder and startingOffsets=sink:orders" in text
    decided = world.history().decision
    return {} if decided is None else dict(decided.source_ends)


def undecided(driver, source, rows, first: int, end: int, stored: int) -> None:
    attempt = driver.plan().task(source(first, end), rows(first, end))
    attempt.open()
    attempt.send(stored)


@pytest.mark.parametrize("stored", [0, 2, 4])
@pytest.mark.parametrize(
    "planned",
    [
        pytest.param((0, 4), id="an older checkpoint was put back"),
        pytest.param((5, 9), id="a gap"),
    ],
)
def test_other_ranges_than_decided(world, driver, source, rows, stopped, planned, stored):
    """Also when rows behind the decided end stand there undecided."""
    first = driver()
    first.batch((source(0, 3), rows(0, 3)))
    undecided(first, source, rows, 3, 7, stored)
    with stopped("ReplayDiffers") as why:
        driver().batch((source(*planned), rows(*planned)), batch_id=0)
    at = begin_where_the_text_says(world, why.value.text)[TopicPartition("in", 0)]
    new = driver("q2")
    for number, end in enumerate((5, 7, 9)):
        new.batch((source(at, end), rows(at, end)), batch_id=number)
        at = end
    assert world.visible() == rows(0, 9)


def test_a_new_query_from_the_start(world, driver, source, rows, stopped):
    driver("q1").batch((source(0, 3), rows(0, 3)))
    with stopped("ReplayDiffers") as why:
        driver("q2").batch((source(0, 5), rows(0, 5)))
    at = begin_where_the_text_says(world, why.value.text)[TopicPartition("in", 0)]
    driver("q3").batch((source(at, 5), rows(at, 5)))
    assert world.visible() == rows(0, 5)


def test_an_idle_source_partition_that_was_moved(world, driver, source, rows, stopped):
    driver().batch((source(0, 2), rows(0, 2)), (source(0, 3, partition=1), rows(10, 13)))
    moved = SourceRange(TopicPartition("in", 0), 2, 4, idle_ends=((OTHER, 9),))
    with stopped("ReplayDiffers") as why:
        driver().batch((moved, rows(2, 4)), batch_id=1)
    ends = begin_where_the_text_says(world, why.value.text)
    new = driver("q2")
    at, other = ends[TopicPartition("in", 0)], ends[OTHER]
    new.batch((source(at, 4), rows(at, 4)), (source(other, 9, partition=1), rows(10 + other, 19)), batch_id=0)
    assert world.visible() == [*rows(0, 4), *rows(10, 19)]


def test_a_first_range_that_begins_elsewhere(world, driver, source, rows, stopped):
    undecided(driver(), source, rows, 2, 6, 3)
    with stopped("ReplayDiffers") as why:
        driver("q2").batch((source(4, 8), rows(4, 8)))
    begun = int(re.search(r"began at (\d+)\. Let the query begin there", why.value.text)[1])
    driver("q3").batch((source(begun, 8), rows(begun, 8)))
    assert world.visible() == rows(2, 8)


def test_another_cut(world, driver, source, rows, stopped):
    halves = [(source(0, 8, split=(number, 2)), rows(4 * number, 4 * number + 4)) for number in (0, 1)]
    attempt = driver().plan().task(*halves[1])
    attempt.open()
    attempt.send(2)
    with stopped("ReplayDiffers") as why:
        driver().batch((source(0, 8), rows(0, 8)))
    assert "as it was cut: from the checkpoint that it was planned in, with minPartitions" in why.value.text
    driver().batch(*halves)
    assert world.visible() == rows(0, 8)


def test_another_topic(world, driver, source, rows, stopped):
    undecided(driver(), source, rows, 0, 4, 3)
    with stopped("ReplayDiffers") as why:
        driver(topic="b").plan()
    assert "Set it back until they are decided, then change it" in why.value.text
    driver().batch((source(0, 4), rows(0, 4)))
    driver(topic="b").batch((source(4, 6), rows(4, 6)), batch_id=1)
    assert world.visible() == rows(0, 6)


def test_other_rows(world, driver, source, rows, stopped):
    undecided(driver(), source, rows, 0, 4, 3)
    with stopped("NonDeterministicReplay") as why:
        driver().batch((source(0, 4), rows(0, 4, b"x")))
    assert "run the plan as it was until these rows are decided, and change it then" in why.value.text
    driver().batch((source(0, 4), rows(0, 4)))
    driver().batch((source(4, 6), rows(4, 6, b"x")), batch_id=1)
    assert world.visible() == sorted([*rows(0, 4), *rows(4, 6, b"x")])


TP = TopicPartition("out", 0)
TICKET = Ticket("orders", 1, 1, 2, 0, {}, {}, {}, {}, have={("in/0/0of1", TP): None})


@pytest.mark.parametrize(
    "refusal",
    [
        unprovable("gone", "orders"),
        other_rows("in/0/0of1", TP, 3),
        fewer_rows("in/0/0of1", TP, 1, 3),
        other_routing("orders", Routing("a"), Routing("b")),
        compacted("out"),
    ],
)
def test_a_text_that_names_a_new_sink_says_what_comes_of_it(refusal: Refusal):
    """A new sinkId, or a reset, doubles what a query that begins before its decided rows reads again."""
    text = refusal.evidence
    for advice in re.findall(r"[Tt]ake a new sinkId[^.]*", text):
        assert "startingOffsets=sink:orders" in advice
        assert "come a second time" in advice
    for advice in re.findall(r"a new topic, under a new sinkId[^.]*", text):
        assert "from startingOffsets=earliest" in advice
    assert "sink reset" not in text


@pytest.mark.parametrize(
    "refusal",
    [
        unprovable("gone", "txn.counts"),
        other_rows("write:4~/0", TP, 3),
        fewer_rows("write:4~q~4/0", TP, 1, 3),
        other_rows("write:8a72/0", TP, 3),
        other_routing("txn.counts", Routing("a"), Routing("b")),
    ],
)
def test_a_batch_write_is_advised_by_its_own_options(refusal: Refusal):
    assert "sinkId" not in refusal.evidence
    assert "sink:" not in refusal.evidence


STAGE = "visits/fold"


@pytest.mark.parametrize(
    "refusal",
    [
        unprovable("gone", STAGE),
        other_rows("in/0/0of1", TP, 3, STAGE),
        fewer_rows("in/0/0of1", TP, 1, 3, STAGE),
        other_routing(STAGE, Routing("a"), Routing("b")),
        journal_trimmed(STAGE, TP, 0, 5),
        other_plan(STAGE, "a", "b"),
        other_state_plan(STAGE, "a", "b"),
        may_write(replace(TICKET, sink_id=STAGE, source_ends={OTHER: 7}), SourceRange(OTHER, 3, 9), "q"),
        check_reports(
            replace(TICKET, sink_id=STAGE), [TaskReport("in/1/0of1", SourceRange(OTHER, 0, 1), 5, 1)]
        ),
    ],
)
def test_a_flows_stage_is_advised_as_a_flow(refusal: Refusal):
    """It has neither a sinkId to choose nor startingOffsets to give, and a checkpoint only to throw away."""
    text = refusal.evidence
    assert not re.search("sinkId|sink:|startingOffsets|new checkpoint|with `semel sink reset", text)
    for advice in re.findall("of another name[^.]*", text):
        assert "to new topics and from the beginning of its inputs" in advice


def test_a_writer_that_is_missing():
    another = TaskReport("in/1/0of1", SourceRange(OTHER, 0, 1), 5, 1)
    assert "startingOffsets=sink:orders" in check_reports(TICKET, [another]).evidence
    batch = replace(TICKET, sink_id="txn.counts", have={("write:4~/1", TP): None})
    assert "sink:" not in check_reports(batch, [TaskReport("write:4~/0", None, 5, 1)]).evidence
