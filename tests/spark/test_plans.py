"""Plans that a streaming sink cannot take, refused by their first micro-batch: rows or none, with state or without."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from semel.core.sink.ranges import SourceRange
from semel.errors import PlanNotSupported
from semel.spark import checkpoint, notes
from semel.spark.checkpoint import judge_plan
from semel.spark.format import SemelDataSource
from semel.spark.notes import TaskIdentity, leave_note
from semel.spark.options import Connection, SinkOptions
from semel.spark.stream_sink import SemelStreamWriter, TaskMessage
from semel.types import TopicPartition

JVM = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
COUNTED = "CAST(count AS STRING) AS value"


def test_a_checkpoint_with_state_is_seen_wherever_it_is_local(tmp_path: Path) -> None:
    folder = tmp_path / "of a query"
    folder.mkdir()
    assert [judge_plan(each) for each in ("", str(folder), folder.as_uri(), "s3a://b/ck")] == 4 * [None]
    (folder / "state" / "0").mkdir(parents=True)
    for address in (str(folder), folder.as_uri(), f"file:{folder}"):
        refusal = judge_plan(address)
        assert refusal is not None
        assert str(folder) in refusal.evidence or "%20" in address
    assert judge_plan("s3a://b/ck") is None


SINK = SinkOptions(Connection("127.0.0.1:1"), "out", "s")  # nobody is asked: it is refused before
TASK = TaskIdentity("query", "run", 0, 1, 0, 0, 7)
NO_ROWS = pa.record_batch({"value": pa.array([], pa.binary())})


@pytest.fixture
def running(monkeypatch, tmp_path):
    """``running(task)``: what this process is in Spark's eyes."""
    monkeypatch.setattr(notes.tempfile, "gettempdir", lambda: str(tmp_path))

    def as_task(task: TaskIdentity | None) -> None:
        monkeypatch.setattr(notes, "this_task", lambda: task)

    return as_task


@pytest.fixture
def writer():
    found = SemelStreamWriter(SINK, "ck")
    found.ticket = object()
    return found


def test_a_task_behind_a_shuffle_is_known_without_rows(running, writer):
    """The source's tasks of the stage before have left their notes."""
    running(replace(TASK, stage_id=0, task_attempt_id=6))
    leave_note(SourceRange(TopicPartition("in", 0), 0, 5))
    with pytest.raises(PlanNotSupported, match="reads none, while others do: there is a shuffle"):
        writer._attempt(TASK, iter([NO_ROWS]))


def test_a_task_of_a_micro_batch_without_ranges_is_none(running, writer):
    assert writer._attempt(TASK, iter([NO_ROWS])) is None
    running(replace(TASK, task_attempt_id=6))  # another one of its own stage: a union
    leave_note(SourceRange(TopicPartition("in", 0), 0, 5))
    assert writer._attempt(TASK, iter([])) is None


def test_tasks_that_all_read_nothing_are_refused_together(writer):
    """Where the source's tasks have run on other machines; Spark's task for a micro-batch of nothing is alone."""
    without = TaskMessage(writer.ticket, "query", None)
    writer.commit([without], 0)
    with pytest.raises(PlanNotSupported, match="reads none: its source is no topic, or there is a shuffle"):
        writer.commit([without, without], 0)


def test_a_plan_with_state_is_refused_by_its_planner(tmp_path):
    (tmp_path / "state" / "0").mkdir(parents=True)
    with pytest.raises(PlanNotSupported, match="this plan keeps state"):
        pickle.dumps(SemelStreamWriter(SINK, str(tmp_path)))


def test_a_plan_with_state_is_refused_by_its_tasks_where_the_planner_knew_no_checkpoint(
    tmp_path, monkeypatch, writer
):
    (tmp_path / "named" / "state" / "0").mkdir(parents=True)
    monkeypatch.setattr(checkpoint, "_of_this_session", lambda: str(tmp_path))
    for query_name, refused in (("", False), ("other", False), ("named", True)):
        writer.checkpoint, writer.query_name = "", query_name
        if refused:
            with pytest.raises(PlanNotSupported, match="this plan keeps state"):
                writer._attempt(TASK, iter([]))
        else:
            assert writer._attempt(TASK, iter([])) is None


def test_the_whole_result_is_refused_by_its_mode():
    from pyspark.sql.types import BinaryType, StructField, StructType

    source = SemelDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out", "sinkId": "s"})
    schema = StructType([StructField("value", BinaryType())])
    assert source.streamWriter(schema, overwrite=False)
    with pytest.raises(PlanNotSupported, match="output mode complete"):
        source.streamWriter(schema, overwrite=True)


def windowed(frame):
    from pyspark.sql import functions as F

    windows = frame.withWatermark("timestamp", "1 minute").groupBy(F.window("timestamp", "1 minute"))
    return windows.count().selectExpr(COUNTED)


def counted(frame):
    return frame.coalesce(1).groupBy().count().selectExpr(COUNTED)


def distinct(frame):
    return frame.coalesce(1).select("value").dropDuplicates()


def limited(frame):
    return frame.coalesce(1).select("value").limit(3)


@pytest.fixture
def refused(log, stream, spark):
    """``refused(change, mode, checkpoint)``: the text, and that no row was written."""

    def run(change, mode: str, **where: str) -> str:
        source, sink = log.topic("in"), log.topic("out")
        log.write(source, [b"a", b"b", b"b"])
        writer = change(stream(source)).writeStream.format("semel").outputMode(mode).options(**where)
        writer = writer.option("kafka.bootstrap.servers", log.bootstrap).options(topic=sink, sinkId=sink)
        query = writer.trigger(availableNow=True).start()
        with pytest.raises(Exception, match="PlanNotSupported") as stopped:
            query.awaitTermination()
        assert log.values(sink) == []
        assert [each.batchId for each in query.recentProgress] == []
        return str(stopped.value)

    return run


@pytest.fixture
def one_shuffle_partition(spark):
    """Where a plan over one source partition needs no exchange."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", "2")


class TestOnSpark:
    pytestmark = JVM

    def test_an_aggregation_is_refused_before_its_first_window_closes(self, refused, tmp_path):
        """Its tasks had no rows for as long as a window, and so nothing to refuse."""
        refused(windowed, "append", checkpointLocation=str(tmp_path / "ck"))

    @pytest.mark.parametrize("change", [distinct, limited])
    def test_state_without_a_shuffle(self, refused, tmp_path, one_shuffle_partition, change):
        """It took them, and with a lost checkpoint began to count from nothing."""
        text = refused(change, "append", checkpointLocation=str(tmp_path / "ck"))
        assert "this plan keeps state" in text

    def test_state_where_the_session_says_where_checkpoints_are(self, refused, spark, tmp_path):
        spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
        try:
            text = refused(limited, "append", queryName="limited")
        finally:
            spark.conf.unset("spark.sql.streaming.checkpointLocation")
        assert "this plan keeps state" in text

    def test_the_whole_result_is_refused(self, refused, tmp_path, one_shuffle_partition):
        assert "output mode complete" in refused(counted, "complete", checkpointLocation=str(tmp_path / "ck"))

    def test_a_micro_batch_without_ranges_is_none_of_them(self, log, stream, run_to_end, tmp_path):
        source, sink = log.topic("in", 2), log.topic("out")
        for name, frame in (("a", stream(source)), ("b", stream(source).coalesce(1))):
            run_to_end(frame.select("value"), sink, tmp_path / name, f"s-{name}")
        assert log.values(sink) == []
