"""The sequenced sink end to end: topic to topic, restarts, replays, refusals."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from semel.spark.known_sinks import known_sinks
from semel.spark.sink_log import topic_partition_count

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


@pytest.mark.everyday
def test_two_source_partitions_to_three_in_several_micro_batches_and_again(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in", 2), log.topic("out", 3)
    log.write(source, numbers(0, 30), keys=numbers(0, 30))
    log.write(source, numbers(30, 50), partition=1, keys=numbers(30, 50))
    frame = stream(source, maxOffsetsPerTrigger="20").select("key", "value")
    query = run_to_end(frame, sink, tmp_path / "ck", "s-several")
    assert len(query.recentProgress) >= 3
    assert log.values(sink) == numbers(0, 50)
    log.write(source, numbers(50, 60))
    run_to_end(frame, sink, tmp_path / "ck", "s-several")
    assert log.values(sink) == numbers(0, 60)


def test_a_straight_copy_of_all_the_sources_columns_and_its_replay(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in", 2), log.topic("out", 2)
    log.write(source, numbers(0, 10))
    log.write(source, numbers(10, 15), partition=1)
    frame = stream(source, includeHeaders="true")
    run_to_end(frame, sink, tmp_path / "ck", "s-copy")
    for entry in (tmp_path / "ck" / "commits").glob("*"):
        entry.unlink()
    run_to_end(frame, sink, tmp_path / "ck", "s-copy")
    assert log.values(sink) == numbers(0, 15)


def test_killed_between_the_decision_and_sparks_commit_entry(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 10))
    frame = stream(source).selectExpr("value")
    run_to_end(frame, sink, tmp_path / "ck", "s-replay")
    for entry in (tmp_path / "ck" / "commits").glob("*"):
        entry.unlink()
    run_to_end(frame, sink, tmp_path / "ck", "s-replay")
    assert log.values(sink) == numbers(0, 10)
    log.write(source, numbers(10, 15))
    run_to_end(frame, sink, tmp_path / "ck", "s-replay")
    assert log.values(sink) == numbers(0, 15)


def test_killed_while_spark_wrote_the_first_entry_of_its_checkpoint(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 5))
    offsets = tmp_path / "ck" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.2c8f1a.tmp").write_bytes(b"v1")
    run_to_end(stream(source).selectExpr("value"), sink, tmp_path / "ck", "s-first-entry")
    assert log.values(sink) == numbers(0, 5)


def test_a_restored_checkpoint_with_other_ranges_differs(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in"), log.topic("out")
    frame = stream(source).selectExpr("value")
    log.write(source, numbers(0, 4))
    run_to_end(frame, sink, tmp_path / "ck", "s-restored")
    shutil.copytree(tmp_path / "ck", tmp_path / "saved")
    log.write(source, numbers(4, 8))
    run_to_end(frame, sink, tmp_path / "ck", "s-restored")
    log.write(source, numbers(8, 12))
    with pytest.raises(Exception, match="has decided up to 8"):
        run_to_end(frame, sink, tmp_path / "saved", "s-restored")
    assert log.values(sink) == numbers(0, 8)


@pytest.mark.everyday
def test_a_lost_checkpoint_goes_on_at_the_decided_ends(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in", 2), log.topic("out")
    log.write(source, numbers(0, 6))
    run_to_end(stream(source).selectExpr("value"), sink, tmp_path / "ck", "s-lost")
    log.write(source, numbers(6, 9))
    log.write(source, numbers(9, 12), partition=1)
    frame = stream(source, startingOffsets="sink:s-lost").selectExpr("value")
    run_to_end(frame, sink, tmp_path / "other", "s-lost")
    assert log.values(sink) == numbers(0, 12)


@pytest.mark.everyday
def test_a_failed_task_is_tried_again(log, spark, stream, run_to_end, tmp_path, failing_once):
    source, sink = log.topic("in"), log.topic("out", 2)
    log.write(source, numbers(0, 500))
    marker = tmp_path / "failed"

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        frame = stream(source).select("value").mapInArrow(failing_once(marker), "value binary")
        run_to_end(frame, sink, tmp_path / "ck", "s-retry")
        assert marker.exists()
        assert log.values(sink) == numbers(0, 500)
        log.write(source, numbers(500, 510))
        run_to_end(frame, sink, tmp_path / "ck", "s-retry")
        assert log.values(sink) == numbers(0, 510)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.everyday
@pytest.mark.parametrize(
    "shuffle, says",
    [
        ("repartition", r"reads none, while others do: there is a shuffle .* foreachBatch"),
        ("coalesce", "reads 2"),
    ],
)
def test_a_plan_with_a_shuffle_is_refused(log, stream, run_to_end, tmp_path, shuffle, says):
    source, sink = log.topic("in", 2), f"{log.topic('out')}.missing"
    log.write(source, numbers(0, 10))
    log.write(source, numbers(10, 20), partition=1)
    frame = stream(source).select("value")
    frame = frame.repartition(3) if shuffle == "repartition" else frame.coalesce(1)
    with pytest.raises(Exception, match=says):
        run_to_end(frame, sink, tmp_path / "ck", f"s-{shuffle}")
    if shuffle == "repartition":  # of a coalesce, the first range may be written before the second is met
        assert topic_partition_count(log.cluster, sink) is None
        assert f"s-{shuffle}" not in known_sinks(log.bootstrap)


def test_a_source_that_is_no_topic_is_refused_and_told_of(log, spark, run_to_end, tmp_path):
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "one.csv").write_text("1\n2\n")
    frame = spark.readStream.schema("value string").csv(str(tmp_path / "csv"))
    with pytest.raises(Exception, match=r"its source is no topic.*foreachBatch.*into a topic first"):
        run_to_end(frame, log.topic("out"), tmp_path / "ck", "s-csv")


def test_other_rows_on_replay_are_refused(log, stream, run_to_end, tmp_path):
    """The rows of an undecided micro-batch stand in the log; the changed query gives others."""
    source, sink = log.topic("in"), log.topic("out")
    rows = [number + b"x" * 4000 for number in numbers(0, 300)]  # more than the buffers on the way hold
    log.write(source, rows[:200])
    log.write(source, rows[200:])
    failing = (
        "CASE WHEN CAST(value AS STRING) LIKE '0299%' THEN CAST(raise_error('on purpose') AS BINARY) "
        "ELSE value END AS value"
    )
    frame = stream(source)
    frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        with pytest.raises(Exception, match="on purpose"):
            run_to_end(frame.selectExpr(failing), sink, tmp_path / "ck", "s-changed")
        assert 0 < len(log.values(sink)) < 300
        with pytest.raises(Exception, match="NonDeterministicReplay"):
            changed = frame.selectExpr("CAST(reverse(CAST(value AS STRING)) AS BINARY) AS value")
            run_to_end(changed, sink, tmp_path / "ck", "s-changed")
        run_to_end(frame.selectExpr("value"), sink, tmp_path / "ck", "s-changed")
        assert log.values(sink) == rows
    finally:
        frame.sparkSession.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_progress_reports_the_lag(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 10))
    query = run_to_end(
        stream(source, maxOffsetsPerTrigger="4").select("value"), sink, tmp_path / "ck", "s-lag"
    )
    first = query.recentProgress[0].sources[0]
    assert f'"{source}"' in str(first.latestOffset).replace("'", '"')
    assert log.values(sink) == numbers(0, 10)
    assert Path(tmp_path / "ck" / "offsets").exists()


@pytest.mark.everyday
def test_rows_go_to_the_topics_that_they_name(log, stream, run_to_end, tmp_path):
    """A topic that comes up in a later micro-batch, and a driver killed before Spark's commit entry."""
    source, a, b = log.topic("in", 2), log.topic("a", 2), log.topic("b")
    log.write(source, numbers(0, 20))
    log.write(source, numbers(20, 25), partition=1)
    frame = stream(source).selectExpr(
        "value", f"CASE WHEN CAST(value AS STRING) % 5 = 4 THEN '{b}' ELSE '{a}' END AS topic"
    )
    run_to_end(frame, None, tmp_path / "ck", "s-topics")
    fours = [number for number in numbers(0, 60) if number[-1:] in (b"4", b"9")]
    assert log.values(b) == [number for number in fours if number < b"0025"]
    assert log.values(a) == [number for number in numbers(0, 25) if number not in fours]
    for entry in (tmp_path / "ck" / "commits").glob("*"):
        entry.unlink()
    log.write(source, numbers(25, 60))
    run_to_end(frame, None, tmp_path / "ck", "s-topics")
    assert log.values(b) == fours
    assert log.values(a) == [number for number in numbers(0, 60) if number not in fours]


def test_a_topic_that_no_one_made_is_an_error_that_names_it(log, stream, run_to_end, tmp_path):
    source = log.topic("in")
    log.write(source, numbers(0, 3))
    frame = stream(source).selectExpr("value", "'nowhere' AS topic")
    with pytest.raises(Exception, match="there is no topic 'nowhere'"):
        run_to_end(frame, None, tmp_path / "ck", "s-nowhere")


def test_a_source_topic_made_anew_and_longer(log, stream, run_to_end, tmp_path):
    """The offsets of the checkpoint are of the topic before."""
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 100))
    run_to_end(stream(source).selectExpr("value"), sink, tmp_path / "ck", "s-anew")
    log.cluster.delete_topics([source])
    log.cluster.create_topics({source: 1})
    log.write(source, numbers(1000, 1260))
    with pytest.raises(Exception, match="the topic was deleted and made anew"):
        run_to_end(stream(source).selectExpr("value"), sink, tmp_path / "ck", "s-anew")
    assert log.values(sink) == numbers(0, 100)
    frame = stream(source, failOnDataLoss="false").selectExpr("value")
    run_to_end(frame, sink, tmp_path / "ck", "s-anew")
    assert log.values(sink) == numbers(0, 100) + numbers(1000, 1260)
    run_to_end(stream(source).selectExpr("value"), sink, tmp_path / "ck", "s-anew")
    assert log.values(sink) == numbers(0, 100) + numbers(1000, 1260)
