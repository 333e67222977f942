"""An output that is trimmed: what stops a sink, and what does not concern it; no JVM."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pyarrow as pa
import pytest

from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted
from semel.errors import ReplayUnprovable
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

SOURCE = TopicPartition("in", 0)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


@dataclass
class Sink:
    log: object
    topic: str
    options: SinkOptions

    def write(
        self, first: int, end: int, *, decide: bool = True, attempt: int = 0, checkpoint: str = ""
    ) -> None:
        ticket = plan_batch(self.options, checkpoint or uuid.uuid4().hex)
        source_range = SourceRange(SOURCE, first, end)
        task = TaskWrite(self.options, ticket, source_range.writer, source_range, attempt, attempt, "q")
        report = task.run([pa.record_batch({"value": pa.array(numbers(first, end))})])
        if decide:
            decide_batch(self.options, ticket, [Attempted(report, attempt > 0)], "q", first)

    def others_write_and_trim(self) -> None:
        """All that stands there is gone."""
        self.log.write(self.topic, [b"of others"] * 20)
        end = self.log.offset(TopicPartition(self.topic, 0), -1)
        self.log.cluster.delete_records({TopicPartition(self.topic, 0): end})


@pytest.fixture
def sink(log):
    topic = log.topic("out")
    return Sink(log, topic, SinkOptions(Connection(log.bootstrap), topic, topic))


@pytest.mark.parametrize("attempt", [0, 1])
def test_others_rows_behind_a_finished_query_may_be_trimmed(log, sink, attempt):
    """It stopped: rows of an unfinished micro-batch might have stood there. The leader knows that none did."""
    sink.write(0, 3, attempt=attempt)
    sink.others_write_and_trim()
    sink.write(3, 6)
    assert log.values(sink.topic) == numbers(3, 6)
    sink.others_write_and_trim()
    sink.write(6, 9, decide=False)
    sink.write(6, 9)
    assert log.values(sink.topic) == numbers(6, 9)


def test_undecided_rows_behind_a_decision_may_not(sink):
    sink.write(0, 3, checkpoint="one")
    sink.write(3, 6, decide=False, checkpoint="one")  # in the same run
    sink.others_write_and_trim()
    with pytest.raises(ReplayUnprovable):
        sink.write(3, 6)


@pytest.mark.parametrize("runs", [1, 2])
def test_undecided_rows_behind_a_begin_may_not(sink, runs):
    sink.write(0, 3)
    for _ in range(runs):
        sink.write(3, 6, decide=False)
    sink.others_write_and_trim()
    with pytest.raises(ReplayUnprovable):
        sink.write(3, 6)
    with pytest.raises(
        ReplayUnprovable
    ):  # not even when it is tried again, and its own fences are all that is known
        sink.write(3, 6)
