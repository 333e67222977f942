"""Source and sink on a real Apache Kafka, by the same functions that Spark calls.

Fences are abort markers there too (WriteTxnMarkers), which a cluster with access control grants to those with
ClusterAction only. Kafka answers an old duplicate "out of order": then the driver stops, and its successor
finds the rows.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.spark.driving import SOURCE, Driver, numbers

from semel.client.blocking import Cluster
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.ranges import SourceRange
from semel.core.sink.task import Attempted, TaskReport
from semel.errors import ReplayUnprovable, SinkFenced
from semel.spark.known_sinks import known_sinks, reset_sink
from semel.spark.options import Connection, SinkOptions, source_options
from semel.spark.resuming import resume_ends
from semel.spark.sink_log import SinkLog
from semel.spark.source import SemelReader
from semel.spark.source_offsets import SourceOffsets
from semel.spark.task_write import TaskWrite
from semel.types import LATEST_TIMESTAMP, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.usefixtures("own_caches")]


@pytest.fixture
def kafka_log(apache_kafka, log_of):
    with Cluster(apache_kafka.bootstrap) as cluster:
        yield log_of(apache_kafka.bootstrap, cluster)


@pytest.fixture
def driver(kafka_log):
    """``driver(sink_id, topic)``: a process of its own, as far as caches go."""

    def make(sink_id: str, topic: str):
        options = SinkOptions(Connection(kafka_log.bootstrap, uuid.uuid4().hex), topic, sink_id)
        return Driver(options)

    return make


@pytest.mark.parametrize("sent", [None, 1, 5])
def test_a_driver_killed_before_it_decided(kafka_log, driver, sent):
    topic = kafka_log.topic("out", 2)
    first = driver(topic, topic)
    ticket = first.plan()
    first.decide(ticket, first.task(ticket, 0, 10), 0)
    ticket = first.plan()
    first.task(ticket, 10, 20, sent)
    second = driver(topic, topic)
    ticket = second.plan()
    second.decide(ticket, second.task(ticket, 10, 20), 1)
    ticket = second.plan()
    second.decide(ticket, second.task(ticket, 20, 30), 2)
    assert kafka_log.values(topic) == numbers(0, 30)


def test_a_stage_of_a_flow_with_its_state(kafka_log):
    """Its name has a slash, and so has the transactional id that its driver's identity is asked for by."""
    topic = kafka_log.topic("out", 2)
    sink_id = f"{topic}/fold"

    def stage() -> Driver:
        given = {"plan": "p", "state_plan": "s"}
        return Driver(SinkOptions(Connection(kafka_log.bootstrap, uuid.uuid4().hex), topic, sink_id, **given))

    def with_state(attempted: Attempted) -> Attempted:
        end = attempted.report.source_range.batch_end
        return replace(attempted, report=replace(attempted.report, state=CommittedState(b"%d" % end)))

    first = stage()
    ticket = first.plan()
    first.decide(ticket, with_state(first.task(ticket, 0, 10)), 0)
    first.task(first.plan(), 10, 20, 5)
    second = stage()
    assert resume_ends(second.options.connection, sink_id)[0] == {SOURCE: 10}
    ticket = second.plan()
    assert ticket.state_of(SourceRange(SOURCE, 10, 15)) == CommittedState(b"10")
    second.decide(ticket, with_state(second.task(ticket, 10, 15)), 1)
    assert known_sinks(kafka_log.bootstrap)[sink_id].decision.states == {"in/0/0of1": CommittedState(b"15")}
    reset_sink(kafka_log.bootstrap, sink_id)
    assert resume_ends(second.options.connection, sink_id)[0] == {}


def test_a_zombie_task_and_a_zombie_commit(kafka_log, driver):
    topic = kafka_log.topic("out", 2)
    zombie = driver(topic, topic)
    ticket = zombie.plan()
    zombie.decide(ticket, zombie.task(ticket, 0, 10), 0)
    old_ticket = zombie.plan()
    done = zombie.task(old_ticket, 10, 15)
    newer = driver(topic, topic)
    ticket = newer.plan()
    with pytest.raises(SinkFenced):
        zombie.task(old_ticket, 10, 20)
    with pytest.raises(SinkFenced):
        zombie.decide(old_ticket, done, 1)
    newer.decide(ticket, newer.task(ticket, 10, 15), 1)
    with contextlib.suppress(SinkFenced):
        zombie.plan()
    assert kafka_log.values(topic) == numbers(0, 15)


def test_a_second_attempt_repeats_what_kafka_has_forgotten(kafka_log, driver):
    """It remembers five batches of a producer, and calls the older ones out of order."""
    topic = kafka_log.topic("out")
    writing = driver(topic, topic)
    ticket = writing.plan()
    source_range = SourceRange(SOURCE, 0, 20)
    batches = [pa.record_batch({"value": pa.array([value])}) for value in numbers(0, 20)]

    def attempt(number: int, rows: list[pa.RecordBatch]) -> TaskReport:
        task = TaskWrite(writing.options, ticket, source_range.writer, source_range, number, number, "q")
        report = task.run(iter(rows))
        assert task.duplicates == (number > 0)
        return report

    attempt(0, batches[:12])
    report = attempt(1, batches)
    writing.decide(ticket, Attempted(report, True), 0)
    assert kafka_log.values(topic) == numbers(0, 20)
    ticket = writing.plan()
    writing.decide(ticket, writing.task(ticket, 20, 25), 1)
    assert kafka_log.values(topic) == numbers(0, 25)


def test_a_decided_micro_batch_is_skipped(kafka_log, driver):
    topic = kafka_log.topic("out")
    for _ in range(2):
        each = driver(topic, topic)
        ticket = each.plan()
        each.decide(ticket, each.task(ticket, 0, 10), 0)
    assert kafka_log.values(topic) == numbers(0, 10)


def test_aborted_rows_are_left_out(kafka_log):
    topic = kafka_log.topic("aborted")
    producer = Producer({"bootstrap.servers": kafka_log.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for turn in range(6):
        producer.begin_transaction()
        for value in numbers(10 * turn, 10 * turn + 10):
            producer.produce(topic, value)
        producer.flush(30)
        if turn % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)

    def read(isolation: str) -> list[bytes]:
        given = {"kafka.bootstrap.servers": kafka_log.bootstrap, "subscribe": topic}
        options = source_options(given | {"kafka.isolation.level": isolation}, streaming=False)
        reader = SemelReader(options, ("value",))
        batches = [batch for piece in reader.partitions() for batch in reader.batches(piece.value)]
        return [value for batch in batches for value in batch.column("value").to_pylist()]

    assert read("read_committed") == numbers(0, 10) + numbers(20, 30) + numbers(40, 50)
    assert read("read_uncommitted") == numbers(0, 60)


def test_a_pattern_passes_internal_topics_over(kafka_log):
    topic = kafka_log.topic("pattern")
    kafka_log.cluster.commit_offsets(f"g-{topic}", {TopicPartition(topic, 0): 0})
    SinkLog(Connection(kafka_log.bootstrap), f"s-{topic}").take_over()
    given = {"kafka.bootstrap.servers": kafka_log.bootstrap, "subscribePattern": ".*"}
    read = {tp.topic for tp in SourceOffsets(source_options(given, streaming=False)).partitions()}
    assert topic in read
    assert not any(name.startswith("__") for name in read)


def trim_all(kafka_log, topic: str) -> None:
    """Others write behind the sink's rows, and all that stands there is taken."""
    kafka_log.write(topic, [b"of others"] * 5)
    output = TopicPartition(topic, 0)
    kafka_log.cluster.delete_records({output: kafka_log.offset(output, LATEST_TIMESTAMP)})


def test_others_rows_behind_a_finished_query_are_trimmed(kafka_log, driver):
    """Its leader knows where each writer stood, also of rows that are gone."""
    topic = f"made-{uuid.uuid4().hex[:8]}"  # by the first task
    first = driver(topic, topic)
    ticket = first.plan()
    first.decide(ticket, first.task(ticket, 0, 10), 0)
    trim_all(kafka_log, topic)
    second = driver(topic, topic)
    ticket = second.plan()
    second.decide(ticket, second.task(ticket, 10, 20), 1)
    assert kafka_log.values(topic) == numbers(10, 20)
    second.task(second.plan(), 20, 30, 5)
    trim_all(kafka_log, topic)
    with pytest.raises(ReplayUnprovable):
        driver(topic, topic).plan()
