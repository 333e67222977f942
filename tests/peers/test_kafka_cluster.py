"""The harness itself: three brokers that fail, and what one of them answers that does not know it."""

from __future__ import annotations

import itertools
import time
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Confluent
from tests.peers.kafka_cluster import KafkaCluster
from tests.peers.same_as_kafka.wire import Wire

from semel.client.blocking import Cluster
from semel.record.batch import Record, encode_batch
from semel.types import LATEST_TIMESTAMP, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
TIMEOUT_S: Final = 60.0
PRODUCER_ID: Final = 1 << 40
_topic_numbers = itertools.count(1)


@pytest.fixture
def tp(kafka_cluster: KafkaCluster) -> TopicPartition:
    """The one partition of a new topic, in sync on all brokers."""
    name = f"cluster-{next(_topic_numbers)}"
    with Cluster(kafka_cluster.bootstrap) as cluster:
        cluster.create_topics({name: 1}, replication_factor=3)
    kafka_cluster.await_whole()
    return TopicPartition(name, 0)


def produce(address: str, tp: TopicPartition, value: bytes, sequence: int, timeout_ms: int = 30_000) -> str:
    """Write one row with acks=all to this broker, whoever else leads; the name of its error."""
    batch = encode_batch(
        [Record(0, time.time_ns() // 1_000_000, None, value)],
        base_sequence=sequence,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
    )
    asked = [{"name": tp.topic, "partition_data": [{"index": tp.partition, "records": bytes(batch)}]}]
    give_up_s = time.monotonic() + TIMEOUT_S
    with Wire(address, "") as wire:
        while True:
            answer = wire.ask("produce", 9, acks=-1, timeout=timeout_ms, topic_data=asked)
            error = str(answer.responses[0].partition_responses[0].error_code.name)
            # A new leader is named a moment before it serves.
            if error != "not_leader_or_follower" or time.monotonic() > give_up_s:
                return error
            time.sleep(0.05)


def end_by(address: str, tp: TopicPartition, leader_epoch: int = -1) -> Any:
    """What this broker says of the partition's end, to a client that knows of ``leader_epoch``."""
    partition = {
        "partition_index": tp.partition,
        "current_leader_epoch": leader_epoch,
        "timestamp": LATEST_TIMESTAMP,
    }
    with Wire(address, "") as wire:
        asked = [{"name": tp.topic, "partitions": [partition]}]
        return (
            wire.ask("list_offsets", 6, replica_id=-1, isolation_level=0, topics=asked)
            .topics[0]
            .partitions[0]
        )


def last_sequence_by(address: str, tp: TopicPartition) -> int | None:
    """Of our producer, as this broker describes it."""
    with Wire(address, "") as wire:
        asked = [{"name": tp.topic, "partition_indexes": [tp.partition]}]
        found = wire.ask("describe_producers", 0, topics=asked).topics[0].partitions[0]
    assert found.error_code.name == "none", found
    return next(
        (each.last_sequence for each in found.active_producers if each.producer_id == PRODUCER_ID), None
    )


def test_rows_outlive_the_leader_that_took_them(kafka_cluster: KafkaCluster, tp: TopicPartition) -> None:
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap, "enable.idempotence": True})
    producer.produce(tp.topic, b"before")
    assert producer.flush(TIMEOUT_S) == 0
    first = kafka_cluster.leader(tp)
    kafka_cluster.kill(first.node)
    second = kafka_cluster.await_leader_after(tp, first)
    assert second.node != first.node
    producer.produce(tp.topic, b"after")
    assert producer.flush(TIMEOUT_S) == 0

    consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "reader"})
    consumer.assign([Confluent(tp.topic, tp.partition, 0)])
    rows = consumer.consume(2, TIMEOUT_S)
    consumer.close()
    assert [row.value() for row in rows] == [b"before", b"after"]

    kafka_cluster.start(first.node)
    kafka_cluster.await_whole()
    assert kafka_cluster.leader_by(first.node, tp) == second


def test_a_broker_that_is_stopped_hands_over(kafka_cluster: KafkaCluster, tp: TopicPartition) -> None:
    first = kafka_cluster.leader(tp)
    kafka_cluster.stop(first.node)
    assert kafka_cluster.await_leader_after(tp, first).node != first.node


def test_a_leader_that_hears_of_no_other_names_itself_and_answers_a_stale_end(
    kafka_cluster: KafkaCluster, tp: TopicPartition
) -> None:
    first = kafka_cluster.leader(tp)
    assert produce(kafka_cluster.address(first.node), tp, b"0", sequence=0) == "none"
    kafka_cluster.cut_off_from_controller(first.node)
    second = kafka_cluster.await_leader_after(tp, first)
    assert second.node != first.node
    assert produce(kafka_cluster.address(second.node), tp, b"1", sequence=1) == "none"

    old, new = kafka_cluster.address(first.node), kafka_cluster.address(second.node)
    assert kafka_cluster.leader_by(first.node, tp) == first
    assert end_by(old, tp).offset == 1
    assert end_by(old, tp, second.leader_epoch).error_code.name == "unknown_leader_epoch"
    assert end_by(new, tp).offset == 2

    kafka_cluster.heal(first.node)
    kafka_cluster.await_whole()
    assert kafka_cluster.leader_by(first.node, tp) == second
    assert end_by(old, tp).error_code.name == "not_leader_or_follower"


def test_an_isolated_leader_tells_of_a_batch_that_is_lost(
    kafka_cluster: KafkaCluster, tp: TopicPartition
) -> None:
    first = kafka_cluster.leader(tp)
    old = kafka_cluster.address(first.node)
    assert produce(old, tp, b"0", sequence=0) == "none"
    kafka_cluster.isolate(first.node)
    assert produce(old, tp, b"1", sequence=1, timeout_ms=500) == "request_timed_out"
    assert last_sequence_by(old, tp) == 1
    assert end_by(old, tp).offset == 1

    second = kafka_cluster.await_leader_after(tp, first)
    assert last_sequence_by(kafka_cluster.address(second.node), tp) == 0
    kafka_cluster.heal(first.node)
    kafka_cluster.await_whole()
    assert last_sequence_by(old, tp) == 0


def test_a_leader_that_nobody_follows_stays_one_while_it_has_its_controller(
    kafka_cluster: KafkaCluster, tp: TopicPartition
) -> None:
    first = kafka_cluster.leader(tp)
    kafka_cluster.cut_off_from_brokers(first.node)
    refused = {"not_enough_replicas", "not_enough_replicas_after_append"}
    give_up_s = time.monotonic() + TIMEOUT_S
    while produce(kafka_cluster.address(first.node), tp, b"0", sequence=0, timeout_ms=500) not in refused:
        assert time.monotonic() < give_up_s, "it still waits for its followers"
    assert kafka_cluster.leader(tp).node == first.node
