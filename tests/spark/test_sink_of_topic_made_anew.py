"""An exactly-once sink whose source topic is deleted and made anew: what it has decided is of the one before.

Planner, tasks and commit are called as Spark calls them, on semel and on Apache Kafka.
"""

from __future__ import annotations

import itertools

import pytest
from tests.spark.test_topic_made_anew import Query, any_log, make_anew, numbers, until_gone

from semel.core.sink.journal import Decision
from semel.errors import DataLoss, ReplayDiffers
from semel.spark import sink_log
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.sink_log import SinkLog, history_of
from semel.spark.task_write import write_range

__all__ = ["any_log"]  # the fixture of the source's own tests
pytestmark = pytest.mark.usefixtures("own_caches")
drivers = itertools.count()


class Copy:
    """One life of a query that copies ``source`` to ``output``; ``offset`` is its checkpoint."""

    def __init__(self, log, source: str, output: str, query_id: str = "q", **options: str) -> None:
        self.query = Query(log, source, **{"failOnDataLoss": "false"} | options)
        self.query_id = query_id
        self.connection = Connection(log.bootstrap, f"driver-{next(drivers)}")
        self.options = SinkOptions(self.connection, output, output)
        self.planned = None

    def micro_batch(self, *, rows_max: int | None = None) -> None:
        """The planned one again, or the next one; only so many rows of each task, and no decision, if that is said."""
        end = self.planned or self.query.plan()
        self.planned = end
        ticket = plan_batch(self.options, self.query_id)
        attempted = []
        for number, piece in enumerate(self.query.ranges(end)):
            batches = (batch.select(["value"]) for batch in self.query.reader.batches(piece))
            if rows_max is not None:
                batches = (batch.slice(0, rows_max) for batch in batches)
            attempted.append(
                write_range(
                    self.options,
                    ticket,
                    piece.source_range,
                    batches,
                    query_id=self.query_id,
                    task_attempt_id=number,
                    attempt_number=0,
                )
            )
        if rows_max is not None:
            return
        if attempted:
            decide_batch(self.options, ticket, attempted, self.query_id, 0)
        self.query.offset, self.planned = end, None

    def again(self, log, source: str, **options: str) -> Copy:
        """The next life, on the same checkpoint."""
        other = Copy(log, source, self.options.topic, self.query_id, **options)
        other.query.offset, other.planned = self.query.offset, self.planned
        return other

    def decision(self) -> Decision:
        return history_of(SinkLog(self.connection, self.options.sink_id), self.connection).decision


@pytest.fixture
def topics(any_log):
    source, output = any_log.topic("in"), any_log.topic("out")
    any_log.write(source, numbers(0, 10))
    return source, output


@pytest.mark.parametrize("length", [26, 10, 4, 0])
def test_what_is_decided_of_the_older_topic_skips_nothing_of_the_new_one(any_log, topics, length):
    source, output = topics
    first = Copy(any_log, source, output)
    first.micro_batch()
    make_anew(any_log, source, numbers(100, 100 + length))
    second = first.again(any_log, source)
    second.micro_batch()
    assert any_log.values(output) == numbers(0, 10) + numbers(100, 100 + length)
    assert second.decision().source_ids == {source: str(any_log.cluster.topic(source).topic_id)}
    third = second.again(any_log, source)
    third.query.offset = first.query.offset  # Spark had no commit entry of that micro-batch
    third.planned = second.query.offset
    third.micro_batch()
    any_log.write(source, numbers(200, 203))
    third.micro_batch()
    assert any_log.values(output) == numbers(0, 10) + numbers(100, 100 + length) + numbers(200, 203)


@pytest.mark.parametrize("rows_max", [1, 5, 10])
@pytest.mark.parametrize("splits", ["1", "3"])
def test_rows_that_stood_there_undecided_stay_and_the_query_goes_on(any_log, topics, rows_max, splits):
    source, output = topics
    first = Copy(any_log, source, output, minPartitions=splits)
    first.micro_batch()
    any_log.write(source, numbers(10, 40))
    first.micro_batch(rows_max=rows_max)
    stored = any_log.values(output)
    make_anew(any_log, source, numbers(100, 126))
    second = first.again(any_log, source, minPartitions=splits)
    second.micro_batch()
    second.micro_batch()
    assert any_log.values(output) == stored + numbers(100, 126)
    third = second.again(any_log, source, minPartitions=splits)
    any_log.write(source, numbers(200, 203))
    third.micro_batch()
    assert any_log.values(output) == stored + numbers(100, 126) + numbers(200, 203)


def test_with_the_checkpoint_lost_too(any_log, topics):
    """The new topic has the very rows that stand undecided: they are rows of its own, and written."""
    source, output = topics
    first = Copy(any_log, source, output)
    first.micro_batch()
    any_log.write(source, numbers(10, 20))
    first.micro_batch(rows_max=5)
    make_anew(any_log, source, numbers(10, 20))
    with pytest.raises(DataLoss, match="deleted and made anew"):
        Copy(
            any_log, source, output, "q2", startingOffsets=f"sink:{output}", failOnDataLoss="true"
        ).micro_batch()
    second = Copy(any_log, source, output, "q2", startingOffsets=f"sink:{output}")
    second.micro_batch()
    assert any_log.values(output) == sorted(numbers(0, 20) + numbers(10, 15))


def test_an_undecided_partition_that_the_new_topic_has_not(any_log):
    source, output = any_log.topic("in", 2), any_log.topic("out")
    any_log.write(source, numbers(0, 5))
    any_log.write(source, numbers(5, 10), partition=1)
    first = Copy(any_log, source, output)
    first.micro_batch()
    any_log.write(source, numbers(10, 15), partition=1)
    first.micro_batch(rows_max=3)
    make_anew(any_log, source, numbers(100, 103))
    second = Copy(any_log, source, output, "q2", startingOffsets=f"sink:{output}")
    second.micro_batch()
    assert any_log.values(output) == numbers(0, 13) + numbers(100, 103)
    assert list(second.decision().source_ends.values()) == [3]


def test_rows_of_the_older_topic_and_no_decision_is_refused_before_a_row(any_log, topics):
    source, output = topics
    Copy(any_log, source, output).micro_batch(rows_max=5)
    make_anew(any_log, source, numbers(100, 110))
    with pytest.raises(ReplayDiffers, match="read another topic of the name"):
        Copy(any_log, source, output, "q2").micro_batch()
    assert any_log.values(output) == numbers(0, 5)


def test_decisions_and_checkpoints_without_ids_go_on(any_log, topics, monkeypatch):
    """Of an older semel, amid a micro-batch: its writers have no ids in their names."""
    source, output = topics
    first = Copy(any_log, source, output)
    first.query.offset, first.planned = {source: {"0": 0}}, {source: {"0": 4}}
    with monkeypatch.context() as older:
        encode = sink_log.encode
        older.setattr(
            sink_log,
            "encode",
            lambda record: (encode(record)[0], encode(record)[1].replace(b'"source_ids"', b'"unknown"')),
        )
        first.micro_batch()
        first.planned = {source: {"0": 7}}
        first.micro_batch(rows_max=2)
    assert first.decision().source_ids == {}
    second = first.again(any_log, source)
    second.micro_batch()
    assert any_log.values(output) == numbers(0, 7)
    assert second.decision().source_ids == {source: str(any_log.cluster.topic(source).topic_id)}
    second.micro_batch()
    third = Copy(any_log, source, output, "q2", startingOffsets=f"sink:{output}")
    any_log.write(source, numbers(10, 13))
    third.micro_batch()
    assert any_log.values(output) == numbers(0, 13)


def test_idle_topics_are_known_by_their_ids_too(any_log, topics):
    """``startingOffsets=latest``: nothing of it was read, and all that it has is new once it is another topic."""
    source, output = topics
    idle = any_log.topic("idle")
    any_log.write(idle, numbers(50, 60))
    both = f"{source},{idle}"
    first = Copy(any_log, both, output, startingOffsets="latest")
    any_log.write(source, numbers(10, 15))
    first.micro_batch()
    make_anew(any_log, idle, numbers(100, 126))
    with pytest.raises(DataLoss, match="deleted and made anew"):
        Copy(
            any_log, both, output, "q2", startingOffsets=f"sink:{output}", failOnDataLoss="true"
        ).micro_batch()
    Copy(any_log, both, output, "q2", startingOffsets=f"sink:{output}").micro_batch()
    assert any_log.values(output) == numbers(10, 15) + numbers(100, 126)


def test_stored_rows_of_a_topic_that_came_and_went_with_its_micro_batch_stay(any_log, topics):
    """Nobody was asked for them any more, and the query could not go on: they were no writer's of the micro-batch."""
    source, output = topics
    pattern = {"subscribePattern": f"{source}.*"}
    first = Copy(any_log, source, output, **pattern)
    late = f"{source}-late"
    any_log.cluster.create_topics({late: 1})
    any_log.cluster.topic(late, is_known_to_exist=True)
    any_log.write(late, numbers(20, 25))
    first.micro_batch(rows_max=4)
    any_log.cluster.delete_topics([late])
    until_gone(any_log, late)
    last = first.again(any_log, source, **pattern)
    last.micro_batch()
    assert any_log.values(output) == numbers(0, 10) + numbers(20, 24)
    any_log.write(source, numbers(10, 12))
    last.micro_batch()
    assert any_log.values(output) == numbers(0, 12) + numbers(20, 24)
