"""DescribeLogDirs: the data folder, the size of what lies in it, and the room on its disk (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import Any

from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.schema import partitions_once
from semel.server.outcome import Call
from semel.server.storage.partition import Partition
from semel.types import TopicPartition
from semel.wire.messages import Fields


def handle(broker: Broker, call: Call, request: Any) -> Fields:
    """Of the partitions that are named, or of all; what is not there is left out."""
    if request.topics is None:
        found = list(broker.storage)
    else:
        asked = partitions_once(request.topics, name="topic", number=None)
        named = (TopicPartition(topic, number) for topic, numbers in asked for number in numbers)
        found = [partition for one in named if (partition := broker.storage.find(one)) is not None]
    topics: dict[str, list[Fields]] = {}
    for partition in found:
        topics.setdefault(partition.name.topic, []).append(_describe(partition))
    folder = {
        "log_dir": str(broker.storage.data_dir.absolute()),
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    try:
        total_bytes, usable_bytes = broker.storage.disk_room()
    except OSError:
        return {
            "error_code": ErrorCode.NONE,
            "results": [folder | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}],
        }
    room = {"error_code": ErrorCode.NONE, "total_bytes": total_bytes, "usable_bytes": usable_bytes}
    return {"error_code": ErrorCode.NONE, "results": [folder | room]}


def _describe(partition: Partition) -> Fields:
    return {
        "partition_index": partition.name.partition,
        "partition_size": partition.size_bytes,
        "offset_lag": 0,  # of a copy that another folder takes over: there is none
        "is_future_key": False,
    }
