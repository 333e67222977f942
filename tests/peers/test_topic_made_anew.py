"""What a client remembers of a topic that is deleted and made anew under it; on semel and on Apache Kafka."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

import semel
from semel.client.blocking import Cluster
from semel.errors import BrokerError, DataLoss, NotStored
from semel.types import TopicPartition


def topic_id(cluster: Cluster, topic: str) -> UUID | None:
    return cluster.topic(topic, is_known_to_exist=True).topic_id


def make_anew(cluster: Cluster, topic: str) -> None:
    """Apache Kafka deletes once it has answered: until then the name is taken, or still leads to the old one."""
    before = topic_id(cluster, topic)
    cluster.delete_topics([topic])
    deadline = time.monotonic() + 30
    while True:
        try:
            cluster.create_topics({topic: 1})
            break
        except BrokerError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    while topic_id(cluster, topic) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def send(bootstrap: str, topic: str, first: int, end: int) -> None:
    with semel.Producer(bootstrap) as producer:
        for delivery in [producer.send(topic, value=str(number)) for number in range(first, end)]:
            delivery.result(30)


@pytest.fixture
def cluster(bootstrap: str, topic: str):  # type: ignore[no-untyped-def]
    with Cluster(bootstrap) as cluster:
        cluster.create_topics({topic: 1})
        yield cluster


@pytest.mark.everyday
@pytest.mark.parametrize("length", [30, 10, 3, 0])
def test_a_position_of_the_older_topic_reads_no_row_of_the_new_one(
    bootstrap: str, cluster: Cluster, topic: str, length: int
) -> None:
    tp = TopicPartition(topic, 0)
    send(bootstrap, topic, 0, 10)
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([tp])
        while consumer.position(tp) < 10:
            assert consumer.poll(5)
        make_anew(cluster, topic)
        if length:
            send(bootstrap, topic, 100, 100 + length)
        for _ in range(2):
            with pytest.raises(DataLoss, match=r"all offsets from 10 on .* deleted and made anew"):
                while True:
                    assert not consumer.poll(5)
        with pytest.raises(DataLoss, match="deleted and made anew"):
            consumer.fetch_table(5)
        consumer.seek(tp, 0)
        with pytest.raises(DataLoss, match="deleted and made anew"):
            consumer.commit(f"g-{topic}")
        assert cluster.committed_offsets(f"g-{topic}") == {}
        consumer.assign([tp])
        rows = [] if not length else consumer.poll(5, max_records=100)
        assert [record.value for record in rows] == [b"%d" % n for n in range(100, 100 + len(rows))]
        assert bool(rows) == bool(length)


def test_committed_offsets_go_with_their_topic(bootstrap: str, cluster: Cluster, topic: str) -> None:
    tp, group = TopicPartition(topic, 0), f"g-{topic}"
    send(bootstrap, topic, 0, 10)
    cluster.commit_offsets(group, {tp: 7})
    assert cluster.committed_offsets(group)[tp].offset == 7
    make_anew(cluster, topic)
    deadline = time.monotonic() + 30
    while (
        cluster.committed_offsets(group, [tp])[tp].offset != -1
    ):  # Apache Kafka's coordinator hears of it later
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_producer_goes_on_in_the_new_topic_or_says_that_a_row_is_not_stored(
    bootstrap: str, cluster: Cluster, topic: str
) -> None:
    """Its sequences go on too. What was stored went with the older topic; every row sent since has a definite fate."""
    with semel.Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, value=str(number)).result(30)
        make_anew(cluster, topic)
        stored = {}
        for number in range(100, 110):
            try:
                stored[producer.send(topic, value=str(number)).result(30).offset] = b"%d" % number
            except NotStored:
                continue
    rows = {}
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        end = cluster.list_offsets({TopicPartition(topic, 0): -1})[TopicPartition(topic, 0)].offset
        while consumer.position(TopicPartition(topic, 0)) < end:
            rows |= {record.offset: record.value for record in consumer.poll(5)}
    assert rows == stored
    assert stored
