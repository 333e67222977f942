"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: questions about, and cuts of, a partition's offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from semel.errors import ErrorCode
from semel.server.handlers.schema import partitions_once
from semel.server.outcome import Call
from semel.server.storage.partition import Partition
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER_EPOCH
from semel.wire.fetch import READ_COMMITTED
from semel.wire.messages import Fields, field_of

if TYPE_CHECKING:
    from semel.server.broker import Broker


def find_partition(
    broker: Broker, topic: str, number: int, asked_epoch: int = NO_LEADER_EPOCH
) -> Partition | ErrorCode:
    """The partition, or why it cannot be asked."""
    partition = broker.storage.partition(topic, number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not partition.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if asked_epoch != NO_LEADER_EPOCH and asked_epoch != partition.leader_epoch:
        older = asked_epoch < partition.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    return partition


def _topics(
    asked: Iterable[tuple[str, list[Any]]], answer: Callable[[str, Any], Fields], name_field: str = "name"
) -> Fields:
    """One ``answer`` for each partition that was asked for, in the order of the request."""
    return {
        "topics": [
            {name_field: name, "partitions": [answer(name, item) for item in items]} for name, items in asked
        ]
    }


def handle_list(broker: Broker, call: Call, request: Any) -> Fields:
    isolation_level = field_of(request, "isolation_level", 0)
    return _topics(
        partitions_once(request.topics), lambda name, item: _list(broker, name, item, isolation_level)
    )


def _list(broker: Broker, topic: str, item: Any, isolation_level: int) -> Fields:
    answer = {
        "partition_index": item.partition_index,
        "error_code": ErrorCode.NONE,
        "timestamp": -1,
        "offset": -1,
        "leader_epoch": NO_LEADER_EPOCH,
    }
    found = find_partition(
        broker, topic, item.partition_index, field_of(item, "current_leader_epoch", NO_LEADER_EPOCH)
    )
    if isinstance(found, ErrorCode):
        return answer | {"error_code": found}
    if item.timestamp == EARLIEST_TIMESTAMP:
        return answer | {"offset": found.log_start_offset, "leader_epoch": found.leader_epoch}
    if item.timestamp == LATEST_TIMESTAMP:
        committed = isolation_level == READ_COMMITTED
        end = found.last_stable_offset if committed else found.high_watermark
        return answer | {"offset": end, "leader_epoch": found.leader_epoch}
    if item.timestamp < 0:
        return answer | {"error_code": ErrorCode.INVALID_REQUEST}
    try:
        place = found.offset_for_timestamp(item.timestamp)
    except OSError:
        return answer | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}
    if place is None:
        return answer
    return answer | {
        "offset": place.offset,
        "timestamp": place.timestamp_ms,
        "leader_epoch": place.leader_epoch,
    }


def handle_leader_epochs(broker: Broker, call: Call, request: Any) -> Fields:
    asked = partitions_once(request.topics, name="topic", number="partition")
    return _topics(asked, lambda name, item: _end_of_epoch(broker, name, item), name_field="topic")


def _end_of_epoch(broker: Broker, topic: str, item: Any) -> Fields:
    found = find_partition(
        broker, topic, item.partition, field_of(item, "current_leader_epoch", NO_LEADER_EPOCH)
    )
    if isinstance(found, ErrorCode):
        return {"error_code": found, "partition": item.partition}
    end = found.end_offset_for_leader_epoch(item.leader_epoch)
    return {
        "error_code": ErrorCode.NONE,
        "partition": item.partition,
        "leader_epoch": end.leader_epoch,
        "end_offset": end.start_offset,
    }


async def handle_delete_records(broker: Broker, call: Call, request: Any) -> Fields:
    asked = partitions_once(request.topics)
    answers = {
        (name, item.partition_index): await _delete(broker, name, item)
        for name, items in asked
        for item in items
    }
    return _topics(asked, lambda name, item: answers[name, item.partition_index])


async def _delete(broker: Broker, topic: str, item: Any) -> Fields:
    found = find_partition(broker, topic, item.partition_index)
    if isinstance(found, Partition) and broker.is_internal(topic):
        found = ErrorCode.INVALID_TOPIC
    code = found if isinstance(found, ErrorCode) else await found.delete_records(item.offset)
    start = found.log_start_offset if isinstance(found, Partition) and code is ErrorCode.NONE else -1
    return {"partition_index": item.partition_index, "low_watermark": start, "error_code": code}
