"""``sink`` against a real server, with a sink that has decided one micro-batch and begun another."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted
from semel.errors import SinkFenced
from semel.spark import reset_sink
from semel.spark.commit import decide_batch
from semel.spark.options import Connection, SinkOptions
from semel.spark.runs import plan_batch
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

SOURCE = TopicPartition("in", 0)


@pytest.fixture
def bootstrap(semel_server):
    return semel_server.bootstrap


@pytest.fixture
def write(bootstrap):
    """``write(first, end, decide=True)``: a micro-batch of the sink "orders"."""

    def micro_batch(first: int, end: int, *, decide: bool = True, sink_id: str = "orders") -> None:
        options = SinkOptions(Connection(bootstrap), "out", sink_id)
        ticket = plan_batch(options, "checkpoint")
        source_range = SourceRange(SOURCE, first, end)
        task = TaskWrite(options, ticket, source_range.writer, source_range, 1, 0, "q")
        values = pa.array([b"%d" % number for number in range(first, end)])
        report = task.run([pa.record_batch({"value": values})])
        if decide:
            decide_batch(options, ticket, [Attempted(report, False)], "q", first)

    return micro_batch


def test_sinks_are_listed_and_described(semel, write):
    assert semel("sink", "list").code == 0
    write(0, 5)
    write(5, 7)
    (row,) = json.loads(semel("sink", "list", "--format", "json").out)
    assert (row["sink_id"], row["batch_id"], row["row_count"], row["topics"]) == ("orders", 5, 2, "out")
    ends = json.loads(semel("sink", "describe", "orders", "--format", "json").out)
    assert {"of": "source", "topic": "in", "partition": 0, "end_offset": 7} in ends
    assert semel("sink", "describe", "nope").err.startswith("semel: there is no sink 'nope'")


def test_a_reset_sink_begins_anew_and_says_what_it_left(semel, write, bootstrap):
    write(0, 5)
    write(5, 8, decide=False)
    assert "Say --yes" in semel("sink", "reset", "orders").err
    assert semel("sink", "reset", "nope", "--yes").code == 1
    done = semel("sink", "reset", "orders", "--yes")
    assert done.code == 0
    assert "was decided up to offset 5 of" in done.err
    assert ": 3 rows of in/0/0of1" in done.err
    with pytest.raises(SinkFenced, match="was taken over by process"):
        write(8, 9)  # the driver that was there
    write(0, 2)  # below what was decided: refused without the reset
    (row,) = json.loads(semel("sink", "list", "--format", "json").out)
    assert (row["batch_id"], row["row_count"]) == (0, 2)
    assert reset_sink(bootstrap, "orders").undecided == {}


def test_a_stage_of_a_flow_is_a_sink_as_any(semel, write):
    write(0, 5, sink_id="visits/fold")
    write(5, 8, sink_id="visits/fold", decide=False)
    (row,) = json.loads(semel("sink", "list", "--format", "json").out)
    assert (row["sink_id"], row["row_count"]) == ("visits/fold", 5)
    ends = json.loads(semel("sink", "describe", "visits/fold", "--format", "json").out)
    assert {"of": "source", "topic": "in", "partition": 0, "end_offset": 5} in ends
    asked = semel("sink", "reset", "visits/fold").err
    assert "without state" in asked
    assert "startingOffsets" not in asked
    done = semel("sink", "reset", "visits/fold", "--yes")
    assert done.code == 0
    assert ": 3 rows of in/0/0of1" in done.err
    with pytest.raises(SinkFenced, match="A flow runs in one place at a time"):
        write(8, 9, sink_id="visits/fold")  # the driver that was there
    write(0, 2, sink_id="visits/fold")
