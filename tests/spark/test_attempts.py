"""Several attempts of one task, as Spark runs them after a failure or by speculation; no JVM."""

from __future__ import annotations

import threading
import uuid

import pyarrow as pa
import pytest

from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted, TaskReport
from semel.errors import NonDeterministicReplay, SinkFenced
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

SOURCE_RANGE = SourceRange(TopicPartition("in", 0), 0, 20)
NEXT_RANGE = SourceRange(TopicPartition("in", 0), 20, 25)


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


class Sink:
    """A micro-batch of one source range after the other."""

    def __init__(self, log, source_range: SourceRange = SOURCE_RANGE) -> None:
        self.topic = log.topic("out", 2)
        self.options = SinkOptions(Connection(log.bootstrap), self.topic, self.topic)
        self.checkpoint = uuid.uuid4().hex
        self.plan(source_range)

    def plan(self, source_range: SourceRange) -> None:
        self.source_range = source_range
        self.ticket = plan_batch(self.options, self.checkpoint)

    def attempt(self, number: int, values, between=None) -> TaskReport:
        """Each value is a batch of Spark's; ``between`` is called after each."""

        def batches():
            for value in values:
                yield pa.record_batch({"value": pa.array([value])})
                if between is not None:
                    between()

        writer = self.source_range.writer
        task = TaskWrite(self.options, self.ticket, writer, self.source_range, 10 + number, number, "q")
        return task.run(batches())

    def decide(self, report: TaskReport, *, number: int = 0, batch_id: int = 0):
        return decide_batch(self.options, self.ticket, [Attempted(report, number > 0)], "q", batch_id)


@pytest.fixture
def sink(log):
    return Sink(log)


def test_a_second_attempt_repeats_the_first_ones_rows(log, sink):
    sink.attempt(0, numbers(0, 12))
    decision = sink.decide(sink.attempt(1, numbers(0, 20)), number=1)
    assert decision.closed
    assert log.values(sink.topic) == numbers(0, 20)
    sink.plan(NEXT_RANGE)
    assert not sink.decide(sink.attempt(0, numbers(20, 25)), batch_id=1).closed
    assert log.values(sink.topic) == numbers(0, 25)


@pytest.mark.parametrize("winner", [0, 1])
def test_two_attempts_at_once_write_every_row_once(log, sink, winner):
    turns = threading.Barrier(2, timeout=30)
    reports: dict[int, TaskReport] = {}

    def run(number: int) -> None:
        reports[number] = sink.attempt(number, numbers(0, 20), turns.wait)

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sink.decide(reports[winner], number=winner).closed
    assert log.values(sink.topic) == numbers(0, 20)


def test_a_slow_first_attempt_is_fenced_once_the_second_has_won(log, sink):
    def the_other_wins() -> None:
        if log.values(sink.topic) == numbers(0, 1):
            sink.decide(sink.attempt(1, numbers(0, 20)), number=1)

    with pytest.raises(SinkFenced, match="refuses this one's rows"):
        sink.attempt(0, numbers(0, 30), the_other_wins)
    assert log.values(sink.topic) == numbers(0, 20)


def test_a_second_attempt_that_comes_after_the_decision_stops(log, sink):
    sink.decide(sink.attempt(0, numbers(0, 20)))
    with pytest.raises(SinkFenced, match="was decided while this attempt waited"):
        sink.attempt(1, numbers(0, 21))
    assert log.values(sink.topic) == numbers(0, 20)


@pytest.mark.parametrize("others", [numbers(1, 21), numbers(0, 21)])
def test_attempts_with_other_rows_are_found_before_the_decision(log, sink, others):
    sink.attempt(0, others)
    with pytest.raises(NonDeterministicReplay):
        sink.decide(sink.attempt(1, numbers(0, 20)), number=1)
