"""Requests that are sent together: API, version and fields of each, as ``Wire.send_together`` takes them.

Here is also what only tests of the order do with a connection.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, Final, TypeAlias

from tests.peers.same_as_kafka.wire import Wire, encode_request, records

from semel.record.batch import assemble_batch

Request: TypeAlias = tuple[str, int, dict[str, Any]]
EARLIEST: Final = -2
LATEST: Final = -1


def produce(topic: str, *values: bytes, acks: int = -1) -> Request:
    data = [{"index": 0, "records": records(*values)}]
    return (
        "produce",
        9,
        {"acks": acks, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": data}]},
    )


def produce_rubbish(topic: str, acks: int = -1) -> Request:
    """A batch that is sound but for its records."""
    api, version, fields = produce(topic, b"", acks=acks)
    rubbish = assemble_batch(b"\x77" * 40, record_count=2, last_offset_delta=1)
    fields["topic_data"][0]["partition_data"][0]["records"] = bytes(rubbish)
    return api, version, fields


def list_offsets(topic: str, timestamp: int) -> Request:
    asked = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
    return (
        "list_offsets",
        6,
        {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": asked}]},
    )


def offset(answer: Any) -> int:
    offset = answer.topics[0].partitions[0].offset
    assert isinstance(offset, int)
    return offset


def fetch(topic: str, offset: int, wait_ms: int = 0) -> Request:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    fields = {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return "fetch", 11, fields


def metadata(*topics: str) -> Request:
    asked = [{"name": topic, "topic_id": None} for topic in topics]
    return (
        "metadata",
        12,
        {
            "topics": asked,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    )


def create(topic: str) -> Request:
    asked = {
        "name": topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    return "create_topics", 7, {"topics": [asked], "timeout": 10_000, "validate_only": False}


def delete(topic: str) -> Request:
    return "delete_topics", 6, {"topics": [{"name": topic, "topic_id": None}], "timeout": 10_000}


def delete_records(topic: str, offset: int) -> Request:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    return "delete_records", 2, {"topics": asked, "timeout": 10_000}


def alter_config(topic: str, name: str, value: str) -> Request:
    resource = {
        "resource_type": 2,
        "resource_name": topic,
        "configs": [{"name": name, "config_operation": 0, "value": value}],
    }
    return "incremental_alter_configs", 1, {"resources": [resource], "validate_only": False}


def describe_config(topic: str, name: str) -> Request:
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": [name]}
    return (
        "describe_configs",
        4,
        {"resources": [resource], "include_synonyms": False, "include_documentation": False},
    )


def add_partitions(topic: str, count: int) -> Request:
    asked = {"name": topic, "count": count, "assignments": None}
    return "create_partitions", 3, {"topics": [asked], "timeout": 10_000, "validate_only": False}


def commit(group: str, topic: str, offset: int) -> Request:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    return "offset_commit", 8, fields


def committed(group: str, topic: str) -> Request:
    asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    return "offset_fetch", 8, {"groups": [asked], "require_stable": False}


def send_unanswered(wire: Wire, request: Request) -> None:
    """Send a request that has no answer: Produce with acks=0."""
    wire._socket.sendall(encode_request(*request))


def send_in_pieces(wire: Wire, at: int, first: Request, second: Request) -> None:
    """Send two requests, the second one with a pause after so many of its bytes."""
    data = wire._framed(*first)
    second_data = wire._framed(*second)
    wire._socket.sendall(data + second_data[:at])
    time.sleep(0.002)
    wire._socket.sendall(second_data[at:])


def reset(wire: Wire) -> None:
    """Have what the server still sends refused, once the connection is closed."""
    wire._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def topic_with_rows(wire: Wire, rows: int = 1) -> str:
    """A topic that takes rows for certain: a fresh leader may still refuse the first ones."""
    topic = wire.new_topic()
    give_up_s = time.monotonic() + 30
    while wire.produce(topic, *[b"row"] * rows).error_code.name != "none":
        assert time.monotonic() < give_up_s, f"{topic} takes no rows"
        time.sleep(0.05)
    return topic
