"""CreateTopics, DeleteTopics, CreatePartitions: decided in ``core/topics.py``, durable when answered."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.handlers.room import Room
from semel.server.handlers.schema import once
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of

if TYPE_CHECKING:
    from semel.server.broker import Broker


async def handle_create(broker: Broker, call: Call, request: Any) -> Fields:
    room = Room()
    validate_only = request.validate_only
    return {"topics": [await _create(broker, call, item, room, validate_only) for item in request.topics]}


async def _create(broker: Broker, call: Call, item: Any, room: Room, validate_only: bool) -> Fields:
    asked = len(item.assignments) or item.num_partitions
    partition_count = broker.settings.num_partitions if asked == -1 else asked
    refused = _refuse_replicas(item) or room.refusal(partition_count)
    result: Topic | Refused = refused or await broker.create_topic(
        item.name,
        partition_count,
        {config.name: config.value for config in item.configs},
        call.now_ms,
        validate_only=validate_only,
    )
    if isinstance(result, Refused):
        return {
            "name": item.name,
            "topic_id": None,
            "error_code": result.error_code,
            "error_message": result.reason,
            "configs": None,
        }
    if not validate_only:
        room.spend(result.partition_count)
    return {
        "name": item.name,
        "topic_id": result.topic_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": result.partition_count,
        "replication_factor": 1,
        "configs": [
            {
                "name": name,
                "value": value,
                "read_only": False,
                "config_source": 1 if name in result.settings else 5,
                "is_sensitive": False,
            }
            for name, value in broker.storage.topics.describe_config(result).items()
        ],
    }


def _refuse_replicas(item: Any) -> Refused | None:
    if item.assignments:
        if item.num_partitions != -1 or item.replication_factor != -1:
            reason = "give either an assignment or counts, not both"
            return Refused(ErrorCode.INVALID_REQUEST, reason)
        if sorted(one.partition_index for one in item.assignments) != list(range(len(item.assignments))):
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be 0, 1, 2 …")
        if any(len(one.broker_ids) != 1 for one in item.assignments):
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "there is one broker")
    elif item.replication_factor not in (-1, 1):
        reason = f"replication factor {item.replication_factor}: there is one broker"
        return Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    return None


async def handle_delete(broker: Broker, call: Call, request: Any) -> Fields:
    room = Room()
    asked = field_of(request, "topics")
    if asked is None:
        return {"responses": [await _delete(broker, call, room, name, None) for name in request.topic_names]}
    return {"responses": [await _delete(broker, call, room, item.name, item.topic_id) for item in asked]}


async def _delete(broker: Broker, call: Call, room: Room, name: str | None, topic_id: Any) -> Fields:
    topics = broker.storage.topics
    topic = topics.get(name) if name is not None else topics.by_id(topic_id)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
        result: Topic | Refused = Refused(unknown, "there is no such topic")
    else:
        result = room.refusal_to_delete() or await broker.delete_topic(topic.name, call.now_ms)
        if isinstance(result, Topic):
            room.spend(result.partition_count)
    refused = isinstance(result, Refused)
    return {
        "name": name if topic is None else topic.name,
        "topic_id": topic_id if topic is None else topic.topic_id,
        "error_code": result.error_code if isinstance(result, Refused) else ErrorCode.NONE,
        "error_message": result.reason if refused and isinstance(result, Refused) else None,
    }


async def handle_create_partitions(broker: Broker, call: Call, request: Any) -> Fields:
    results = []
    room = Room()
    for item in once(request.topics, attrgetter("name")):
        known = broker.storage.topics.get(item.name)
        added = 0 if known is None else item.count - known.partition_count
        result: Topic | Refused = room.refusal(added) or await broker.add_partitions(
            item.name, item.count, call.now_ms, validate_only=request.validate_only
        )
        refused = result if isinstance(result, Refused) else None
        if refused is None and not request.validate_only:
            room.spend(added)
        results.append(
            {
                "name": item.name,
                "error_code": ErrorCode.NONE if refused is None else refused.error_code,
                "error_message": None if refused is None else refused.reason,
            }
        )
    return {"results": results}
