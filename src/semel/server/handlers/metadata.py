"""Metadata and DescribeCluster: one broker, at the address that the client dialled, and its topics.

Names of topics that do not exist are created when the client allows it and ``auto.create.topics.enable`` is
on; ids are never created. Topic ids are stable from creation to deletion (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from semel.core.topics import Refused, Topic
from semel.errors import ErrorCode
from semel.server.handlers.schema import once
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of

if TYPE_CHECKING:
    from semel.server.broker import Broker

CREATED_PER_REQUEST_MAX: Final = 16  # each costs a few syncs, and everybody else waits meanwhile


def handle(broker: Broker, call: Call, request: Any) -> Fields:
    wanted = request.topics
    if wanted is None or (call.api_version == 0 and not wanted):
        topics = [_describe(broker, topic) for topic in broker.storage.topics]
    else:
        may_create = broker.settings.auto_create_topics_enable and bool(
            field_of(request, "allow_auto_topic_creation", True)
        )
        topics = _find_all(broker, call, wanted, may_create=may_create)
    address = broker.advertised(call)
    broker_id = broker.settings.broker_id
    return {
        "error_code": ErrorCode.NONE,
        "brokers": [{"node_id": broker_id, "host": address.host, "port": address.port, "rack": None}],
        "cluster_id": broker.cluster_id,
        "controller_id": broker_id,
        "topics": topics,
    }


def handle_describe_cluster(broker: Broker, call: Call, request: Any) -> Fields:
    address = broker.advertised(call)
    broker_id = broker.settings.broker_id
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "endpoint_type": field_of(request, "endpoint_type", 1),
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


def _find_all(broker: Broker, call: Call, wanted: Iterable[Any], *, may_create: bool) -> list[Fields]:
    found = []
    count_before = len(broker.storage.topics)
    for item in once(wanted, lambda item: (item.name, field_of(item, "topic_id"))):
        if not may_create:
            if_missing: ErrorCode | None = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif len(broker.storage.topics) - count_before >= CREATED_PER_REQUEST_MAX:
            if_missing = ErrorCode.LEADER_NOT_AVAILABLE  # as Kafka says of a topic in the making: ask again
        else:
            if_missing = None
        found.append(_find(broker, call, item.name, field_of(item, "topic_id"), if_missing))
    return found


def _find(
    broker: Broker, call: Call, name: str | None, topic_id: UUID | None, if_missing: ErrorCode | None
) -> Fields:
    """The topic, which is created ``if_missing`` is no error."""
    topics = broker.storage.topics
    if name is None:
        by_id = None if topic_id is None else topics.by_id(topic_id)
        if by_id is None:
            return _missing(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _describe(broker, by_id)
    topic = topics.get(name)
    if topic is None and if_missing is None:
        created = broker.create_topic(name, broker.settings.num_partitions, {}, call.now_ms)
        if isinstance(created, Refused):
            return _missing(name, None, created.error_code)
        topic = created
    if topic is None:
        return _missing(name, None, if_missing or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _describe(broker, topic)


def _missing(name: str | None, topic_id: UUID | None, code: ErrorCode) -> Fields:
    # Versions that cannot say null for a name have no topic ids either, so that name is never null there.
    return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}


def _describe(broker: Broker, topic: Topic) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [_describe_partition(broker, topic, n) for n in range(topic.partition_count)],
    }


def _describe_partition(broker: Broker, topic: Topic, number: int) -> Fields:
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
