"""The low-level client and the admin client against a real server."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import semel
from semel import aio
from semel.client.blocking import Cluster
from semel.client.brokers import parse_bootstrap
from semel.client.model import BrokerAddress
from semel.errors import BrokerError, ConfigError, ConnectionLost, ErrorCode
from semel.record.batch import Record, decode_records, encode_batch
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition

OUT = TopicPartition("out", 0)


def batch_of(*values: str, grant: ProducerGrant | None = None, base_sequence: int = -1) -> bytearray:
    rows = [Record(0, 1_000 + number, None, value.encode()) for number, value in enumerate(values)]
    if grant is None:
        return encode_batch(rows)
    return encode_batch(
        rows,
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=base_sequence,
    )


def test_what_is_produced_is_fetched_and_found_by_time(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin, Cluster(semel_server.bootstrap) as cluster:
        admin.create_topic("out", 2)
        produced = cluster.produce({OUT: batch_of("a", "b"), TopicPartition("out", 1): batch_of("c")})
        assert {tp.partition: item.base_offset for tp, item in produced.items()} == {0: 0, 1: 0}
        fetched = cluster.fetch({OUT: 1}, max_wait_ms=10)[OUT]
        assert [row.value for row in decode_records(fetched.records)] == [b"a", b"b"]
        assert (fetched.log_start_offset, fetched.high_watermark, fetched.error_code) == (0, 2, 0)
        by_time = {
            asked: cluster.list_offsets({OUT: asked})[OUT].offset
            for asked in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, 1_001, 5_000)
        }
        assert by_time == {EARLIEST_TIMESTAMP: 0, LATEST_TIMESTAMP: 2, 1_001: 1, 5_000: -1}
        assert cluster.fetch({OUT: 7}, max_wait_ms=10)[OUT].error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_by_the_topics_id_never_reads_another_of_its_name(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin, Cluster(semel_server.bootstrap) as cluster:
        admin.create_topic("out")
        cluster.produce({OUT: batch_of("a")})
        topic_id = cluster.topic("out").topic_id
        assert topic_id is not None
        asked = {"max_wait_ms": 10, "topic_ids": {"out": topic_id}}
        assert [row.value for row in decode_records(cluster.fetch({OUT: 0}, **asked)[OUT].records)] == [b"a"]
        admin.delete_topic("out")
        admin.create_topic("out")
        cluster.produce({OUT: batch_of("b")})
        fetched = cluster.fetch({OUT: 0}, **asked)[OUT]
        assert (fetched.error_code, bytes(fetched.records)) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")
        assert cluster.topic("out").topic_id != topic_id


def test_a_produce_is_one_attempt_whose_answer_is_a_value(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin, Cluster(semel_server.bootstrap) as cluster:
        admin.create_topic("out")
        grant = cluster.init_producer_id()
        first = batch_of("a", grant=grant, base_sequence=0)
        assert cluster.produce({OUT: first})[OUT].base_offset == 0
        again = cluster.produce({OUT: batch_of("a", grant=grant, base_sequence=0)})[OUT]
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
        gap = cluster.produce({OUT: batch_of("c", grant=grant, base_sequence=2)})[OUT]
        assert gap.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        known = cluster.describe_producers([OUT])[OUT]
        assert [(item.producer_id, item.last_sequence) for item in known] == [(grant.producer_id, 0)]


def test_a_fence_shuts_lower_epochs_out(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin, Cluster(semel_server.bootstrap) as cluster:
        admin.create_topic("out")
        grant = cluster.init_producer_id("loader")
        assert cluster.init_producer_id("loader") == ProducerGrant(
            grant.producer_id, grant.producer_epoch + 1
        )
        cluster.produce({OUT: batch_of("a", grant=grant, base_sequence=0)})
        fenced = cluster.write_fence({(grant.producer_id, 5): [OUT]})
        assert fenced == {(grant.producer_id, OUT): ErrorCode.NONE}
        late = cluster.produce({OUT: batch_of("b", grant=grant, base_sequence=1)})[OUT]
        assert late.error_code is ErrorCode.INVALID_PRODUCER_EPOCH
        lower = cluster.write_fence({(grant.producer_id, 4): [OUT]})
        assert lower == {(grant.producer_id, OUT): ErrorCode.INVALID_PRODUCER_EPOCH}


def test_commits_are_kept_with_their_metadata_across_a_crash(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin, Cluster(semel_server.bootstrap) as cluster:
        admin.create_topic("out", 2)
        cluster.commit_offsets("g", {OUT: (5, "note"), TopicPartition("out", 1): 7})
        semel_server.crash()
        semel_server.restart()
        found = cluster.committed_offsets("g")
        assert {tp.partition: (item.offset, item.metadata) for tp, item in found.items()} == {
            0: (5, "note"),
            1: (7, ""),
        }
        assert cluster.committed_offsets("other", [OUT])[OUT].offset == -1


def test_a_consumer_commits_where_it_is_and_begins_there(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        for row in range(10):
            producer.send("out", str(row))
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([OUT])
        assert len(consumer.poll(10, max_records=4)) == 4
        assert consumer.position(OUT) == 4  # of what was taken, not of what was fetched
        consumer.commit("g")
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([OUT])
        consumer.assign(consumer.committed("g"))
        assert [record.offset for record in consumer.poll(10)] == list(range(4, 10))
        consumer.seek(OUT, 8)
        assert [record.offset for record in consumer.poll(10)] == [8, 9]
        consumer.seek(OUT, 0)
        consumer.pause(OUT)
        assert consumer.poll(0.05) == []
        consumer.unpause(OUT)
        assert len(consumer.poll(10)) == 10


def test_a_record_has_all_that_was_sent(semel_server: semel.LocalLog) -> None:
    sent = [(None, None, ()), (b"", b"", (("h", None),)), (b"k", b"v", (("h", b"1"), ("h", b"2")))]
    with semel.Admin(semel_server.bootstrap) as admin, semel.Producer(semel_server.bootstrap) as producer:
        admin.create_topic("out")
        for number, (key, value, headers) in enumerate(sent):
            producer.send("out", value, key, headers=headers, timestamp_ms=5_000 + number)
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([("out", 0)])  # type: ignore[list-item]
        records = consumer.poll(10)
    assert [(record.key, record.value, record.headers) for record in records] == sent
    assert [record.timestamp_ms for record in records] == [5_000, 5_001, 5_002]
    assert [(record.topic, record.partition, record.timestamp_type) for record in records] == [
        ("out", 0, 0)
    ] * 3


def test_the_admin_makes_grows_configures_trims_and_deletes(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        made = admin.create_topic("out", 2, {"retention.ms": "1000000"})
        assert sorted(made.partitions) == [0, 1]
        with pytest.raises(BrokerError, match=r"create topic 'out': TOPIC_ALREADY_EXISTS"):
            admin.create_topic("out")
        assert sorted(admin.add_partitions("out", 4).partitions) == [0, 1, 2, 3]
        with pytest.raises(BrokerError, match="INVALID_PARTITIONS"):
            admin.add_partitions("out", 1)
        entry = admin.describe_configs("out")["retention.ms"]
        assert (entry.value, entry.is_default) == ("1000000", False)
        admin.alter_configs("out", {"retention.ms": None})
        assert admin.describe_configs("out")["retention.ms"].is_default
        with pytest.raises(BrokerError, match="INVALID_CONFIG"):
            admin.alter_configs("out", {"retention.mss": "1"})
        with semel.Producer(semel_server.bootstrap) as producer:
            for row in range(10):
                producer.send("out", str(row), partition=0)
        assert admin.delete_records({OUT: 4}) == {OUT: 4}
        assert admin.list_offsets({OUT: EARLIEST_TIMESTAMP})[OUT].offset == 4
        assert admin.list_topics() == ["out"]
        assert admin.describe_cluster().brokers.keys() == {admin.describe_cluster().controller_id}
        admin.delete_topic("out")
        assert admin.list_topics() == []
        with pytest.raises(BrokerError, match="does not exist"):
            admin.describe_topic("out")


def test_news_of_a_topic_that_is_known_to_exist_is_waited_for(semel_server: semel.LocalLog) -> None:
    with Cluster(semel_server.bootstrap) as cluster, ThreadPoolExecutor(1) as beside:
        found = beside.submit(cluster.topic, "late", is_known_to_exist=True)
        with semel.Admin(semel_server.bootstrap) as admin:
            admin.create_topic("late", 3)
        assert len(found.result().partitions) == 3


def test_a_log_that_is_not_there_is_an_error_in_time() -> None:
    with (
        Cluster("127.0.0.1:1", request_timeout_ms=200) as cluster,
        pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1: .*"),
    ):
        cluster.metadata()


def test_the_second_bootstrap_address_serves_when_the_first_is_dead(semel_server: semel.LocalLog) -> None:
    with Cluster(["127.0.0.1:1", semel_server.bootstrap]) as cluster:
        assert len(cluster.metadata().brokers) == 1


def test_reads_wait_out_a_restart(semel_server: semel.LocalLog) -> None:
    async def work() -> None:
        async with aio.Cluster(semel_server.bootstrap) as cluster:
            await cluster.metadata()
            semel_server.crash()
            asking = asyncio.create_task(cluster.describe_cluster())
            await asyncio.to_thread(semel_server.restart)
            assert len((await asking).brokers) == 1

    asyncio.run(work())


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == [BrokerAddress(-1, "a", 1), BrokerAddress(-1, "::1", 2)]
    assert parse_bootstrap("a,[::1]") == [BrokerAddress(-1, "a", 9092), BrokerAddress(-1, "::1", 9092)]
    for wrong in ("", "a:b", "http://a", ":1", "a:0", "a:65536", []):
        with pytest.raises(ConfigError):
            parse_bootstrap(wrong)


@pytest.mark.parametrize("client", [semel.Producer, semel.Consumer, semel.Admin, Cluster])
def test_security_that_is_not_there_is_refused_not_ignored(client: type) -> None:
    with pytest.raises(ConfigError, match="TLS and SASL are not there yet"):
        client("127.0.0.1:1", security_protocol="SASL_SSL")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (bytes.fromhex("15 03 03 00 02 02 50"), "this port speaks TLS; semel speaks PLAINTEXT only so far"),
        (bytes.fromhex("16 03 01 00 7a 02"), "this port speaks TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this port speaks HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "is not Kafka's protocol"),
    ],
    ids=["alert", "handshake", "http", "ssh"],
)
def test_a_port_that_speaks_another_protocol_is_named_at_once(answer: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(1024)
                accepted.sendall(answer)
                with suppress(ConnectionResetError):
                    accepted.recv(1024)

        with ThreadPoolExecutor(1) as pool, Cluster(f"127.0.0.1:{port}") as cluster:
            served = pool.submit(serve)
            with pytest.raises(ConnectionLost, match=says) as lost:
                cluster.metadata([])
            served.result()
    assert lost.value.not_kafka
