"""An output that is trimmed: what stops a sink, and what does not concern it; no JVM."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from semel.core.sink.journal import NamedWrite
from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted
from semel.core.sink.writes import writer_of
from semel.errors import ReplayDiffers, ReplayUnprovable
from semel.spark import sink_log
from semel.spark.batch_sink import plan_write
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.sink_log import SinkLog
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
        self,
        first: int,
        end: int,
        *,
        decide: bool = True,
        attempt: int = 0,
        checkpoint: str = "",
        source: TopicPartition = SOURCE,
    ) -> None:
        ticket = plan_batch(self.options, checkpoint or uuid.uuid4().hex)
        source_range = SourceRange(source, first, end)
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


def test_a_generation_that_ended_speaks_of_no_writer_that_never_came_again(log, sink, monkeypatch):
    """Of another source topic, or another split. It has no id in the new generation: the leader was asked for none."""
    sink.write(0, 3)
    end_the_generation(sink, monkeypatch)
    sink.write(0, 3, source=TopicPartition("in", 1))
    sink.others_write_and_trim()
    sink.write(3, 6, source=TopicPartition("in", 1))
    assert log.values(sink.topic) == numbers(3, 6)
    sink.others_write_and_trim()
    sink.write(6, 9, source=TopicPartition("in", 1), decide=False)
    sink.others_write_and_trim()
    with pytest.raises(ReplayUnprovable):
        sink.write(6, 9, source=TopicPartition("in", 1))


def test_rows_of_the_generation_before_may_not(sink, monkeypatch):
    sink.write(0, 3)
    sink.write(3, 6, decide=False)
    sink.others_write_and_trim()
    end_the_generation(sink, monkeypatch)
    for _ in range(2):
        with pytest.raises(ReplayUnprovable):
            sink.write(3, 6, source=TopicPartition("in", 1))


def end_the_generation(sink, monkeypatch) -> None:
    """As a broker does that forgets the name: the next take-over asks for the next one."""
    ask = sink_log.generation_to_ask
    with monkeypatch.context() as patch:
        patch.setattr(sink_log, "generation_to_ask", lambda history: ask(history) + 1)
        SinkLog(sink.options.connection, sink.options.sink_id).take_over()


def named(sink, version: int) -> SinkOptions:
    return replace(sink.options, sink_id=None, txn_app_id=sink.topic, txn_version=version)


def write_version(sink, version: int, *, before=lambda: None, decide: bool = True) -> None:
    options = named(sink, version)
    plan = plan_write(options)
    before()
    writer = writer_of(version, None, None, 0)
    task = TaskWrite(options, plan.ticket, writer, None, version, 0, "")
    report = task.run([pa.record_batch({"value": pa.array(numbers(10 * version, 10 * version + 3))})])
    if decide:
        name = NamedWrite(version, None, None)
        decide_batch(options, plan.ticket, [Attempted(report, False)], "", 0, carry=False, write=name)


def test_a_version_that_comes_too_early_says_nothing_of_the_one_that_is_begun(log, sink, monkeypatch):
    """It looks for its own writers only, found nobody, and said that all is at rest: the other was written twice."""
    write_version(sink, 0)
    sink.others_write_and_trim()
    fence_of = SinkLog.take_over

    def late(self, query=""):
        """The other is begun when this one has looked, and has not fenced yet."""
        with monkeypatch.context() as patch:
            patch.setattr(SinkLog, "take_over", fence_of)
            write_version(sink, 1, before=sink.others_write_and_trim, decide=False)
        return fence_of(self, query)

    monkeypatch.setattr(SinkLog, "take_over", late)
    with pytest.raises(ReplayDiffers, match=r"version 1 .* was begun"):
        plan_write(named(sink, 2))
    monkeypatch.undo()
    with pytest.raises(ReplayUnprovable):
        write_version(sink, 1)
