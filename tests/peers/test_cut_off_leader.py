"""Our client, producer and sink where a leader of Apache Kafka is cut off from its cluster, and not from us."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator
from typing import Final

import pytest
from tests.peers.kafka_cluster import KafkaCluster, Leader
from tests.spark.conftest import forget_clusters
from tests.spark.driving import Driver, numbers

import semel
from semel.client.blocking import Cluster
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_records, encode_batch, scan_batches
from semel.spark.options import Connection, SinkOptions
from semel.spark.sink_log import SinkLog
from semel.types import LATEST_TIMESTAMP, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
TIMEOUT_S: Final = 240.0
TRANSACTIONS: Final = TopicPartition("__transaction_state", 0)
_topic_numbers = itertools.count(1)


@pytest.fixture
def cluster(kafka_cluster: KafkaCluster) -> Iterator[Cluster]:
    with Cluster(kafka_cluster.bootstrap) as client:
        yield client


def new_topic(kafka_cluster: KafkaCluster, cluster: Cluster, *elsewhere: int) -> TopicPartition:
    """The one partition of a new topic, in sync on all brokers, which none of ``elsewhere`` leads."""
    for _ in range(20):
        tp = TopicPartition(f"cut-off-{next(_topic_numbers)}", 0)
        cluster.create_topics({tp.topic: 1}, replication_factor=3)
        if kafka_cluster.leader(tp).node not in elsewhere:
            kafka_cluster.await_whole()
            return tp
    raise AssertionError(f"brokers {elsewhere} lead whatever is made")


def rows_of(cluster: Cluster, tp: TopicPartition, count: int) -> list[bytes | None]:
    """All that it has, once there are so many."""
    rows: list[bytes | None] = []
    give_up_s = time.monotonic() + TIMEOUT_S
    while len(rows) < count:
        assert time.monotonic() < give_up_s, rows
        found = scan_batches(cluster.fetch({tp: 0}, max_wait_ms=100)[tp].records)
        rows = [
            row.value for batch, header in found if not header.is_control for row in decode_records(batch)
        ]
    return rows


def successor(kafka_cluster: KafkaCluster, tp: TopicPartition, first: Leader) -> Leader:
    second = kafka_cluster.await_leader_after(tp, first)
    assert second.node != first.node
    return second


def test_who_knows_the_successor_passes_over_the_leader_of_before(
    kafka_cluster: KafkaCluster, cluster: Cluster
) -> None:
    tp = new_topic(kafka_cluster, cluster)
    first = kafka_cluster.leader(tp)
    with Cluster(kafka_cluster.address(first.node)) as ours:
        assert ours.topic(tp.topic).partitions[0].leader == first.node
        assert ours.produce({tp: encode_batch([Record(0, 0, None, b"0")])})[tp].error_code is ErrorCode.NONE
        kafka_cluster.cut_off_from_controller(first.node)
        second = successor(kafka_cluster, tp, first)
        assert ours.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset == 1, "nobody has told it yet"

        give_up_s = time.monotonic() + TIMEOUT_S
        while ours.inner.leader_epochs.of(tp) < second.leader_epoch:
            assert time.monotonic() < give_up_s
            ours.look_elsewhere([tp.topic])
        assert ours.produce({tp: encode_batch([Record(0, 0, None, b"1")])})[tp].error_code is ErrorCode.NONE
        assert kafka_cluster.leader_by(first.node, tp) == first, "it still names itself"
        for _ in range(4):  # whoever is asked, the leader of before among them
            ours.look_elsewhere([tp.topic])
            assert ours.topic(tp.topic).partitions[0].leader == second.node
            assert ours.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset == 2
        assert rows_of(ours, tp, 2) == [b"0", b"1"]


def test_a_batch_that_only_the_leader_of_before_has_is_not_stored(
    kafka_cluster: KafkaCluster, cluster: Cluster
) -> None:
    tp = new_topic(kafka_cluster, cluster)
    first = kafka_cluster.leader(tp)
    with (
        Cluster(kafka_cluster.address(first.node)) as ours,
        semel.Producer(
            kafka_cluster.address(first.node),
            linger_ms=0,
            request_timeout_ms=3_000,
            delivery_timeout_ms=240_000,
        ) as producer,
    ):
        producer.send(tp.topic, b"0").result(TIMEOUT_S)
        kafka_cluster.isolate(first.node)
        row = producer.send(tp.topic, b"1")
        give_up_s = time.monotonic() + TIMEOUT_S
        while [each.last_sequence for each in ours.describe_producers([tp])[tp]] != [1]:
            assert time.monotonic() < give_up_s
        assert not ours.tells_committed_only
        assert not row.done(), "its leader tells of it, and nobody else has it"
        successor(kafka_cluster, tp, first)
        assert row.result(TIMEOUT_S).offset == 1
        kafka_cluster.heal(first.node)
        kafka_cluster.await_whole()
        assert rows_of(cluster, tp, 2) == [b"0", b"1"]


def test_a_sink_is_taken_over_by_who_knows_the_leader_of_before_only(
    kafka_cluster: KafkaCluster, cluster: Cluster
) -> None:
    cluster.init_producer_id(transactional_id="any")  # which makes the coordinator's topic
    tp = new_topic(kafka_cluster, cluster, kafka_cluster.leader(TRANSACTIONS).node)

    def driver(bootstrap: str) -> Driver:
        forget_clusters()
        return Driver(SinkOptions(Connection(bootstrap, uuid.uuid4().hex), tp.topic, tp.topic))

    started = driver(kafka_cluster.bootstrap)
    started.micro_batch(0, 2, 0)
    ticket = started.plan()
    first = kafka_cluster.leader(tp)
    journal = SinkLog(started.options.connection, tp.topic).partition
    kafka_cluster.cut_off_from_controller(first.node)
    successor(kafka_cluster, tp, first)
    kafka_cluster.leader(journal), kafka_cluster.leader(TRANSACTIONS)
    started.task(ticket, 2, 8, sent=4)  # and dies: its rows are where the successor has them
    assert kafka_cluster.leader_by(first.node, tp) == first

    other = driver(kafka_cluster.address(first.node))
    ticket = other.plan()
    other.decide(ticket, other.task(ticket, 2, 8), 1)
    kafka_cluster.heal(first.node)
    kafka_cluster.await_whole()
    assert rows_of(cluster, tp, 8) == numbers(0, 8)
    forget_clusters()
