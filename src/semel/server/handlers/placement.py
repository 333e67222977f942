"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments, where one broker has everything.

It leads every partition already, and there is nowhere else for one to go; so nothing is ever changed or under
way, and each request is answered as Apache Kafka answers it when it has one broker.
"""

from __future__ import annotations

from typing import Any, Final

from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.outcome import Call
from semel.wire.messages import Fields, field_of

_PREFERRED, _UNCLEAN = 0, 1  # ElectionType
_NO_LEADER: Final = {
    _PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    _UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}

# The names of what was asked for stand in the request: to repeat them beside every partition would let a small
# request ask for a large answer.
_REASONS: Final = {
    ErrorCode.NONE: None,
    ErrorCode.ELECTION_NOT_NEEDED: "the broker leads it already",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "the partition is offline, and nobody else has it",
    ErrorCode.INVALID_REQUEST: "there is no such election",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "there is one broker, and so one replica",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "nothing is being reassigned",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the partition is offline, and nobody else has it",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
}


def handle_election(broker: Broker, call: Call, request: Any) -> Fields:
    """Preferred (KIP-183) and unclean (KIP-460) elections."""
    election = field_of(request, "election_type", _PREFERRED)
    code = ErrorCode.NONE if election in _NO_LEADER else ErrorCode.INVALID_REQUEST
    asked = request.topic_partitions
    if asked is None:  # of all partitions only those are named for which something was done
        results: list[Fields] = [
            {"topic": topic.name, "partition_result": ()} for topic in broker.storage.topics
        ]
    else:
        results = [
            {
                "topic": item.topic,
                "partition_result": [
                    {"partition_id": number, **_told(_elect(broker, item.topic, number, election))}
                    for number in item.partitions
                ],
            }
            for item in asked
        ]
    return {"error_code": code, "replica_election_results": results}


def _elect(broker: Broker, topic: str, number: int, election: int) -> ErrorCode:
    if election not in _NO_LEADER:
        return ErrorCode.INVALID_REQUEST
    partition = broker.storage.partition(topic, number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.ELECTION_NOT_NEEDED if partition.is_online else _NO_LEADER[election]


def handle_reassign(broker: Broker, call: Call, request: Any) -> Fields:
    """A partition may go to where it is (KIP-455)."""
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "allow_replication_factor_change": field_of(request, "allow_replication_factor_change", True),
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": item.partition_index,
                        **_told(_reassign(broker, topic.name, item.partition_index, item.replicas)),
                    }
                    for item in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def _reassign(broker: Broker, topic: str, number: int, replicas: tuple[int, ...] | None) -> ErrorCode:
    if broker.storage.partition(topic, number) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if replicas is None:  # cancel what is under way
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    if tuple(replicas) != (broker.settings.broker_id,):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return ErrorCode.NONE


def handle_list_reassignments(broker: Broker, call: Call, request: Any) -> Fields:
    """None, whichever are asked for."""
    return {"error_code": ErrorCode.NONE, "error_message": None, "topics": ()}


def _told(code: ErrorCode) -> Fields:
    return {"error_code": code, "error_message": _REASONS[code]}
