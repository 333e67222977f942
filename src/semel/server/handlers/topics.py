"""CreateTopics, DeleteTopics, CreatePartitions: decided in ``core/topics.py``, durable when answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.broker_settings import BrokerSetting, broker_settings
from semel.server.handlers.configs import topic_entries
from semel.server.handlers.pieces import in_pieces, refusal_of
from semel.server.handlers.schema import Large, once
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of


async def handle_create(broker: Broker, call: Call, request: Any) -> Large:
    asked = list(once(request.topics, attrgetter("name")))
    named = Counter(item.name for item in request.topics)
    too_many = refusal_of(sum(1 + max(0, _partitions_of(broker, item)) + len(item.configs) for item in asked))
    settings = broker_settings(broker, call)

    async def create(item: Any) -> Fields:
        refused = too_many or _refuse_repeated(named[item.name])
        return await _create(broker, call, item, settings, request.validate_only, refused)

    return Large({"topics": await in_pieces(asked, create)})


def _partitions_of(broker: Broker, item: Any) -> int:
    asked: int = len(item.assignments) or item.num_partitions
    return broker.settings.num_partitions if asked == -1 else asked


def _refuse_repeated(times: int) -> Refused | None:
    """Which of several is meant nobody can know."""
    return Refused(ErrorCode.INVALID_REQUEST, "the topic is named more than once") if times > 1 else None


async def _create(
    broker: Broker,
    call: Call,
    item: Any,
    settings: Mapping[str, BrokerSetting],
    validate_only: bool,
    refused: Refused | None,
) -> Fields:
    refused = refused or _refuse_replicas(broker, item) or _refuse_configs(item)
    result: Topic | Refused = refused or await broker.create_topic(
        item.name,
        _partitions_of(broker, item),
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
    return {
        "name": item.name,
        "topic_id": result.topic_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": result.partition_count,
        "replication_factor": 1,
        "configs": topic_entries(settings, result),
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
    topics = field_of(request, "topics")
    asked = (
        [(name, None) for name in request.topic_names]
        if topics is None
        else [(item.name, item.topic_id) for item in topics]
    )
    named = Counter(asked)
    too_many = refusal_of(len(named))

    async def delete(one: tuple[str | None, Any]) -> Fields:
        return await _delete(broker, call, *one, too_many or _refuse_repeated(named[one]))

    return {"responses": await in_pieces(list(named), delete)}


async def _delete(
    broker: Broker, call: Call, name: str | None, topic_id: Any, repeated: Refused | None
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
        result = await broker.delete_topic(topic.name, call.now_ms)
    refused = isinstance(result, Refused)
    return {
        "name": name if topic is None else topic.name,
        "topic_id": topic_id if topic is None else topic.topic_id,
        "error_code": result.error_code if isinstance(result, Refused) else ErrorCode.NONE,
        "error_message": result.reason if refused and isinstance(result, Refused) else None,
    }


async def handle_create_partitions(broker: Broker, call: Call, request: Any) -> Fields:
    asked = list(once(request.topics, attrgetter("name")))
    named = Counter(item.name for item in request.topics)
    too_many = refusal_of(sum(max(0, _added(broker, item)) for item in asked))

    async def grow(item: Any) -> Fields:
        refused = too_many or _refuse_repeated(named[item.name])
        return await _grow(broker, call, item, request.validate_only, refused)

    return {"results": await in_pieces(asked, grow)}


def _added(broker: Broker, item: Any) -> int:
    known = broker.storage.topics.get(item.name)
    return 0 if known is None else item.count - known.partition_count


async def _grow(
    broker: Broker, call: Call, item: Any, validate_only: bool, refused: Refused | None
) -> Fields:
    added = _added(broker, item)
    if refused is None and item.assignments is not None and added > 0:
        counted = len(item.assignments) == added
        wrong = Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} partitions are to be placed")
        refused = _refuse_assignments(broker, item) if counted else wrong
    result: Topic | Refused = refused or await broker.add_partitions(
        item.name, item.count, call.now_ms, validate_only=validate_only
    )
    refused = result if isinstance(result, Refused) else None
    return {
        "name": item.name,
        "error_code": ErrorCode.NONE if refused is None else refused.error_code,
        "error_message": None if refused is None else refused.reason,
    }
