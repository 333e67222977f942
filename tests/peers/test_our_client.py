"""Our client on both logs: what it says of Apache Kafka's answers is what it says of semel's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.peers.apache_kafka import ApacheKafka

import semel
from semel.client.cluster import Cluster
from semel.errors import BrokerError, NotStored, ProducerFenced
from semel.record.batch import Record, encode_batch
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition, is_leased

ROWS = 2_000


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign({TopicPartition(topic, 0): "earliest"})
        values: list[bytes | None] = []
        while len(values) < count:
            records = consumer.poll(30.0, 500)
            assert records, f"nothing after {len(values)} records"
            values += [record.value for record in records]
        return values


@pytest.mark.everyday
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_deliveries_name_what_is_read_back(bootstrap: str, topic: str, codec: str) -> None:
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, 1)
    values = [b"%d " % row * 10 for row in range(ROWS)]
    with semel.Producer(bootstrap, compression=codec) as producer:
        sent = [producer.send(topic, value, partition=0) for value in values]
        producer.flush(30)
        reports = [delivery.result(0) for delivery in sent]
    assert [report.offset for report in reports] == list(range(ROWS))
    assert [report.sequence for report in reports] == list(range(ROWS))
    assert len({(report.producer_id, report.producer_epoch) for report in reports}) == 1
    assert read(bootstrap, topic, ROWS) == values


@pytest.mark.everyday
def test_rows_to_topics_that_were_made_just_now_are_all_stored(bootstrap: str, topic: str) -> None:
    """A new topic's leaders refuse for a moment, and not all at once.

    Apache Kafka then took a second batch without the first, and its last sequence spoke for both.
    """
    partitions, batches, topics = 4, 8, [f"{topic}-{number}" for number in range(20)]
    with semel.Admin(bootstrap) as admin, semel.Producer(bootstrap, batch_bytes=2_000) as producer:
        for name in topics:
            admin.create_topic(name, partitions)
            for row in range(partitions * batches):
                producer.send(name, b"%d" % row * 1_000, partition=row % partitions)
        producer.flush(60)
        tps = [TopicPartition(name, partition) for name in topics for partition in range(partitions)]
        ends = admin.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP))
    assert {tp: listed.offset for tp, listed in ends.items()} == dict.fromkeys(tps, batches)


def test_the_admin_sees_and_changes_topics(bootstrap: str, topic: str) -> None:
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, 2, {"retention.ms": "86400000"})
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topic(topic, 2)
        assert topic in admin.list_topics()
        assert sorted(admin.describe_topic(topic).partitions) == [0, 1]
        assert admin.describe_configs(topic)["retention.ms"].value == "86400000"
        partition = TopicPartition(topic, 0)
        with semel.Producer(bootstrap) as producer:
            for row in range(10):
                producer.send(topic, b"%d" % row, partition=0)
        admin.delete_records({partition: 4})
        assert admin.list_offsets({partition: EARLIEST_TIMESTAMP})[partition].offset == 4
        assert admin.list_offsets({partition: LATEST_TIMESTAMP})[partition].offset == 10
        admin.delete_topic(topic)


def test_a_second_run_drops_what_the_first_one_stored(bootstrap: str, topic: str, tmp_path: Path) -> None:
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, 1)
    identity = {"identity": f"loader-{topic}", "identity_store": str(tmp_path / "loader.id")}
    first = semel.Producer(bootstrap, **identity)
    for position, row in first.resume(range(ROWS // 2)):
        first.send(topic, b"%d" % row, partition=0, position=position)
    first.flush(30)

    with semel.Producer(bootstrap, compression="lz4", batch_bytes=1_000, **identity) as second:
        for position, row in second.resume(range(ROWS)):
            second.send(topic, b"%d" % row, partition=0, position=position)
        second.flush(30)
        # The first copy still runs, as a paused one would: the second one's epoch shuts it out.
        with pytest.raises(ProducerFenced):
            first.send(topic, b"late", partition=0).result(30)
        first.close()
    assert read(bootstrap, topic, ROWS) == [b"%d" % row for row in range(ROWS)]


def test_position_and_identity_come_back_together_from_an_offset_commit(bootstrap: str, topic: str) -> None:
    source = TopicPartition(f"{topic}-in", 0)
    store = semel.CommittedIdentity(f"loader-{topic}", source)
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(source.topic, 1)
        admin.create_topic(topic, 1)

    def load(count: int) -> semel.Producer:
        producer = semel.Producer(bootstrap, identity=f"loader-{topic}", identity_store=store)
        for position, row in producer.resume(range(count)):
            producer.send(topic, b"%d" % row, position=position)
        producer.flush(30)
        return producer

    first = load(100)
    with semel.Admin(bootstrap) as admin:
        committed = admin.cluster.committed_offsets(f"loader-{topic}", [source])[source]
        assert committed.offset == 100
        assert semel.SavedIdentity.from_text(committed.metadata or "").position == 99
    second = load(250)
    with pytest.raises(ProducerFenced, match="fenced by epoch"):
        first.send(topic, b"late", position=100).result(30)
    first.close()
    second.close()
    assert read(bootstrap, topic, 250) == [b"%d" % row for row in range(250)]


def test_whoever_asks_for_a_lease_may_write(bootstrap: str, topic: str) -> None:
    """Apache Kafka skips the tagged field that asks for it, and gives an id that nobody says the end of."""
    tp = TopicPartition(topic, 0)
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, 1)
        granted = admin.cluster.lease_producer_id([tp])
        is_kafka = isinstance(granted, ProducerGrant)
        grant = granted if isinstance(granted, ProducerGrant) else granted.grant
        assert is_leased(grant.producer_id) != is_kafka
        batch = encode_batch(
            [Record(0, 1_700_000_000_000, None, b"row")],
            producer_id=grant.producer_id,
            producer_epoch=grant.producer_epoch,
            base_sequence=0,
        )
        assert admin.cluster.produce({tp: batch})[tp].base_offset == 0
        (known,) = admin.describe_producers([tp])[tp]
        assert (known.producer_id, known.last_sequence) == (grant.producer_id, 0)
        assert (known.lease_remaining_ms is None) == is_kafka


@pytest.mark.kafka
@pytest.mark.slow
def test_a_producer_that_wants_leases_is_told_that_apache_kafka_has_none(
    apache_kafka: ApacheKafka, topic: str
) -> None:
    """It would be without what it asked for, and nobody would notice."""
    with semel.Admin(apache_kafka.bootstrap) as admin:
        admin.create_topic(topic, 1)
        producer = semel.Producer(apache_kafka.bootstrap, lease=True)
        first = producer.send(topic, b"0", partition=0)
        with pytest.raises(NotStored, match=r"Apache Kafka has none.*leave lease=True out"):
            first.result(30)
        producer.send(topic, b"1", partition=0)
        with pytest.raises(NotStored, match="know of no leases"):
            producer.close()
        tp = TopicPartition(topic, 0)
        assert admin.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset == 0


@pytest.mark.kafka
@pytest.mark.slow
def test_apache_kafka_fences_older_copies_without_an_administrators_right(
    apache_kafka: ApacheKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Kafka keeps WriteTxnMarkers for those who have ClusterAction."""

    async def refused(*_: object, **__: object) -> None:
        raise AssertionError("WriteTxnMarkers was asked for")

    monkeypatch.setattr(Cluster, "write_fence", refused)
    fresh = semel.SavedIdentity(f"loader-{topic}")
    with semel.Producer(apache_kafka.bootstrap, identity=fresh) as older:
        older.send(topic, b"0", position=0).result(30)
        with semel.Producer(apache_kafka.bootstrap, identity=fresh) as newer:
            for position, row in newer.resume(range(3)):
                newer.send(topic, b"%d" % row, position=position)
            newer.flush(30)
            assert newer.rows_dropped == 1
        with pytest.raises(ProducerFenced, match="fenced by epoch"):
            older.send(topic, b"late", position=1).result(30)
    assert read(apache_kafka.bootstrap, topic, 3) == [b"0", b"1", b"2"]
