"""Batch writes: any plan, exact under retries, skipped when a named version was decided."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from semel.cli.main import run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
]


@pytest.fixture
def write(log):
    """``write(frame, topic, **options)``."""

    def append(frame, topic, **options):
        writer = frame.write.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        writer = writer.options(**options) if topic is None else writer.options(topic=topic, **options)
        writer.mode("append").save()

    return append


def numbers(spark, count, partitions=2):
    return spark.range(0, count, 1, partitions).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
    )


def as_bytes(count):
    return sorted(b"%d" % number for number in range(count))


@pytest.mark.everyday
def test_rows_of_a_plan_with_a_shuffle(log, spark, write):
    topic = log.topic("out", 3)
    write(numbers(spark, 200).repartition(4), topic)
    assert log.values(topic) == as_bytes(200)
    assert all(record.key == record.value for record in log.read(topic))


def test_a_task_that_fails_half_way_is_tried_again(log, spark, write, tmp_path, failing_once):
    topic, marker = log.topic("out"), tmp_path / "failed"

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        write(numbers(spark, 100, 1).mapInArrow(failing_once(marker), "key string, value string"), topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert marker.exists()
    assert log.values(topic) == as_bytes(100)


@pytest.mark.everyday
def test_a_decided_version_is_skipped(log, spark, write):
    topic = log.topic("out")
    for _ in range(2):
        write(numbers(spark, 10), topic, txnAppId=topic, txnVersion="1")
    assert log.values(topic) == as_bytes(10)
    write(numbers(spark, 10), topic, txnAppId=topic, txnVersion="2")
    assert len(log.values(topic)) == 20


def test_a_frame_that_is_no_log_is_refused(log, spark, write):
    with pytest.raises(Exception, match="needs a column 'value'"):
        write(spark.range(1).withColumnRenamed("id", "key"), log.topic("out"))


@pytest.mark.everyday
def test_a_running_aggregate_through_foreach_batch(log, stream, write, tmp_path):
    """Any plan, and each micro-batch once: the version is the batch id. Replayed after a lost commit entry."""
    source, topic = log.topic("in", 2), log.topic("out")
    log.write(source, [b"v"] * 7, keys=[b"a", b"b", b"a", b"c", b"a", b"b", b"a"])

    def append(batch, batch_id):
        counts = batch.groupBy("key").count().orderBy("key")
        rows = counts.selectExpr("key", "CAST(count AS STRING) AS value")
        write(rows, topic, txnAppId=topic, txnVersion=str(batch_id))

    def run():
        writer = stream(source).writeStream.foreachBatch(append)
        writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(
            availableNow=True
        ).start().awaitTermination()

    run()
    for entry in (tmp_path / "ck" / "commits").glob("*"):
        entry.unlink()
    run()
    assert [(record.key, record.value) for record in log.read(topic)] == [
        (b"a", b"4"),
        (b"b", b"2"),
        (b"c", b"1"),
    ]


@pytest.mark.timeout(300)
def test_a_running_aggregate_in_update_mode_through_foreach_batch(log, stream, write, tmp_path):
    """Spark lets no Python sink be in update mode: this is the way. Replayed after a lost commit entry."""
    source, topic = log.topic("in"), log.topic("out")

    def append(batch, batch_id):
        rows = batch.orderBy("key").selectExpr("key", "CAST(count AS STRING) AS value")
        write(rows, topic, txnAppId=topic, txnVersion=str(batch_id))

    def run():
        counts = stream(source).groupBy("key").count()
        writer = counts.writeStream.outputMode("update").foreachBatch(append)
        writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(
            availableNow=True
        ).start().awaitTermination()

    log.write(source, [b"v"] * 3, keys=[b"a", b"b", b"a"])
    run()
    log.write(source, [b"v"] * 2, keys=[b"b", b"c"])
    run()
    for entry in (tmp_path / "ck" / "commits").glob("*1*"):  # its checksum too
        entry.unlink()
    run()
    found = sorted((record.key, record.value) for record in log.read(topic))
    assert found == [(b"a", b"2"), (b"b", b"1"), (b"b", b"2"), (b"c", b"1")]


def test_the_documented_job_is_proven_also_where_it_counts_the_same_twice(log, stream, tmp_path, capsys):
    """As docs/spark.md has it: two micro-batches that honestly counted the same are no duplicates to an audit."""
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    (job,) = (
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "foreachBatch" in block
    )
    source = log.topic("in")
    log.cluster.create_topics({"counts": 1})
    names = {"frame": stream(source)}
    exec(job.replace("localhost:9092", log.bootstrap).replace("checkpoints/", f"{tmp_path}/"), names)
    query = names["query"]
    try:
        for counted in (2, 4):
            log.write(source, [b"v"] * 3, keys=[b"a", b"b", b"a"])
            until_s = time.monotonic() + 100
            while len(log.values("counts")) < counted:
                assert query.isActive and time.monotonic() < until_s, query.exception()
                time.sleep(0.2)
    finally:
        query.stop()
    assert sorted((record.key, record.value) for record in log.read("counts")) == [
        (b"a", b"2"),
        (b"a", b"2"),
        (b"b", b"1"),
        (b"b", b"1"),
    ]
    assert run(["audit", "--output", "counts", "-b", log.bootstrap]) == 0
    assert "PROVEN: counts holds nothing twice that was sent once" in capsys.readouterr().out


def test_rows_name_their_topics(log, spark, write):
    one, two = log.topic("one", 2), log.topic("two")
    frame = numbers(spark, 10).selectExpr("key", "value", f"IF(value < 4, '{one}', '{two}') AS topic")
    write(frame, None)
    assert (log.values(one), log.values(two)) == (as_bytes(4), as_bytes(10)[4:])


def test_versions_go_one_at_a_time(log, spark, write):
    """A version that fails half-way has to be finished; its rows are met again, not written twice."""
    topic = log.topic("out")
    rows = numbers(spark, 100, 1).selectExpr("key", "rpad(value, 4000, '.') AS value")  # beyond all buffers

    def half(batches):
        for number, batch in enumerate(batches):
            if number == 3:
                raise RuntimeError("on purpose")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        with pytest.raises(Exception, match="on purpose"):
            write(rows.mapInArrow(half, "key string, value string"), topic, txnAppId=topic, txnVersion="1")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert 0 < len(log.values(topic)) < 100
    with pytest.raises(Exception, match="run version 1 again first"):
        write(rows, topic, txnAppId=topic, txnVersion="2")
    write(rows, topic, txnAppId=topic, txnVersion="1")
    assert len(log.values(topic)) == 100
    write(rows, topic, txnAppId=topic, txnVersion="2")
    assert len(log.values(topic)) == 200
