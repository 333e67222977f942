"""Batch writes: any plan, exact under retries, skipped when a named version was decided."""

from __future__ import annotations

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    # mapInArrow says so of pandas 3, which it runs with
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture
def write(log):
    """``write(frame, topic, **options)``."""

    def append(frame, topic, **options):
        writer = frame.write.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        writer.options(topic=topic, **options).mode("append").save()

    return append


def numbers(spark, count, partitions=2):
    return spark.range(0, count, 1, partitions).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
    )


def as_bytes(count):
    return sorted(b"%d" % number for number in range(count))


def test_rows_of_a_plan_with_a_shuffle(log, spark, write):
    topic = log.topic("out", 3)
    write(numbers(spark, 200).repartition(4), topic)
    assert log.values(topic) == as_bytes(200)
    assert all(record.key == record.value for record in log.read(topic))


def test_a_task_that_fails_half_way_is_tried_again(log, spark, write, tmp_path):
    topic, marker = log.topic("out"), tmp_path / "failed"

    def once(batches):
        for batch in batches:
            yield batch
            if not marker.exists():
                marker.touch()
                raise RuntimeError("once, on purpose")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        write(numbers(spark, 100, 1).mapInArrow(once, "key string, value string"), topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert marker.exists()
    assert log.values(topic) == as_bytes(100)


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
