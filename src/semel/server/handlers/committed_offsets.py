"""OffsetCommit and OffsetFetch, for consumers that assign their partitions themselves.

There are no members, so a commit that names one is refused as by a group that does not know it
(``core/group.py``). A commit is answered once it is durable; a fetch sees what was decided, which is at most
one sync ahead of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

from semel.core.group import CommitOffsets, CommittedOffset
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.handlers.schema import once, partitions_once
from semel.server.operation import Synced
from semel.server.outcome import Call
from semel.types import NO_LEADER_EPOCH, TopicPartition
from semel.wire.messages import Fields, field_of

_NONE_COMMITTED: Final = CommittedOffset(-1)
_GROUPS_FROM: Final = 8


async def handle_commit(broker: Broker, call: Call, request: Any) -> Fields:
    named = [
        (TopicPartition(topic.name, item.partition_index), item)
        for topic in request.topics
        for item in topic.partitions
    ]
    storage = broker.storage
    known = [(name, item) for name, item in named if storage.partition(*name) is not None]
    generation_id = field_of(request, "generation_id_or_member_epoch")
    commit = CommitOffsets(
        request.group_id,
        [
            (
                name,
                item.committed_offset,
                field_of(item, "committed_leader_epoch", NO_LEADER_EPOCH),
                item.committed_metadata or "",
            )
            for name, item in known
        ],
        NO_LEADER_EPOCH if generation_id is None else generation_id,
        field_of(request, "member_id", ""),
    )
    submitted = storage.commit_offsets(commit, now_ms=call.now_ms)
    partition = storage.group_log.partition

    await Synced((partition,))
    durable = submitted.error_message is None and partition.high_watermark >= submitted.sync_offset
    if not durable:
        broker.note_storage_error(partition, submitted.error_message or partition.offline_reason)
    codes = submitted.response

    def code_of(name: TopicPartition) -> ErrorCode:
        code = codes.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Kafka's clients do not expect a storage error here; this one makes them ask again.
        return code if durable or code is not ErrorCode.NONE else ErrorCode.COORDINATOR_NOT_AVAILABLE

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": item.partition_index,
                        "error_code": code_of(TopicPartition(topic.name, item.partition_index)),
                    }
                    for item in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def handle_fetch(broker: Broker, call: Call, request: Any) -> Fields:
    if call.api_version >= _GROUPS_FROM:
        return {
            "groups": [
                {
                    "group_id": group.group_id,
                    "error_code": ErrorCode.NONE,
                    "topics": _committed(broker, group.group_id, group.topics),
                }
                for group in once(request.groups, attrgetter("group_id"))
            ]
        }
    return {"error_code": ErrorCode.NONE, "topics": _committed(broker, request.group_id, request.topics)}


def _committed(broker: Broker, group_id: str, asked: Iterable[Any] | None) -> list[Fields]:
    """The offsets of the partitions asked for; of all that there are, when ``asked`` is None."""
    offsets = broker.storage.groups.offsets(group_id)
    wanted: dict[str, list[int]] = {}
    if asked is None:
        for name in sorted(offsets):
            wanted.setdefault(name.topic, []).append(name.partition)
    else:
        for topic, numbers in partitions_once(asked, partitions="partition_indexes", number=None):
            wanted.setdefault(topic, []).extend(numbers)
    return [
        {
            "name": topic,
            "partitions": [
                _partition_fields(number, offsets.get(TopicPartition(topic, number), _NONE_COMMITTED))
                for number in numbers
            ],
        }
        for topic, numbers in wanted.items()
    ]


def _partition_fields(number: int, committed: CommittedOffset) -> Fields:
    return {
        "partition_index": number,
        "committed_offset": committed.committed_offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": ErrorCode.NONE,
    }
