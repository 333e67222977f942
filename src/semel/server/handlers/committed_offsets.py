"""OffsetCommit, TxnOffsetCommit and OffsetFetch.

A commit is answered once it is durable; a fetch sees what was decided, which is at most one sync ahead of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

from semel.core.group.records import CommittedOffset
from semel.core.group.requests import NO_GENERATION, NOBODY, Codes, CommitOffsets, OffsetToCommit
from semel.core.log.names import GROUP_OFFSETS_TOPIC
from semel.core.transaction.requests import AddPartitions
from semel.core.transaction.transaction import EPOCH_BUMP_FROM
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.coordinator import NOT_STORED
from semel.server.handlers.known_codes import as_known
from semel.server.handlers.schema import once, partitions_once
from semel.server.outcome import Answer, Call, Operation, Outcome
from semel.types import NO_LEADER_EPOCH, ProducerGrant, TopicPartition
from semel.wire import offset_commit
from semel.wire.frames import Buffer
from semel.wire.messages import Fields, field_of

_NONE_COMMITTED: Final = CommittedOffset(-1)
_GROUPS_FROM: Final = 8
_GROUP_NOT_FOUND_FROM: Final = 9  # KIP-848
_ABORTABLE_FROM: Final = 4  # KIP-890
_REGISTERS_FROM: Final = 5
OFFSETS_PARTITION: Final = TopicPartition(GROUP_OFFSETS_TOPIC, 0)


def handle_commit(broker: Broker, call: Call, body: Buffer) -> Outcome:
    version = call.api_version
    request = offset_commit.decode_request(version, body)
    known = [
        OffsetToCommit(name, offset, leader_epoch, metadata)
        for topic, partitions in request.topics
        for number, offset, leader_epoch, metadata in partitions
        if broker.storage.find(name := TopicPartition(topic, number)) is not None
    ]
    commit = CommitOffsets(
        request.group_id,
        known,
        request.generation_id,
        request.member_id,
        request.instance_id,
        request.retention_ms,
    )

    def code_of(codes: Codes, name: TopicPartition) -> ErrorCode:
        code = codes.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code is ErrorCode.GROUP_ID_NOT_FOUND and version < _GROUP_NOT_FOUND_FROM:
            return ErrorCode.ILLEGAL_GENERATION
        return code

    def answer(codes: Codes) -> Answer:
        results = [
            (topic, [(one[0], code_of(codes, TopicPartition(topic, one[0]))) for one in partitions])
            for topic, partitions in request.topics
        ]
        return Answer((offset_commit.encode_response(version, results),))

    async def committed() -> Answer:
        codes = await broker.coordinator.commit(commit, call.now_ms)
        return answer({each.partition: NOT_STORED for each in known} if codes is None else codes)

    return Operation(committed())


async def handle_transactional_commit(broker: Broker, call: Call, request: Any) -> Fields:
    """TxnOffsetCommit: the offsets count once the transaction is committed (KIP-98, KIP-447)."""
    topics = partitions_once(request.topics)
    grant = ProducerGrant(request.producer_id, request.producer_epoch)
    refused = as_known(
        _refusal_of_transaction(broker, call, request.transactional_id, grant),
        call.api_version,
        abortable_from=_ABORTABLE_FROM,
    )
    known = [
        OffsetToCommit(
            name,
            one.committed_offset,
            field_of(one, "committed_leader_epoch", NO_LEADER_EPOCH),
            one.committed_metadata or "",
        )
        for topic, partitions in topics
        for one in partitions
        if broker.storage.find(name := TopicPartition(topic, one.partition_index)) is not None
    ]
    codes: Codes | None = {each.partition: refused for each in known}
    if refused is ErrorCode.NONE:
        commit = CommitOffsets(
            request.group_id,
            known,
            field_of(request, "generation_id", NO_GENERATION),
            field_of(request, "member_id", NOBODY),
            field_of(request, "group_instance_id"),
            is_transactional=True,
        )
        codes = await broker.coordinator.commit_in_transaction(commit, grant, call.now_ms)
        if not await broker.transactions.is_registered():
            codes = None

    def code_of(name: TopicPartition) -> ErrorCode:
        if codes is None:
            return NOT_STORED
        code = codes.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.GROUP_ID_NOT_FOUND else code

    return {
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": code_of(TopicPartition(topic, one.partition_index)),
                    }
                    for one in partitions
                ],
            }
            for topic, partitions in topics
        ]
    }


def _refusal_of_transaction(
    broker: Broker, call: Call, transactional_id: str, grant: ProducerGrant
) -> ErrorCode:
    """Whether the producer may commit offsets in its transaction, which that may begin."""
    transactions = broker.transactions
    if call.api_version >= _REGISTERS_FROM:
        request = AddPartitions(
            transactional_id,
            grant.producer_id,
            grant.producer_epoch,
            frozenset({OFFSETS_PARTITION}),
            EPOCH_BUMP_FROM,
        )
        return transactions.write(request, call.now_ms)
    return transactions.refusal_of_write(
        transactional_id, grant.producer_id, grant.producer_epoch, OFFSETS_PARTITION
    )


def handle_fetch(broker: Broker, call: Call, request: Any) -> Fields:
    stable = bool(field_of(request, "require_stable", False))
    if call.api_version >= _GROUPS_FROM:
        return {
            "groups": [
                {
                    "group_id": group.group_id,
                    "error_code": ErrorCode.NONE,
                    "topics": _committed(broker, group.group_id, group.topics, stable=stable),
                }
                for group in once(request.groups, attrgetter("group_id"))
            ]
        }
    topics = _committed(broker, request.group_id, request.topics, stable=stable)
    return {"error_code": ErrorCode.NONE, "topics": topics}


def _committed(broker: Broker, group_id: str, asked: Iterable[Any] | None, *, stable: bool) -> list[Fields]:
    """The offsets of the partitions asked for; of all that there are, when ``asked`` is None.

    Where only ``stable`` ones are wanted, and a transaction may commit another, its end is to be waited for (KIP-447).
    """
    groups = broker.storage.groups
    offsets = groups.offsets(group_id)
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
                _unstable_fields(number)
                if stable and groups.is_unstable(group_id, TopicPartition(topic, number))
                else _partition_fields(number, offsets.get(TopicPartition(topic, number), _NONE_COMMITTED))
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


def _unstable_fields(number: int) -> Fields:
    return {**_partition_fields(number, _NONE_COMMITTED), "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT}
