"""What there is of a sink before it has decided anything; no JVM."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted
from semel.errors import ConfigError
from semel.spark import reset_sink
from semel.spark.commit import decide_batch
from semel.spark.known_sinks import known_sinks
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.sink_log import starting_ends, topic_partition_count
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

SOURCE_RANGE = SourceRange(TopicPartition("in", 0), 3, 5)


@pytest.fixture
def options(log):
    name = f"new-{uuid.uuid4().hex[:8]}"
    return SinkOptions(Connection(log.bootstrap), name, name)


def write(options, ticket):
    task = TaskWrite(options, ticket, SOURCE_RANGE.writer, SOURCE_RANGE, 1, 0, "q")
    return Attempted(task.run([pa.record_batch({"value": pa.array([b"a", b"b"])})]), False)


def test_a_plan_alone_makes_no_topic_and_no_sink(log, options):
    """The tasks alone can tell whether the plan will do: an empty topic was left behind by one that would not."""
    ticket = plan_batch(options, "checkpoint")
    assert topic_partition_count(log.cluster, options.topic) is None
    assert options.sink_id not in known_sinks(log.bootstrap)
    write(options, ticket)
    assert log.values(options.topic) == [b"a", b"b"]
    assert options.sink_id in known_sinks(log.bootstrap)


def test_a_topic_that_a_killed_task_made_is_scanned(log, options):
    write(options, plan_batch(options, "checkpoint"))
    again = plan_batch(options, "after a crash")
    decide_batch(options, again, [write(options, again)], "q", 0)
    assert log.values(options.topic) == [b"a", b"b"]


def test_a_topic_is_made_by_a_range_without_rows_too(log, options):
    ticket = plan_batch(options, "checkpoint")
    TaskWrite(options, ticket, SOURCE_RANGE.writer, SOURCE_RANGE, 1, 0, "q").run([])
    assert topic_partition_count(log.cluster, options.topic) == 1


def test_to_begin_where_a_sink_has_decided_takes_one_that_has(log, options):
    """It began at the earliest offsets: a mistyped name doubled all that stands in the output."""
    with pytest.raises(ConfigError, match="there is no such sink"):
        starting_ends(options.connection, options.sink_id)
    assert log.owners(options.sink_id) == set()
    ticket = plan_batch(options, "checkpoint")
    written = write(options, ticket)
    with pytest.raises(ConfigError, match="decided no source offsets"):
        starting_ends(options.connection, options.sink_id)
    decide_batch(options, ticket, [written], "q", 0)
    assert starting_ends(options.connection, options.sink_id)[0] == {TopicPartition("in", 0): 5}
    reset_sink(log.bootstrap, options.sink_id)
    with pytest.raises(ConfigError, match="decided no source offsets"):
        starting_ends(options.connection, options.sink_id)
