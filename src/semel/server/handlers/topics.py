"""CreateTopics, DeleteTopics, CreatePartitions: decided in ``core/topics.py``, durable when answered."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import Any

from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.broker_settings import broker_settings
from semel.server.handlers.configs import topic_entries
from semel.server.handlers.room import Room
from semel.server.handlers.schema import once
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of


async def handle_create(broker: Broker, call: Call, request: Any) -> Fields:
    room = Room()
    validate_only = request.validate_only
    named = Counter(item.name for item in request.topics)
    return {
        "topics": [
            await _create(broker, call, item, room, validate_only, _refuse_repeated(named[item.name]))
            for item in once(request.topics, attrgetter("name"))
        ]
    }


def _refuse_repeated(times: int) -> Refused | None:
    """Which of several is meant nobody can know."""
    return Refused(ErrorCode.INVALID_REQUEST, "the topic is named more than once") if times > 1 else None


async def _create(
    broker: Broker, call: Call, item: Any, room: Room, validate_only: bool, refused: Refused | None
) -> Fields:
    asked = len(item.assignments) or item.num_partitions
    partition_count = broker.settings.num_partitions if asked == -1 else asked
    refused = (
        refused or _refuse_replicas(broker, item) or _refuse_configs(item) or room.refusal(partition_count)
    )
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
    room.spend(0 if validate_only else result.partition_count)  # to tell of its settings costs something, too
    return {
        "name": item.name,
        "topic_id": result.topic_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": result.partition_count,
        "replication_factor": 1,
        "configs": topic_entries(broker_settings(broker, call), result),
    }


def _refuse_configs(item: Any) -> Refused | None:
    bare = next((config.name for config in item.configs if config.value is None), None)
    return None if bare is None else Refused(ErrorCode.INVALID_CONFIG, f"{bare} has no value")


def _refuse_replicas(broker: Broker, item: Any) -> Refused | None:
    if item.assignments:
        if item.num_partitions != -1 or item.replication_factor != -1:
            reason = "give either an assignment or counts, not both"
            return Refused(ErrorCode.INVALID_REQUEST, reason)
        if sorted(one.partition_index for one in item.assignments) != list(range(len(item.assignments))):
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be 0, 1, 2 …")
        return _refuse_assignments(broker, item)
    if item.replication_factor not in (-1, 1):
        reason = f"replication factor {item.replication_factor}: there is one broker"
        return Refused(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    return None


def _refuse_assignments(broker: Broker, item: Any) -> Refused | None:
    """Every partition has one replica, and it is here."""
    here = broker.settings.broker_id
    if any(tuple(one.broker_ids) != (here,) for one in item.assignments):
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is one broker, {here}")
    return None


async def handle_delete(broker: Broker, call: Call, request: Any) -> Fields:
    room = Room()
    topics = field_of(request, "topics")
    asked = (
        [(name, None) for name in request.topic_names]
        if topics is None
        else [(item.name, item.topic_id) for item in topics]
    )
    named = Counter(asked)
    return {
        "responses": [
            await _delete(broker, call, room, *one, _refuse_repeated(named[one]))
            for one in once(asked, tuple)
        ]
    }


async def _delete(
    broker: Broker, call: Call, room: Room, name: str | None, topic_id: Any, repeated: Refused | None
) -> Fields:
    topics = broker.storage.topics
    topic = topics.get(name) if name is not None else topics.by_id(topic_id)
    if name is not None and topic_id is not None:
        repeated = Refused(ErrorCode.INVALID_REQUEST, "give either a name or an id, not both")
    if repeated is not None:
        result: Topic | Refused = repeated
    elif topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
        result = Refused(unknown, "there is no such topic")
    else:
        result = room.refusal_of_another() or await broker.delete_topic(topic.name, call.now_ms)
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
    named = Counter(item.name for item in request.topics)
    for item in once(request.topics, attrgetter("name")):
        known = broker.storage.topics.get(item.name)
        added = 0 if known is None else item.count - known.partition_count
        no = _refuse_repeated(named[item.name]) or room.refusal(added)
        if no is None and item.assignments is not None and added > 0:
            counted = len(item.assignments) == added
            wrong = Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} partitions are to be placed")
            no = _refuse_assignments(broker, item) if counted else wrong
        result: Topic | Refused = no or await broker.add_partitions(
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
