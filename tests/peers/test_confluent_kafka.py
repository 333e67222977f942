"""librdkafka, through confluent-kafka: what it writes is what it reads, and its admin calls are obeyed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.lost_end import lose_end

import semel

TIMEOUT_S = 30.0

T = TypeVar("T")


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    yield reader
    reader.close()


def create(admin: AdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> list[Message]:
    """Send ``values`` to partition 0 and return the delivery reports, in the order they came."""
    reports: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        reports.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(TIMEOUT_S) == 0
    return reports


def read_to_end(consumer: Consumer, partition: TopicPartition) -> list[Message]:
    """Everything from ``partition.offset`` to the end of the partition."""
    consumer.assign([partition])
    messages: list[Message] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"no answer within {TIMEOUT_S} s after {len(messages)} records"
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            return messages
        else:
            raise AssertionError(error)


def eventually(observe: Callable[[], T], wanted: T) -> T:
    """What ``observe`` gives once it is ``wanted``, or last: Apache Kafka answers before it obeys."""
    give_up_s = time.monotonic() + TIMEOUT_S
    while (seen := observe()) != wanted and time.monotonic() < give_up_s:
        time.sleep(0.02)
    return seen


@pytest.mark.parametrize(
    "codec",
    ["none", "zstd", *(pytest.param(codec, marks=pytest.mark.slow) for codec in ("gzip", "snappy", "lz4"))],
)
def test_an_idempotent_producer_is_read_back_in_order(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str, codec: str
) -> None:
    create(admin, topic)
    values = [b"%d " % number * 20 for number in range(2_000)]
    reports = produce(bootstrap, topic, values, **{"compression.type": codec, "linger.ms": 2})
    assert [report.offset() for report in reports] == list(range(2_000))
    assert [message.value() for message in read_to_end(consumer, TopicPartition(topic, 0, 0))] == values


def test_keys_headers_nulls_and_timestamps_survive(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", b"k", timestamp=1_700_000_000_123, headers=[("h", b"1"), ("h", None)])
    producer.produce(topic, None, "köy".encode(), timestamp=1_700_000_000_124)
    producer.produce(topic, b"", None, timestamp=1_700_000_000_125)
    assert producer.flush(TIMEOUT_S) == 0
    first, tombstone, empty = read_to_end(consumer, TopicPartition(topic, 0, 0))
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", [("h", b"1"), ("h", None)])
    assert first.timestamp()[1] == 1_700_000_000_123
    assert (tombstone.key(), tombstone.value()) == ("köy".encode(), None)
    assert (empty.key(), empty.value()) == (None, b"")


def test_reading_starts_at_any_offset_and_at_any_time(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 7})
    for number in range(100):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + 10 * number)
    assert producer.flush(TIMEOUT_S) == 0
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 100)
    at_time = [TopicPartition(topic, 0, 1_700_000_000_000 + 425)]
    (found,) = consumer.offsets_for_times(at_time, TIMEOUT_S)
    assert found.offset == 43
    assert [m.value() for m in read_to_end(consumer, found)] == [b"%d" % number for number in range(43, 100)]


def test_a_topic_lives_its_life_through_the_admin_client(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    create(admin, topic, 2, **{"retention.ms": "86400000"})
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)

    def partitions() -> list[int]:
        return sorted(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions)

    assert eventually(partitions, [0, 1, 2, 3, 4]) == [0, 1, 2, 3, 4]

    resource = ConfigResource(ResourceType.TOPIC, topic)

    def retention_ms() -> str:
        return str(admin.describe_configs([resource])[resource].result(TIMEOUT_S)["retention.ms"].value)

    assert retention_ms() == "86400000"
    change = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([changed])[changed].result(TIMEOUT_S)
    assert eventually(retention_ms, "3600000") == "3600000"

    produce(bootstrap, topic, [b"x"] * 10)
    partition = TopicPartition(topic, 0)
    admin.delete_records([TopicPartition(topic, 0, 4)])[partition].result(TIMEOUT_S)
    earliest = admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(TIMEOUT_S)
    latest = admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(TIMEOUT_S)
    assert (earliest.offset, latest.offset) == (4, 10)

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert eventually(lambda: topic in admin.list_topics(timeout=TIMEOUT_S).topics, False) is False


def test_what_may_be_done_is_told_and_settings_are_replaced(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 2, **{"retention.ms": "86400000"})
    cluster = admin.describe_cluster(include_authorized_operations=True, request_timeout=TIMEOUT_S).result(
        TIMEOUT_S
    )
    assert AclOperation.ALTER_CONFIGS in cluster.authorized_operations

    def may() -> bool:
        try:
            named = admin.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT_S
            )[topic].result(TIMEOUT_S)
        except KafkaException:  # Apache Kafka's broker need not know it yet
            return False
        return {AclOperation.READ, AclOperation.DELETE} <= set(named.authorized_operations)

    assert eventually(may, True)

    changed = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "1048576"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        admin.alter_configs([changed])[changed].result(TIMEOUT_S)
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def is_set() -> list[tuple[str, str]]:
        found = admin.describe_configs([resource])[resource].result(TIMEOUT_S).values()
        return [
            (one.name, one.value) for one in found if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        ]

    assert eventually(is_set, [("segment.bytes", "1048576")]) == [("segment.bytes", "1048576")]


def test_the_cluster_describes_itself(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller is not None


def test_offsets_are_committed_without_joining_a_group(
    bootstrap: str, admin: AdminClient, consumer: Consumer, topic: str
) -> None:
    create(admin, topic, 2)
    produce(bootstrap, topic, [b"x"] * 10)
    read_to_end(consumer, TopicPartition(topic, 0, OFFSET_BEGINNING))
    consumer.commit(offsets=[TopicPartition(topic, 0, 7, metadata="half-way")], asynchronous=False)
    first, second = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], TIMEOUT_S)
    assert (first.offset, second.offset) == (7, -1001)  # -1001: librdkafka's "none committed"
    assert first.metadata == "half-way"
    request = [ConsumerGroupTopicPartitions("readers", [TopicPartition(topic, 0)])]
    asked = admin.list_consumer_group_offsets(request)["readers"].result(TIMEOUT_S)
    assert asked.topic_partitions[0].offset == 7


def test_a_topic_is_made_by_the_first_record(bootstrap: str, consumer: Consumer, topic: str) -> None:
    produce(bootstrap, topic, [b"first"])
    assert [m.value() for m in read_to_end(consumer, TopicPartition(topic, 0, 0))] == [b"first"]


def test_a_reader_goes_back_to_where_a_log_lost_its_end(
    semel_server_factory: Callable[..., semel.LocalLog],
) -> None:
    """librdkafka asks where the epoch of what it read has ended, once it sees that the leader's has risen."""
    log = semel_server_factory(durability="page-cache")
    for value in (b"a", b"b", b"c", b"d"):
        produce(log.bootstrap, "t", [value])
    reader = Consumer({"bootstrap.servers": log.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        reader.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        assert values_of(reader, 4) == [b"a", b"b", b"c", b"d"]
        lose_end(log, "t", 2)
        for value in (b"u", b"v", b"w"):
            produce(log.bootstrap, "t", [value])
        assert values_of(reader, 3) == [b"u", b"v", b"w"]
    finally:
        reader.close()


def values_of(reader: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    give_up_s = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < give_up_s:
        message = reader.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
    return found
