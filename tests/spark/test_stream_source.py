"""The streaming source against a log that moves: new topics, lost offsets, aborted rows, limits, groups."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from semel.client.blocking import Cluster
from semel.types import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


def wait_until(condition, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def live(log, tmp_path):
    """``live(frame, topic, sink_id)``: a query that goes on until the test is over."""
    started = []

    def start(frame, topic, sink_id, checkpoint="older"):
        writer = frame.writeStream.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        writer = writer.options(topic=topic, sinkId=sink_id, checkpointLocation=str(tmp_path / checkpoint))
        started.append(writer.trigger(processingTime="0 seconds").start())
        return started[-1]

    yield start
    for query in started:
        query.stop()


def test_a_new_topic_of_the_pattern_is_read_from_its_beginning(log, spark, live):
    first, sink = log.topic("p"), log.topic("out")
    log.write(first, numbers(0, 3))
    reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
    reader = reader.option("subscribePattern", f"{first}.*").option("startingOffsets", "earliest")
    live(reader.load().select("value"), sink, "s-pattern")
    wait_until(lambda: log.values(sink) == numbers(0, 3), "the rows that were there")
    second = f"{first}-too"
    log.cluster.create_topics({second: 1})
    log.cluster.topic(second)
    log.write(second, numbers(5, 9))
    wait_until(lambda: log.values(sink)[-4:] == numbers(5, 9), "the new topic's rows")


def test_two_live_drivers_of_one_sink(log, stream, live):
    """The newer one goes on at the decided ends; the older one stops and says who took over."""
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 5))
    older = live(stream(source).select("value"), sink, "s-two")
    wait_until(lambda: log.values(sink) == numbers(0, 5), "the older driver's rows")
    live(stream(source, startingOffsets="sink:s-two").select("value"), sink, "s-two", "newer")
    wait_until(lambda: len(log.owners("s-two")) == 2, "the newer driver's FENCE")
    log.write(source, numbers(5, 8))
    with pytest.raises(Exception, match="was taken over by process"):
        older.awaitTermination(30)
    wait_until(lambda: log.values(sink) == numbers(0, 8), "the newer driver's rows")


def test_two_queries_of_one_session(log, stream, live):
    """Their planners share pooled processes, so that each query's runs move between them."""
    names = ["s-left", "s-right"]
    topics = {name: (log.topic("in"), log.topic("out")) for name in names}
    for name, (source, sink) in topics.items():
        live(stream(source).select("value"), sink, name, name)
    for turn in range(6):
        for source, _ in topics.values():
            log.write(source, numbers(turn, turn + 1))
        for _, sink in topics.values():
            wait_until(lambda at=(sink, turn + 1): len(log.values(at[0])) == at[1], f"row {turn}")
    assert all(log.values(sink) == numbers(0, 6) for _, sink in topics.values())


def test_retention_takes_rows_before_they_are_read(log, stream, run_to_end, tmp_path):
    source = log.topic("in", **{"segment.bytes": "4096", "retention.bytes": "8192"})
    sink = log.topic("out")
    log.write(source, numbers(0, 10))
    run_to_end(stream(source).select("value"), sink, tmp_path / "ck", "s-loss")
    for first in range(10, 400, 10):
        log.write(source, [number.ljust(100, b".") for number in numbers(first, first + 10)])
    tp = TopicPartition(source, 0)
    wait_until(lambda: log.offset(tp, -2) > 10, "retention")
    log_start = log.offset(tp, -2)
    with pytest.raises(Exception, match=rf"offsets 10 to \d+ of topic '{source}', partition 0 are gone"):
        run_to_end(stream(source).select("value"), sink, tmp_path / "ck", "s-loss")
    frame = stream(source, failOnDataLoss="false").select("value")
    run_to_end(frame, sink, tmp_path / "ck", "s-loss")
    assert [value[:4] for value in log.values(sink)] == numbers(0, 10) + numbers(log_start, 400)


def test_limits_and_the_group_that_is_told(log, stream, run_to_end, tmp_path):
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 100))
    options = {"maxOffsetsPerTrigger": "40", "maxRecordsPerPartition": "15", "commitGroup": f"g-{source}"}
    frame = stream(source, **options).select("value")
    query = run_to_end(frame, sink, tmp_path / "ck", "s-limits")
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [40, 40, 20]
    assert log.values(sink) == numbers(0, 100)
    told = log.cluster.committed_offsets(f"g-{source}")
    assert told[TopicPartition(source, 0)].offset in (80, 100)


def test_too_few_rows_wait(log, stream, live):
    source, sink = log.topic("in"), log.topic("out")
    log.write(source, numbers(0, 1))
    live(stream(source, minOffsetsPerTrigger="5", maxTriggerDelay="1h").select("value"), sink, "s-min")
    wait_until(lambda: log.values(sink) == numbers(0, 1), "the first micro-batch, which does not wait")
    log.write(source, numbers(1, 4))
    log.write(source, numbers(4, 6))
    wait_until(lambda: log.values(sink) == numbers(0, 6), "five rows")


@pytest.mark.kafka
def test_aborted_rows_of_apache_kafka_are_left_out(apache_kafka, spark):
    with Cluster(apache_kafka.bootstrap) as cluster:
        cluster.create_topics({"aborted": 1})
        cluster.topic("aborted")
    producer = Producer({"bootstrap.servers": apache_kafka.bootstrap, "transactional.id": "a"})
    producer.init_transactions(30)
    for turn in range(6):
        producer.begin_transaction()
        for value in numbers(10 * turn, 10 * turn + 10):
            producer.produce("aborted", value)
        producer.flush(30)
        if turn % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)

    def read(isolation: str) -> list[bytes]:
        reader = spark.read.format("semel").option("kafka.bootstrap.servers", apache_kafka.bootstrap)
        frame = reader.options(subscribe="aborted", **{"kafka.isolation.level": isolation}).load()
        return sorted(bytes(row.value) for row in frame.select("value").collect())

    assert read("read_committed") == numbers(0, 10) + numbers(20, 30) + numbers(40, 50)
    assert read("read_uncommitted") == numbers(0, 60)
