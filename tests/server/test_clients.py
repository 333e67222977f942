"""Stock clients, unchanged, against a real server: librdkafka, kafka-python, aiokafka."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

with warnings.catch_warnings():  # kafka-python reads its schemas by a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonTopicPartition

COUNT = 500


def produce(bootstrap: str, topic: str, count: int = COUNT, **settings: Any) -> list[int]:
    """The offsets at which ``count`` records came to lie."""
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for n in range(count):
        producer.produce(topic, key=b"k", value=b"%d" % n, on_delivery=delivered)
    assert producer.flush(30) == 0
    return offsets


def consume(bootstrap: str, topic: str, count: int = COUNT, offset: int = 0) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, offset)])
    values: list[bytes | None] = []
    while len(values) < count:
        for message in consumer.consume(count, timeout=10):
            assert message.error() is None, message.error()
            values.append(message.value())
    consumer.close()
    return values


@pytest.mark.slow
@pytest.mark.parametrize("acks", ["all", "1"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_writes_and_reads(lasting_server: Any, codec: str, acks: str) -> None:
    bootstrap, topic = lasting_server.bootstrap, f"{codec}-{acks}"
    settings = {"compression.type": codec, "acks": acks}
    assert produce(bootstrap, topic, **settings) == list(range(COUNT))
    assert consume(bootstrap, topic) == [b"%d" % n for n in range(COUNT)]


def test_librdkafka_with_no_acks_is_stored(server: Any) -> None:
    produce(server.bootstrap, "t", acks="0")
    assert consume(server.bootstrap, "t") == [b"%d" % n for n in range(COUNT)]


def test_librdkafka_is_idempotent(server: Any) -> None:
    offsets = produce(server.bootstrap, "t", **{"enable.idempotence": True, "linger.ms": 0})
    assert offsets == list(range(COUNT))


def test_what_was_acknowledged_survives_kill_and_restart(start_server: Any) -> None:
    server = start_server()
    produce(server.bootstrap, "t")
    server.kill()
    server = start_server()
    assert consume(server.bootstrap, "t") == [b"%d" % n for n in range(COUNT)]
    assert produce(server.bootstrap, "t", 3) == [COUNT, COUNT + 1, COUNT + 2]


@pytest.mark.thorough
def test_page_cache_mode_serves_the_same(start_server: Any) -> None:
    server = start_server("--durability=page-cache")
    produce(server.bootstrap, "t")
    assert server.stop() == 0
    server = start_server("--durability=page-cache")
    assert consume(server.bootstrap, "t") == [b"%d" % n for n in range(COUNT)]


def test_committed_offsets_of_an_assigning_consumer(start_server: Any) -> None:
    server = start_server()
    produce(server.bootstrap, "t", 10)
    settings = {"group.id": "g", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": server.bootstrap, **settings})
    consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
    consumer.close()
    server.stop()
    server = start_server()
    consumer = Consumer({"bootstrap.servers": server.bootstrap, **settings})
    (committed,) = consumer.committed([TopicPartition("t", 0)], timeout=10)
    assert committed.offset == 7
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10) == (0, 10)
    consumer.close()


@pytest.mark.thorough
def test_admin_creates_grows_describes_alters_trims_and_deletes(server: Any) -> None:
    produce(server.bootstrap, "trimmed", 10)
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic("u", 3, config={"retention.ms": "1000"})])["u"].result(10)
    with pytest.raises(KafkaException, match="exists"):
        admin.create_topics([NewTopic("u", 3)])["u"].result(10)
    with pytest.raises(KafkaException, match="replication"):
        admin.create_topics([NewTopic("v", 1, 3)])["v"].result(10)
    admin.create_partitions([NewPartitions("u", 5)])["u"].result(10)
    assert len(admin.list_topics("u", timeout=10).topics["u"].partitions) == 5

    resource = ConfigResource(ResourceType.TOPIC, "u")
    described = admin.describe_configs([resource])[resource].result(10)
    assert described["retention.ms"].value == "1000"
    entry = ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, "u", incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(10)
    assert admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "2000"

    trimmed = TopicPartition("trimmed", 0, 4)
    assert admin.delete_records([trimmed])[trimmed].result(10).low_watermark == 4
    at = TopicPartition("trimmed", 0)
    assert admin.list_offsets({at: OffsetSpec.earliest()})[at].result(10).offset == 4
    assert admin.list_offsets({at: OffsetSpec.latest()})[at].result(10).offset == 10
    assert admin.describe_cluster().result(10).cluster_id
    admin.delete_topics(["u"])["u"].result(10)
    assert "u" not in admin.list_topics(timeout=10).topics


@pytest.mark.thorough
def test_topics_are_not_created_unasked_when_switched_off(start_server: Any) -> None:
    server = start_server("-X", "auto.create.topics.enable=false")
    producer = Producer({"bootstrap.servers": server.bootstrap, "message.timeout.ms": 3000})
    failures: list[Any] = []
    producer.produce("t", b"v", on_delivery=lambda error, message: failures.append(error))
    producer.flush(20)
    assert failures[0] is not None
    assert "t" not in AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=10).topics


@pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")
def test_kafka_python_writes_and_reads(server: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=server.bootstrap, acks="all")
    futures = [producer.send("t", b"%d" % n) for n in range(50)]
    assert [future.get(10).offset for future in futures] == list(range(50))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, group_id="g", enable_auto_commit=False)
    at = PythonTopicPartition("t", 0)
    consumer.assign([at])
    consumer.seek_to_beginning()
    values: list[bytes] = []
    while len(values) < 50:
        values += [record.value for record in consumer.poll(5000).get(at, [])]
    assert values == [b"%d" % n for n in range(50)]
    consumer.commit()
    assert consumer.committed(at) == 50
    consumer.close()


def test_aiokafka_writes_and_reads(server: Any) -> None:
    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=server.bootstrap, enable_idempotence=True) as producer:
            for n in range(20):
                assert (await producer.send_and_wait("t", b"%d" % n)).offset == n
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, auto_offset_reset="earliest")
        consumer.assign([AioTopicPartition("t", 0)])
        await consumer.start()
        assert [(await consumer.getone()).value for _ in range(20)] == [b"%d" % n for n in range(20)]
        await consumer.stop()

    asyncio.run(scenario())


@pytest.mark.thorough
def test_aiokafka_finds_the_end_behind_what_was_acknowledged(server: Any) -> None:
    """It sends with acks=1 unless told otherwise."""

    async def scenario() -> list[int]:
        ends = []
        topic = AioTopicPartition("t", 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap)
        async with AIOKafkaProducer(bootstrap_servers=server.bootstrap) as producer:
            await producer.partitions_for("t")
            await consumer.start()
            for n in range(50):
                assert (await producer.send_and_wait("t", b"%d" % n)).offset == n
                ends.append((await consumer.end_offsets([topic]))[topic])
        await consumer.stop()
        return ends

    assert asyncio.run(scenario()) == list(range(1, 51))


@pytest.mark.thorough
def test_a_waiting_consumer_hears_of_a_record_at_once(server: Any) -> None:
    produce(server.bootstrap, "t", 1)

    async def scenario() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, fetch_max_wait_ms=30_000)
        consumer.assign([AioTopicPartition("t", 0)])
        await consumer.start()
        await consumer.seek_to_end()
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.2)  # let the fetch get there: what is measured is its end
        loop = asyncio.get_running_loop()
        began = loop.time()
        await loop.run_in_executor(None, produce, server.bootstrap, "t", 1)
        assert (await waiting).value == b"0"
        took = loop.time() - began
        await consumer.stop()
        return took

    assert asyncio.run(scenario()) < 5
