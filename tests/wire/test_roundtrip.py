"""The hand-written messages against kio's generated ones, in every served version and both directions."""

from __future__ import annotations

import struct
import uuid
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from semel.types import RecordError
from semel.wire import fetch, init_producer_id, messages, offset_commit, produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.entity import reader_of
from semel.wire.frames import MalformedMessage

TOPIC_ID = uuid.UUID("c3d5d2b1-7f0d-4b6e-9a61-0123456789ab")


def versions(api_key: ApiKey) -> range:
    served = SERVED[api_key]
    return range(served.version_min, served.version_max + 1)


def kio_read(api_key: ApiKey, version: int, direction: messages.Direction, data: bytes) -> Any:
    entity, size = entity_reader(messages.schema_of(api_key, version, direction))(data, 0)
    assert size == len(data)
    return entity


def kio_write(entity: Any) -> bytes:
    out = BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(part) for part in parts)


def named(version: int, name: str) -> str | uuid.UUID:
    """A topic as Produce names it."""
    return uuid.uuid5(TOPIC_ID, name) if version >= 13 else name


def topic_of(version: int, topic: Any) -> str | uuid.UUID:
    """The same as kio tells it."""
    found = topic.topic_id if version >= 13 else topic.name
    assert isinstance(found, str | uuid.UUID)
    return found


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_produce_request(version: int) -> None:
    a, b = named(version, "a"), named(version, "b")
    request = produce.ProduceRequest(
        "t-1",
        -1,
        30_000,
        [
            produce.ProducePartition(a, 0, memoryview(b"r0")),
            produce.ProducePartition(a, 1, memoryview(b"records of one")),
            produce.ProducePartition(b, 7, None),
        ],
    )
    data = joined(produce.encode_request(version, request))
    seen = kio_read(ApiKey.PRODUCE, version, "request", data)
    assert [
        (topic_of(version, t), p.index, p.records) for t in seen.topic_data for p in t.partition_data
    ] == [
        (a, 0, b"r0"),
        (a, 1, b"records of one"),
        (b, 7, None),
    ]
    assert (seen.transactional_id, seen.acks, seen.timeout) == ("t-1", -1, timedelta(seconds=30))
    assert produce.decode_request(version, data) == request


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_produce_response(version: int) -> None:
    a, b = named(version, "a"), named(version, "b")
    errors = (RecordError(0, "no key"), RecordError(7, None)) if version >= 8 else ()
    results = [
        produce.ProducedPartition(a, 0, 0, 4711, -1, 3 if version >= 5 else -1),
        produce.ProducedPartition(b, 1, 45, -1, -1, -1, "a gap" if version >= 8 else None, errors),
    ]
    data = bytes(produce.encode_response(version, results, 12))
    seen = kio_read(ApiKey.PRODUCE, version, "response", data)
    assert [
        (topic_of(version, t), p.index, p.error_code, p.base_offset)
        for t in seen.responses
        for p in t.partition_responses
    ] == [
        (a, 0, 0, 4711),
        (b, 1, 45, -1),
    ]
    assert produce.decode_response(version, data) == (results, 12)


def committed(version: int, topic: str) -> offset_commit.CommittedTopic:
    leader_epoch = 7 if version >= 6 else -1
    partitions = [
        offset_commit.CommittedPartition(0, 2**40, leader_epoch, "note"),
        offset_commit.CommittedPartition(9, 0, leader_epoch, ""),
    ]
    return offset_commit.CommittedTopic(topic, partitions)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offset_commit_request(version: int) -> None:
    topics = [committed(version, "a"), committed(version, "b")]
    request = offset_commit.OffsetCommitRequest(
        "g", 4, "m", "i" if version >= 7 else None, 60_000 if version <= 4 else -1, topics
    )
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": 4,
        "member_id": "m",
        "group_instance_id": "i",
        "retention_time": 60_000,
        "topics": [
            {
                "name": each.topic,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "committed_offset": one.committed_offset,
                        "committed_leader_epoch": one.leader_epoch,
                        "committed_metadata": one.metadata or None,
                    }
                    for one in each.partitions
                ],
            }
            for each in topics
        ],
    }
    data = messages.encode_request(ApiKey.OFFSET_COMMIT, version, fields)
    assert offset_commit.decode_request(version, data) == request
    for cut in range(len(data)):
        with pytest.raises(MalformedMessage):
            offset_commit.decode_request(version, data[:cut])


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offset_commit_response(version: int) -> None:
    data = bytes(offset_commit.encode_response(version, [("a", [(0, 0), (9, 22)]), ("b", [(1, 3)])]))
    seen = kio_read(ApiKey.OFFSET_COMMIT, version, "response", data)
    assert [
        (topic.name, one.partition_index, int(one.error_code))
        for topic in seen.topics
        for one in topic.partitions
    ] == [("a", 0, 0), ("a", 9, 22), ("b", 1, 3)]


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch_request(version: int) -> None:
    topic: str | uuid.UUID = TOPIC_ID if version >= 13 else "a"
    leader_epoch = 4 if version >= 9 else -1
    last_epoch = 3 if version >= 12 else -1
    request = fetch.FetchRequest(
        500,
        1,
        2**20,
        fetch.READ_COMMITTED,
        [
            fetch.FetchPartition(topic, 0, 99, 1000, leader_epoch, last_epoch),
            fetch.FetchPartition(topic, 3, 2**40, 1001, leader_epoch),
        ],
    )
    data = bytes(fetch.encode_request(version, request))
    seen = kio_read(ApiKey.FETCH, version, "request", data)
    assert [
        (p.partition, p.fetch_offset, p.partition_max_bytes) for t in seen.topics for p in t.partitions
    ] == [
        (0, 99, 1000),
        (3, 2**40, 1001),
    ]
    if version >= 12:
        assert [p.last_fetched_epoch for t in seen.topics for p in t.partitions] == [3, -1]
    assert (seen.max_wait, seen.min_bytes, seen.max_bytes) == (timedelta(milliseconds=500), 1, 2**20)
    assert fetch.decode_request(version, data) == request
    assert fetch.decode_request(version, kio_write(seen)) == request


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch_response(version: int) -> None:
    topic: str | uuid.UUID = TOPIC_ID if version >= 13 else "a"
    log_start_offset = 5 if version >= 5 else -1
    diverging = (2, 2**40) if version >= 12 else None
    response = fetch.FetchResponse(
        [
            fetch.FetchedPartition(topic, 0, 0, 10, 9, log_start_offset, b"records", [(1, 2), (3, 4)]),
            fetch.FetchedPartition(topic, 1, 1, -1, -1, -1, b"", None),
            fetch.FetchedPartition(
                topic, 2, 0, 10, 9, log_start_offset, b"", None, diverging_epoch=diverging
            ),
        ],
        throttle_time_ms=3,
    )
    data = joined(fetch.encode_response(version, response))
    seen = kio_read(ApiKey.FETCH, version, "response", data)
    assert [p.high_watermark for t in seen.responses for p in t.partitions] == [10, -1, 10]
    if diverging is not None:
        told = [p.diverging_epoch for t in seen.responses for p in t.partitions]
        assert [(one.epoch, one.end_offset) for one in told] == [(-1, -1), (-1, -1), diverging]
    assert fetch.decode_response(version, data) == response
    assert fetch.decode_response(version, kio_write(seen)) == response


@pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
def test_init_producer_id(version: int) -> None:
    identity = (17, 3) if version >= 3 else (-1, -1)
    request = init_producer_id.InitProducerIdRequest("x", 60_000, *identity)
    data = bytes(init_producer_id.encode_request(version, request))
    seen = kio_read(ApiKey.INIT_PRODUCER_ID, version, "request", data)
    assert (seen.transactional_id, seen.transaction_timeout) == ("x", timedelta(minutes=1))
    assert init_producer_id.decode_request(version, data) == request
    response = init_producer_id.InitProducerIdResponse(0, 17, 4, 1)
    data = bytes(init_producer_id.encode_response(version, response))
    seen = kio_read(ApiKey.INIT_PRODUCER_ID, version, "response", data)
    assert (seen.error_code, seen.producer_id, seen.producer_epoch) == (0, 17, 4)
    assert init_producer_id.decode_response(version, data) == response


def test_unknown_tags_of_init_producer_id_are_kept_for_the_reader_to_judge() -> None:
    response = init_producer_id.InitProducerIdResponse(0, 1, 2, 0, {9: b"later", 1: b""})
    data = init_producer_id.encode_response(4, response)
    assert init_producer_id.decode_response(4, data) == response


DECODERS = [
    (produce.decode_request, ApiKey.PRODUCE),
    (produce.decode_response, ApiKey.PRODUCE),
    (fetch.decode_request, ApiKey.FETCH),
    (fetch.decode_response, ApiKey.FETCH),
    (init_producer_id.decode_request, ApiKey.INIT_PRODUCER_ID),
    (init_producer_id.decode_response, ApiKey.INIT_PRODUCER_ID),
]


@given(st.data(), st.sampled_from(DECODERS), st.binary(max_size=200))
def test_garbage_raises_one_exception_only(
    data: st.DataObject, decoder: tuple[Any, ApiKey], body: bytes
) -> None:
    decode, api_key = decoder
    version = data.draw(st.sampled_from(versions(api_key)))
    try:
        decode(version, body)
    except MalformedMessage:
        pass


@given(st.data(), st.binary(max_size=120))
def test_garbage_to_kio_raises_one_exception_only(data: st.DataObject, body: bytes) -> None:
    api_key = data.draw(st.sampled_from([key for key in SERVED if key not in (ApiKey.PRODUCE, ApiKey.FETCH)]))
    version = data.draw(st.sampled_from(versions(api_key)))
    direction: Any = data.draw(st.sampled_from(["request", "response"]))
    try:
        (messages.decode_request if direction == "request" else messages.decode_response)(
            api_key, version, body
        )
    except MalformedMessage:
        pass


def test_build_leaves_out_what_the_version_lacks() -> None:
    fields = {
        "throttle_time": 5,
        "error_code": 0,
        "brokers": [{"node_id": 0, "host": "h", "port": 1, "rack": None}],
        "cluster_id": "c",
        "controller_id": 0,
        "topics": [],
    }
    for version in versions(ApiKey.METADATA):
        data = messages.encode_response(ApiKey.METADATA, version, fields)
        seen = messages.decode_response(ApiKey.METADATA, version, data)
        assert seen.brokers[0].host == "h"
        assert messages.field_of(seen, "cluster_id", "absent") == ("c" if version >= 2 else "absent")


@pytest.mark.parametrize("api_key", SERVED)
def test_the_flexible_versions_are_kafkas(api_key: ApiKey) -> None:
    for version in versions(api_key):
        schema = messages.schema_of(api_key, version, "request")
        assert schema.__flexible__ == (version >= SERVED[api_key].flexible_from), (api_key, version)


def test_a_count_of_billions_is_refused_before_anything_is_allocated() -> None:
    """kio's own reader aborts the process here."""
    for body in (struct.pack(">i", 2**31 - 1), struct.pack(">i", -2)):
        with pytest.raises(MalformedMessage):
            messages.decode_request(ApiKey.METADATA, 1, body)
    with pytest.raises(MalformedMessage):
        messages.decode_request(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x0f")


def test_unknown_tagged_fields_are_skipped() -> None:
    data = messages.encode_request(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": []})
    assert data == b"\x01\x00"
    seen = messages.decode_request(ApiKey.DESCRIBE_PRODUCERS, 0, b"\x01\x01\x09\x03abc")
    assert seen.topics == ()


SAMPLES: dict[ApiKey, Any] = {
    ApiKey.METADATA: {
        "topics": [{"name": "a", "topic_id": TOPIC_ID}, {"name": "ü", "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": False,
    },
    ApiKey.LIST_OFFSETS: {
        "replica_id": -1,
        "isolation_level": 1,
        "topics": [{"name": "a", "partitions": [{"partition_index": 3, "timestamp": -2}] * 2}],
        "timeout": 1500,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "v3_and_below_transactional_id": "ü",
        "v3_and_below_producer_id": 2**40,
        "v3_and_below_producer_epoch": 7,
        "v3_and_below_topics": [{"name": "a", "partitions": [0, 1, 2]}, {"name": "b", "partitions": []}],
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        "transactional_id": "ü",
        "producer_id": 2**40,
        "producer_epoch": 7,
        "group_id": "g",
    },
    ApiKey.END_TXN: {"transactional_id": "ü", "producer_id": 2**40, "producer_epoch": 7, "committed": True},
    ApiKey.TXN_OFFSET_COMMIT: {
        "transactional_id": "ü",
        "group_id": "g",
        "producer_id": 2**40,
        "producer_epoch": 7,
        "generation_id": 3,
        "member_id": "m",
        "group_instance_id": None,
        "topics": [
            {
                "name": "a",
                "partitions": [
                    {
                        "partition_index": number,
                        "committed_offset": 2**40,
                        "committed_leader_epoch": 1,
                        "committed_metadata": metadata,
                    }
                    for number, metadata in enumerate(("note", "", None))
                ],
            }
        ],
    },
    ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": ["ü", ""]},
    ApiKey.LIST_TRANSACTIONS: {
        "state_filters": ["Ongoing"],
        "producer_id_filters": [2**40, -1],
        "duration_filter": 5,
        "transactional_id_pattern": None,
    },
    ApiKey.WRITE_TXN_MARKERS: {
        "markers": [
            {
                "producer_id": 2**40,
                "producer_epoch": 7,
                "transaction_result": False,
                "topics": [{"name": "a", "partition_indexes": [0, 1, 2]}],
                "coordinator_epoch": 0,
            }
        ]
    },
}


@pytest.mark.parametrize("api_key", SAMPLES)
def test_our_reader_reads_what_kio_reads(api_key: ApiKey) -> None:
    for version in versions(api_key):
        data = messages.encode_request(api_key, version, SAMPLES[api_key])
        assert messages.decode_request(api_key, version, data) == kio_read(api_key, version, "request", data)


def described(started_ms: int) -> bytes:
    """An answer about one transaction."""
    state = {
        "error_code": 0,
        "transactional_id": "t",
        "transaction_state": "Ongoing",
        "transaction_timeout": 60_000,
        "transaction_start_time": started_ms,
        "producer_id": 7,
        "producer_epoch": 3,
        "topics": [{"topic": "a", "partitions": [0, 1]}],
    }
    return messages.encode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transaction_states": [state]})


def test_our_reader_reads_an_instant_as_kio_does() -> None:
    data = described(1_700_000_000_123)
    seen = messages.decode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, data)
    assert seen == kio_read(ApiKey.DESCRIBE_TRANSACTIONS, 0, "response", data)
    assert seen.transaction_states[0].transaction_start_time.timestamp() == 1_700_000_000.123


def test_no_instant_is_the_one_before_1970() -> None:
    """Which kio refuses, and Apache Kafka sends of a transaction that has not begun."""
    seen = messages.decode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, described(-1))
    assert seen.transaction_states[0].transaction_start_time.timestamp() == -0.001


@pytest.mark.parametrize("started_ms", [2**63 - 1, -(2**63), 10**15])
def test_an_instant_of_no_calendar_is_malformed(started_ms: int) -> None:
    data = described(1_700_000_000_123)
    bad = data.replace(struct.pack(">q", 1_700_000_000_123), struct.pack(">q", started_ms))
    with pytest.raises(MalformedMessage):
        messages.decode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, bad)


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("api_key", SERVED)
def test_every_schema_has_a_reader(api_key: ApiKey, direction: messages.Direction) -> None:
    if api_key in (ApiKey.PRODUCE, ApiKey.FETCH):
        return
    for version in versions(api_key):
        reader_of(messages.schema_of(api_key, version, direction))


def test_dates_are_read() -> None:
    """DescribeTransactions alone has one; -1 stands for none, and any other number is no reason to fail otherwise."""
    schema = messages.schema_of(ApiKey.DESCRIBE_TRANSACTIONS, 0, "response")

    def read(began_ms: int) -> Any:
        state = b"\0\0\x02t\x08Ongoing" + struct.pack(">iqqh", 60_000, began_ms, 7, 1) + b"\x01\0"
        return messages.decode_response(
            ApiKey.DESCRIBE_TRANSACTIONS, 0, memoryview(struct.pack(">i", 0) + b"\x02" + state + b"\0")
        )

    assert isinstance(read(0), schema)
    (item,) = read(1_700_000_000_123).transaction_states
    assert item.transaction_start_time.timestamp() == 1_700_000_000.123
    assert read(-1).transaction_states[0].transaction_start_time.timestamp() == -0.001
    with pytest.raises(MalformedMessage):
        read(2**62)
