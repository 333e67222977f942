"""Metadata and DescribeCluster: one broker, at the address that the client dialled, and its topics.

Names of topics that do not exist are created when the client allows it and ``auto.create.topics.enable`` is
on; ids are never created. Topic ids are stable from creation to deletion (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.authorized import ON_CLUSTER, ON_TOPIC, when_asked
from semel.server.handlers.pieces import in_pieces
from semel.server.handlers.schema import once
from semel.server.operation import Steps
from semel.server.outcome import Call
from semel.wire.frames import MalformedMessage
from semel.wire.messages import Fields, field_of

_BY_ID_FROM: Final = 12  # 10 and 11 carry ids, but their answers cannot leave out a name
_BROKERS: Final = 1  # DescribeCluster's endpoint types
_CONTROLLERS: Final = 2
_PARTITIONS_AT_ONCE: Final = 1000  # that a client waits for, about a second
_TOPIC_COST: Final = 5  # a topic's own sync, in partitions


def handle(broker: Broker, call: Call, request: Any) -> Fields | Steps[Fields]:
    wanted = request.topics
    on_topic = when_asked(field_of(request, "include_topic_authorized_operations", False), ON_TOPIC)

    def answer(topics: Iterable[Fields]) -> Fields:
        named = {"topic_authorized_operations": on_topic}
        found = [one if one["name"] is None else {**one, **named} for one in topics]
        return _answer(broker, call, request, found)

    if wanted is None or (call.api_version == 0 and not wanted):
        return answer(_describe(broker, topic) for topic in broker.storage.topics)
    if call.api_version < _BY_ID_FROM and any(item.name is None for item in wanted):
        raise MalformedMessage(f"a topic without a name in version {call.api_version}")  # as Kafka refuses it
    # An id beside a name says nothing here.
    asked = list(once(wanted, lambda item: field_of(item, "topic_id") if item.name is None else item.name))
    may_create = broker.settings.auto_create_topics_enable and bool(
        field_of(request, "allow_auto_topic_creation", True)
    )
    if not may_create or not _missing_names(broker, asked):
        return answer(_find(broker, item, {}) for item in asked)

    async def create_and_answer() -> Fields:
        not_made = await _create_missing(broker, call, asked)
        return answer(_find(broker, item, not_made) for item in asked)

    return create_and_answer()


def _answer(broker: Broker, call: Call, request: Any, topics: Sequence[Fields]) -> Fields:
    address = broker.advertised(call)
    broker_id = broker.settings.broker_id
    return {
        "error_code": ErrorCode.NONE,
        "brokers": [{"node_id": broker_id, "host": address.host, "port": address.port, "rack": None}],
        "cluster_id": broker.cluster_id,
        "controller_id": broker_id,
        "topics": topics,
        "cluster_authorized_operations": when_asked(
            field_of(request, "include_cluster_authorized_operations", False), ON_CLUSTER
        ),
    }


def handle_describe_cluster(broker: Broker, call: Call, request: Any) -> Fields:
    """The cluster as a broker sees it; its controllers, if somebody asks for those, are no endpoint (KIP-919)."""
    endpoint_type = field_of(request, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        known = endpoint_type == _CONTROLLERS
        reason = (
            "there are no controllers to ask, only brokers"
            if known
            else f"no endpoint is of type {endpoint_type}"
        )
        return {
            "error_code": (
                ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            ),
            "error_message": reason,
            "cluster_id": "",
            "brokers": [],
        }
    address = broker.advertised(call)
    broker_id = broker.settings.broker_id
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "endpoint_type": _BROKERS,
        "cluster_authorized_operations": when_asked(
            request.include_cluster_authorized_operations, ON_CLUSTER
        ),
        "cluster_id": broker.cluster_id,
        "controller_id": broker_id,
        "brokers": [
            {
                "broker_id": broker_id,
                "host": address.host,
                "port": address.port,
                "rack": None,
                "is_fenced": False,
            }
        ],
    }


def _missing_names(broker: Broker, asked: Iterable[Any]) -> list[str]:
    topics = broker.storage.topics
    return [item.name for item in asked if item.name is not None and topics.get(item.name) is None]


async def _create_missing(broker: Broker, call: Call, asked: Iterable[Any]) -> dict[str, ErrorCode]:
    """Make the topics that are not there, as many as are made soon; why the others were not made."""
    partition_count = broker.settings.num_partitions
    missing = _missing_names(broker, asked)
    at_once = max(1, _PARTITIONS_AT_ONCE // (partition_count + _TOPIC_COST))

    async def create(name: str) -> Topic | Refused:
        return await broker.create_topic(name, partition_count, {}, call.now_ms)

    made = await in_pieces(missing[:at_once], create)
    # As of a topic in the making: ask again.
    not_made = dict.fromkeys(missing[at_once:], ErrorCode.LEADER_NOT_AVAILABLE)
    refused = zip(missing[:at_once], made, strict=True)
    return not_made | {name: one.error_code for name, one in refused if isinstance(one, Refused)}


def _find(broker: Broker, item: Any, not_made: Mapping[str, ErrorCode]) -> Fields:
    topics, name, topic_id = broker.storage.topics, item.name, field_of(item, "topic_id")
    if name is None:
        by_id = None if topic_id is None else topics.by_id(topic_id)
        if by_id is None:
            return _missing(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _describe(broker, by_id)
    topic = topics.get(name)
    if topic is not None:
        return _describe(broker, topic)
    return _missing(name, None, not_made.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def _missing(name: str | None, topic_id: UUID | None, code: ErrorCode) -> Fields:
    return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}


def _describe(broker: Broker, topic: Topic) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [describe_partition(broker, topic, n) for n in range(topic.partition_count)],
    }


def describe_partition(broker: Broker, topic: Topic, number: int) -> Fields:
    """One partition, as Metadata and DescribeTopicPartitions tell of it."""
    partition = broker.storage.partition(topic.name, number)
    online = partition is not None and partition.is_online
    here = (broker.settings.broker_id,)
    return {
        "error_code": ErrorCode.NONE if online else ErrorCode.KAFKA_STORAGE_ERROR,
        "partition_index": number,
        "leader_id": here[0],
        "leader_epoch": -1 if partition is None else partition.leader_epoch,
        "replica_nodes": here,
        "isr_nodes": here if online else (),
        "offline_replicas": () if online else here,
    }
