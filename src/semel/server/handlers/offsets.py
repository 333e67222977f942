"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords: questions about, and cuts of, a partition's offsets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.fetch import isolation_of
from semel.server.handlers.schema import partitions_once
from semel.server.operation import InTurn, Steps, Synced
from semel.server.outcome import Call
from semel.server.storage.outcome import TimestampOffset
from semel.server.storage.partition import Partition
from semel.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
)
from semel.wire.fetch import READ_COMMITTED
from semel.wire.messages import Fields, field_of


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


# Since which version ListOffsets knows a timestamp that is none (``ListOffsetsRequest``).
_SPECIAL_FROM: Final = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}


def handle_list(broker: Broker, call: Call, request: Any) -> Fields | Steps[Fields]:
    """At once, but for the newest record: that may have to be looked for; and for what was acknowledged and cannot be
    seen yet, whose sync is waited for.
    """
    asked = partitions_once(request.topics)
    isolation_level = field_of(request, "isolation_level", 0)
    version = call.api_version
    unseen = [
        partition
        for name, items in asked
        for item in items
        if (partition := broker.storage.partition(name, item.partition_index)) is not None
        and partition.owes_sight
    ]
    if isolation_level == READ_COMMITTED or not unseen:
        return _answer_to_list(broker, asked, isolation_level, version)

    async def list_what_is_acknowledged() -> Fields:
        await Synced(unseen)
        found = _answer_to_list(broker, asked, isolation_level, version)
        return await found if isinstance(found, Coroutine) else found

    return list_what_is_acknowledged()


def _answer_to_list(
    broker: Broker, asked: list[tuple[str, list[Any]]], isolation_level: int, version: int
) -> Fields | Steps[Fields]:
    if version < _SPECIAL_FROM[MAX_TIMESTAMP] or all(
        item.timestamp != MAX_TIMESTAMP for _, items in asked for item in items
    ):
        return _topics(asked, lambda name, item: _list(broker, name, item, version, isolation_level))

    async def find_newest() -> dict[tuple[str, int], Fields]:
        return {
            (name, item.partition_index): (
                await _list_newest(broker, name, item, isolation_level)
                if item.timestamp == MAX_TIMESTAMP
                else _list(broker, name, item, version, isolation_level)
            )
            for name, items in asked
            for item in items
        }

    async def list_in_turn() -> Fields:
        answers = await InTurn(find_newest)
        return _topics(asked, lambda name, item: answers[name, item.partition_index])

    return list_in_turn()


def _found(broker: Broker, topic: str, item: Any) -> tuple[Partition | ErrorCode, dict[str, Any]]:
    """The partition, or why it cannot be asked; and the answer of one that has no such offset."""
    found = find_partition(
        broker, topic, item.partition_index, field_of(item, "current_leader_epoch", NO_LEADER_EPOCH)
    )
    return found, {
        "partition_index": item.partition_index,
        "error_code": found if isinstance(found, ErrorCode) else ErrorCode.NONE,
        "timestamp": NO_TIMESTAMP,
        "offset": -1,
        "leader_epoch": NO_LEADER_EPOCH,
    }


def _list(broker: Broker, topic: str, item: Any, version: int, isolation_level: int) -> Fields:
    timestamp = item.timestamp
    found, answer = _found(broker, topic, item)
    if timestamp < 0 and version < _SPECIAL_FROM.get(timestamp, version + 1):
        return answer | {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    if isinstance(found, ErrorCode) or timestamp == LATEST_TIERED_TIMESTAMP:  # nothing is tiered
        return answer
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        start = found.log_start_offset
        return answer | {"offset": start, "leader_epoch": found.leader_epoch_at(start)}
    if timestamp == LATEST_TIMESTAMP:
        return answer | {"offset": _end_for(found, isolation_level), "leader_epoch": found.leader_epoch}
    try:
        return answer | _told(found.offset_for_timestamp(timestamp, isolation_of(isolation_level)))
    except OSError:
        return answer | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}


def _end_for(partition: Partition, isolation_level: int) -> int:
    """Up to where a consumer of this level reads."""
    committed = isolation_level == READ_COMMITTED
    return partition.last_stable_offset if committed else partition.high_watermark


async def _list_newest(broker: Broker, topic: str, item: Any, isolation_level: int) -> Fields:
    found, answer = _found(broker, topic, item)
    if isinstance(found, ErrorCode):
        return answer
    try:
        newest = await found.newest_record()
        # As ``ReplicaManager.fetchOffset`` has it: the newest record of all, if this reader may see it.
        is_hidden = newest is not None and newest.offset >= _end_for(found, isolation_level)
        return answer | _told(None if is_hidden else newest)
    except OSError:
        return answer | {"error_code": ErrorCode.KAFKA_STORAGE_ERROR}


def _told(place: TimestampOffset | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {
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
    if (
        isinstance(found, Partition) and not found.config.is_deleted
    ):  # as ``Partition.deleteRecordsOnLeader`` has it
        found = ErrorCode.POLICY_VIOLATION
    code = found if isinstance(found, ErrorCode) else await found.delete_records(item.offset)
    start = found.log_start_offset if isinstance(found, Partition) and code is ErrorCode.NONE else -1
    return {"partition_index": item.partition_index, "low_watermark": start, "error_code": code}
