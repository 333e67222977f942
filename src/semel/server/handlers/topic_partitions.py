"""DescribeTopicPartitions: topics by name, some thousand partitions at a time (KIP-966).

An answer ends before the partition that would be one too many, and says in its cursor where the next begins.
"""

from __future__ import annotations

from typing import Any, Final

from semel.core.log.names import topic_name_error
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.authorized import ON_TOPIC
from semel.server.handlers.metadata import describe_partition
from semel.server.outcome import Call
from semel.wire.messages import Fields

PARTITIONS_MAX: Final = 2000  # max.request.partition.size.limit


def handle(broker: Broker, call: Call, request: Any) -> Fields:
    cursor, named = request.cursor, {item.name for item in request.topics}
    begin, first = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if first < 0 or (cursor is not None and named and begin not in named):
        refused: Fields = {"error_code": ErrorCode.INVALID_REQUEST, "topic_id": None, "partitions": []}
        return {"topics": [{"name": name, **refused} for name in sorted(named)], "next_cursor": None}
    wanted = sorted(named) if named else [topic.name for topic in broker.storage.topics]
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    topics: list[Fields] = []
    for name in wanted:
        if name < begin:
            continue
        start = first if name == begin else 0
        if left == 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic, count = _describe(broker, name, start, left)
        topics.append(topic)
        left -= len(topic["partitions"])
        if start + len(topic["partitions"]) < count:
            at = {"topic_name": name, "partition_index": start + len(topic["partitions"])}
            return {"topics": topics, "next_cursor": at}
    return {"topics": topics, "next_cursor": None}


def _describe(broker: Broker, name: str, start: int, partitions_max: int) -> tuple[Fields, int]:
    """A topic with as many of its partitions as may be, and how many it has."""
    topic = broker.storage.topics.get(name)
    described = {"name": name, "topic_authorized_operations": ON_TOPIC}
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_name_error(name) is not None:
            code = ErrorCode.INVALID_TOPIC
        return described | {"error_code": code, "topic_id": None, "partitions": []}, 0
    end = min(topic.partition_count, start + partitions_max)
    elsewhere = {"eligible_leader_replicas": (), "last_known_elr": ()}
    found = {
        "error_code": ErrorCode.NONE,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [{**describe_partition(broker, topic, n), **elsewhere} for n in range(start, end)],
    }
    return described | found, topic.partition_count
