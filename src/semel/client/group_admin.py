"""What an administrator wants to know of a group, put together of several answers; blocking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from semel.client.blocking import Cluster
from semel.client.groups import GroupDescription, GroupMember, PartitionLag
from semel.client.model import CommittedOffset
from semel.client.routing import by_topic
from semel.errors import BrokerError, ErrorCode, GroupError, NotCommitted
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

# A commit that speaks as no member, where there are members, is refused as an unknown member's.
_HAS_MEMBERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NON_EMPTY_GROUP,
    }
)


def no_group(group: str) -> GroupError:
    return GroupError(
        f"there is no group {group!r}: semel group list shows what there is", ErrorCode.GROUP_ID_NOT_FOUND
    )


def describe(cluster: Cluster, groups: Iterable[str]) -> dict[str, GroupDescription]:
    """Each group with its members, or :class:`~semel.errors.GroupError`."""
    described = {}
    for group, found in cluster.describe_groups(groups).items():
        if found is None:
            raise no_group(group)
        described[group] = found
    return described


def offsets_of(cluster: Cluster, group: str) -> dict[TopicPartition, CommittedOffset]:
    """What the group has committed, beside whatever a transaction is about to; nothing is no entry."""
    try:
        found = cluster.committed_offsets(group, require_stable=False)
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise no_group(group) from None
        raise
    return {tp: at for tp, at in sorted(found.items()) if at.offset >= 0}


def group_lag(cluster: Cluster, group: str) -> list[PartitionLag]:
    """By topic and partition; also of partitions that nobody reads. A topic that is gone is left out."""
    described = describe(cluster, [group])[group]
    committed = offsets_of(cluster, group)
    readers: dict[TopicPartition, GroupMember] = {
        tp: member for member in described.members for tp in member.assigned
    }
    topics = {tp.topic for tp in committed} | {tp.topic for tp in readers}
    found = cluster.metadata(sorted(topics)).topics.values() if topics else ()
    tps = [TopicPartition(topic.name, number) for topic in found for number in topic.partitions]
    starts = cluster.list_offsets(dict.fromkeys(tps, EARLIEST_TIMESTAMP)) if tps else {}
    ends = cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP)) if tps else {}
    lags = []
    for tp in sorted(tps):
        at = committed.get(tp)
        end_offset = ends[tp].offset
        lags.append(
            PartitionLag(
                tp,
                None if at is None else at.offset,
                starts[tp].offset,
                end_offset,
                None if at is None else max(0, end_offset - max(at.offset, starts[tp].offset)),
                None if at is None else at.metadata,
                readers.get(tp),
            )
        )
    return lags


def change_offsets(group: str, change: Callable[[], None]) -> None:
    """Say what a refusal means to who is no member."""
    try:
        change()
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise no_group(group) from None
        if error.code not in _HAS_MEMBERS:
            raise
        raise NotCommitted(
            f"group {group!r} has members ({error.code.name}): none of its offsets was changed, for a member would go "
            "on where it is, and commit over it. Stop its consumers, and try again",
            error.code,
        ) from None


def delete_offsets(cluster: Cluster, group: str, tps: Iterable[TopicPartition]) -> None:
    """Topic by topic: of one request a coordinator refuses the topics that a member reads, and deletes the others."""
    deleted: list[str] = []
    refused: list[str] = []
    code = ErrorCode.NONE
    for topic, of_topic in by_topic(tps).items():
        try:
            cluster.delete_offsets(group, of_topic)
        except BrokerError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise no_group(group) from None
            if error.code not in _HAS_MEMBERS:
                raise
            refused.append(topic)
            code = error.code
        else:
            deleted.append(topic)
    if refused:
        raise NotCommitted(
            f"not deleted: offsets of group {group!r} in topic {', '.join(map(repr, refused))}: it has members that "
            f"read there ({code.name}). Stop its consumers, and try again"
            + (f". Those in topic {', '.join(map(repr, deleted))} were deleted" if deleted else ""),
            code,
        )


def has_readers(found: GroupDescription, topic: str | None = None) -> bool:
    """Whether members keep the group, or its offsets of ``topic``, from being changed, as far as can be seen now."""
    return any(
        topic is None
        or not member.topics  # nobody says what it reads: a coordinator takes it for a reader
        or topic in member.topics
        or any(tp.topic == topic for tp in member.assigned)
        for member in found.members
    )


def refuse_undeleted(answers: Mapping[str, ErrorCode]) -> None:
    """Name the groups that were not deleted, if any."""
    refused = {group: code for group, code in answers.items() if code}
    if not refused:
        return
    why = {
        ErrorCode.NON_EMPTY_GROUP: "it has members: stop its consumers first",
        ErrorCode.GROUP_ID_NOT_FOUND: "there is none",
    }
    told = "; ".join(f"{group!r}: {why.get(code, code.name)}" for group, code in refused.items())
    others = len(answers) - len(refused)
    raise GroupError(
        f"not deleted: {told}" + (f". The others ({others}) were" if others else ""),
        next(iter(refused.values())),
    )
