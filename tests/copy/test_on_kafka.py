"""Copies from and to a real Apache Kafka: only the addresses change."""

from __future__ import annotations

import contextlib
import time
import uuid

import confluent_kafka
import pytest
from tests.copy.copying import batches, go, plan_of, put, rows, values
from tests.peers.apache_kafka import ApacheKafka
from tests.spark.mortal import Died, die, nothing
from tests.thinning import every

import semel
from semel.errors import ProducerFenced
from semel.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LONG_AGO_MS = 1_600_000_000_000
KEPT = {"retention.ms": "-1"}  # rows of long ago, too


@pytest.fixture
def kafka(apache_kafka):
    return apache_kafka.bootstrap


@pytest.fixture
def log(semel_server_session):
    return semel_server_session.bootstrap


@pytest.fixture
def topic(kafka):
    name = f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(kafka) as admin:
        admin.create_topic(name, 2, KEPT)
    return name


def both_ways(kafka, log, topic):
    """From Apache Kafka to semel, and from there back under another name."""
    return (
        plan_of(kafka, log, topic, name=topic),
        plan_of(log, kafka, topic, name=topic, prefix="back."),
    )


def test_there_and_back(kafka, log, topic):
    for turn in range(3):
        put(kafka, topic, [b"%d-%d" % (turn, n) for n in range(200)], compression="lz4")
        for plan in both_ways(kafka, log, topic):
            go(plan)
    for number in range(2):
        sent = rows(kafka, topic, number)
        assert sent
        assert rows(log, topic, number) == sent
        assert rows(kafka, f"back.{topic}", number) == sent


@pytest.mark.everyday
@pytest.mark.parametrize("step", every(8, range(3, 11), first=1))
def test_killed_at_any_request_there_and_back(kafka, log, topic, step):
    for number, plan in enumerate(both_ways(kafka, log, topic)):
        put(kafka, topic, [b"%d-%d" % (number, n) for n in range(100)])
        with contextlib.suppress(Died):
            go(plan, at=step, before=nothing, after=die)
        put(kafka, topic, [b"more"] * 50)
        go(plan)
    for plan in both_ways(kafka, log, topic):
        go(plan)
    for number in range(2):
        assert rows(kafka, f"back.{topic}", number) == rows(log, topic, number) == rows(kafka, topic, number)


def test_only_committed_rows_come(kafka, log, topic):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka, "transactional.id": topic, "linger.ms": 0, "log_level": 2}
    )
    producer.init_transactions(30)
    plan = plan_of(kafka, log, topic, name=topic)
    for turn, ends in enumerate(["commit", "abort", "commit", "abort", "open"]):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%s-%d-%d" % (ends.encode(), turn, number), partition=0)
        producer.flush(30)
        if ends == "commit":
            producer.commit_transaction(30)
        elif ends == "abort":
            producer.abort_transaction(30)
        go(plan)
    committed = [b"commit-%d-%d" % (turn, number) for turn in (0, 2) for number in range(10)]
    assert values(log, topic) == committed
    assert not any(header.is_transactional for _, header in batches(log, TopicPartition(topic, 0)))
    producer.commit_transaction(30)
    go(plan)
    assert values(log, topic) == committed + [b"open-4-%d" % number for number in range(10)]


def test_a_compacted_topic_goes_on_at_the_right_row(kafka, log):
    """Rows that were copied go away at the source, between a kill and the next copy."""
    name = f"table-{uuid.uuid4().hex[:8]}"
    with semel.Admin(kafka) as admin:
        admin.create_topic(
            name, 1,
            {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
             "min.compaction.lag.ms": "0", "delete.retention.ms": "0"},
        )  # fmt: skip
    for _ in range(20):
        put(kafka, name, [b"old"] * 70)
    plan = plan_of(kafka, log, name, name=name)
    with semel.Admin(log) as admin:
        admin.create_topic(name, 1)  # which keeps all; one that the copy makes is compacted as its source is
    with contextlib.suppress(Died):
        go(plan, at=6, before=nothing, after=die)  # among its rows
    copied = values(log, name)
    assert 0 < len(copied) < 1400
    deadline_s = time.monotonic() + 90
    while len(values(kafka, name)) > 1000:
        assert time.monotonic() < deadline_s, "nothing was compacted"
        put(kafka, name, [b"new"] * 7)
        time.sleep(0.5)
    go(plan)
    stored = values(log, name)
    assert stored[: len(copied)] == copied
    left = {(row["key"], row["value"]) for row in rows(kafka, name)}
    assert {(row["key"], row["value"]) for row in rows(log, name)[-14:]} <= left
    assert stored.count(b"old") <= 1400
    assert go(plan)[0].rows == 0


@pytest.fixture(scope="module")
def forgetful(java_tool, tmp_path_factory):
    """It forgets names and producers within seconds."""
    settings = {
        "transactional.id.expiration.ms": "2000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
        "producer.id.expiration.ms": "2000",
        "producer.id.expiration.check.interval.ms": "200",
    }
    with ApacheKafka(
        java_tool.java, java_tool.jars, tmp_path_factory.mktemp("forgetful"), settings=settings
    ) as node:
        yield node.bootstrap


def long_ago(log, topic, count):
    with semel.Producer(log) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=LONG_AGO_MS + number)


@pytest.mark.parametrize("step", every(2, range(5, 10)))
def test_a_destination_that_forgets_who_wrote(forgetful, log, step):
    """The rows are of long ago, so that it forgets the producer as soon as it has written; and its name, too."""
    name = f"old-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(name, 1, KEPT)
    plan = plan_of(log, forgetful, name, name=name)
    for _ in range(3):
        long_ago(log, name, 20)
    with contextlib.suppress(Died):
        go(plan, at=step, before=nothing, after=die)
    time.sleep(3)
    long_ago(log, name, 5)

    def rest() -> None:
        time.sleep(3)

    with contextlib.suppress(ProducerFenced):
        go(plan, at=step - 1, before=rest, after=nothing)
    go(plan)
    assert values(forgetful, name) == values(log, name)
