"""Consumer groups: what a member asks of its coordinator, offsets, and what an administrator asks.

A member's own requests are one attempt each: :class:`~semel.core.consumer.membership.Membership` says what their
answers mean. All others are repeated while the coordinator moves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from semel.client.groups import GroupDescription, GroupListing, GroupMember, Membership, Offset, Offsets
from semel.client.model import CommittedOffset
from semel.client.routing import GROUP, Routing, by_topic, check_read, partitions_of
from semel.errors import ConnectionLost, ErrorCode
from semel.types import TopicPartition
from semel.wire.api import ApiKey
from semel.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from semel.wire.frames import MalformedMessage
from semel.wire.messages import field_of

_T = TypeVar("_T")
_ANY_MEMBER: Final = Membership()
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_DEAD: Final = "Dead"


class GroupRequests(Routing):
    """Requests about groups."""

    # -- of a member: one attempt -----------------------------------------------------------------------

    async def join_group(
        self,
        group: str,
        member: Membership,
        protocols: Sequence[tuple[str, bytes]],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        reason: str,
    ) -> Any:
        """JoinGroup's answer as it came, refusals too; it takes until every member has joined."""
        fields = {
            "group_id": group,
            "session_timeout": session_timeout_ms,
            "rebalance_timeout": rebalance_timeout_ms,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
            "reason": reason or None,
        }
        return await self._of_member(group, ApiKey.JOIN_GROUP, fields, wait_ms=rebalance_timeout_ms)

    async def sync_group(
        self, group: str, member: Membership, strategy: str, assignments: Mapping[str, bytes]
    ) -> Any:
        """SyncGroup's answer as it came; ``assignments`` by member id, from the leader alone."""
        fields = {
            "group_id": group,
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": strategy,
            "assignments": [
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in assignments.items()
            ],
        }
        return await self._of_member(group, ApiKey.SYNC_GROUP, fields, wait_ms=self.request_timeout_ms)

    async def heartbeat(self, group: str, member: Membership) -> ErrorCode:
        fields = {
            "group_id": group,
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
        }
        return ErrorCode.of(int((await self._of_member(group, ApiKey.HEARTBEAT, fields)).error_code))

    async def leave_group(self, group: str, member_id: str, reason: str) -> None:
        fields = {
            "group_id": group,
            "member_id": member_id,
            "members": [{"member_id": member_id, "group_instance_id": None, "reason": reason}],
        }
        await self._of_member(group, ApiKey.LEAVE_GROUP, fields)

    async def _of_member(
        self, group: str, api_key: ApiKey, fields: Mapping[str, Any], *, wait_ms: int = 0
    ) -> Any:
        try:
            node_id = await self._coordinator(GROUP, group)
            answer = await self._newest(node_id, api_key, fields, wait_ms=wait_ms)
        except ConnectionLost:
            self.forget_coordinator(GROUP, group)
            raise
        if ErrorCode.of(int(answer.error_code)) in _MOVED:
            self.forget_coordinator(GROUP, group)
        return answer

    # -- offsets ----------------------------------------------------------------------------------------

    async def commit_offsets(self, group: str, offsets: Offsets, member: Membership = _ANY_MEMBER) -> None:
        """Commit as a member; or, without one, for a group whose members assign partitions themselves."""
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": member.generation_id,
            "member_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "topics": [
                {"name": name, "partitions": [_commit_of(tp, offsets[tp]) for tp in of_topic]}
                for name, of_topic in by_topic(offsets).items()
            ],
        }

        async def ask(node_id: int) -> None:
            answer = await self._cold(node_id, ApiKey.OFFSET_COMMIT, fields)
            for tp, item in partitions_of(answer.topics):
                self._check_moved(item.error_code, group)
                check_read(item.error_code, f"commit {tp} for group {group!r}")

        await self._on_coordinator(group, ask)

    async def committed_offsets(
        self, group: str, tps: Iterable[TopicPartition] | None = None, *, require_stable: bool = True
    ) -> dict[TopicPartition, CommittedOffset]:
        """A group's committed offsets: of these partitions, or of all that it committed.

        ``require_stable``: while a transaction is open that may commit another one, wait for its end, as whoever
        begins to read there has to (KIP-447); else it is what is committed until then.
        """
        fields = {
            "group_id": group,
            "topics": None
            if tps is None
            else [
                {"name": name, "partition_indexes": [tp.partition for tp in of_topic]}
                for name, of_topic in by_topic(tps).items()
            ],
            "require_stable": require_stable,
        }

        async def ask(node_id: int) -> dict[TopicPartition, CommittedOffset]:
            answer = await self._cold(node_id, ApiKey.OFFSET_FETCH, fields)
            self._check_moved(answer.error_code, group)
            check_read(answer.error_code, f"committed offsets of group {group!r}")
            committed = {}
            for tp, item in partitions_of(answer.topics):
                check_read(item.error_code, f"committed offset of {tp} for group {group!r}")
                committed[tp] = CommittedOffset(
                    int(item.committed_offset), int(item.committed_leader_epoch), item.metadata
                )
            return committed

        return await self._on_coordinator(group, ask)

    async def delete_offsets(self, group: str, tps: Iterable[TopicPartition]) -> None:
        """Forget what the group committed of these. GROUP_SUBSCRIBED_TO_TOPIC: a member reads the topic."""
        fields = {
            "group_id": group,
            "topics": [
                {"name": name, "partitions": [{"partition_index": tp.partition} for tp in of_topic]}
                for name, of_topic in by_topic(tps).items()
            ],
        }

        async def ask(node_id: int) -> None:
            answer = await self._newest(node_id, ApiKey.OFFSET_DELETE, fields)
            self._check_moved(answer.error_code, group)
            check_read(answer.error_code, f"delete offsets of group {group!r}")
            for tp, item in partitions_of(answer.topics):
                check_read(item.error_code, f"delete the offset of {tp} of group {group!r}")

        await self._on_coordinator(group, ask)

    # -- of an administrator ----------------------------------------------------------------------------

    async def list_groups(self) -> list[GroupListing]:
        """The groups of every broker, by name."""
        nodes = (await self.metadata([])).brokers

        async def ask(node_id: int) -> list[GroupListing]:
            async def once() -> list[GroupListing]:
                fields: dict[str, Any] = {"states_filter": [], "types_filter": []}
                answer = await self._newest(node_id, ApiKey.LIST_GROUPS, fields)
                check_read(answer.error_code, "list groups")
                return [
                    GroupListing(
                        item.group_id,
                        field_of(item, "group_state", ""),
                        item.protocol_type,
                        field_of(item, "group_type", ""),
                    )
                    for item in answer.groups
                ]

            return await self.retried(once)

        found = await self.runtime.gather(ask(node_id) for node_id in nodes)
        return sorted((item for items in found for item in items), key=lambda item: item.group)

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription | None]:
        """Each group as its coordinator knows it; None: there is no such group."""
        names = list(dict.fromkeys(groups))
        found = await self.runtime.gather(self._describe(name) for name in names)
        return dict(zip(names, found, strict=True))

    async def _describe(self, group: str) -> GroupDescription | None:
        fields = {"groups": [group], "include_authorized_operations": False}

        async def ask(node_id: int) -> GroupDescription | None:
            answer = await self._newest(node_id, ApiKey.DESCRIBE_GROUPS, fields)
            (item,) = answer.groups
            code = ErrorCode.of(int(item.error_code))
            self._check_moved(code, group)
            if code is ErrorCode.GROUP_ID_NOT_FOUND or item.group_state == _DEAD:
                return None
            check_read(code, f"describe group {group!r}", field_of(item, "error_message") or "")
            return GroupDescription(
                group,
                item.group_state,
                item.protocol_type,
                item.protocol_data,
                node_id,
                tuple(_member_of(each, item.protocol_type) for each in item.members),
            )

        return await self._on_coordinator(group, ask)

    async def delete_groups(self, groups: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete groups with their offsets; a group's refusal is a value in the answer."""
        names = list(dict.fromkeys(groups))

        async def delete(group: str) -> ErrorCode:
            async def ask(node_id: int) -> ErrorCode:
                answer = await self._newest(node_id, ApiKey.DELETE_GROUPS, {"groups_names": [group]})
                (item,) = answer.results
                code = ErrorCode.of(int(item.error_code))
                self._check_moved(code, group)
                if code.retriable:
                    check_read(code, f"delete group {group!r}")
                return code

            return await self._on_coordinator(group, ask)

        found = await self.runtime.gather(delete(name) for name in names)
        return dict(zip(names, found, strict=True))

    # -- its coordinator --------------------------------------------------------------------------------

    async def _on_coordinator(self, group: str, ask: Callable[[int], Awaitable[_T]]) -> _T:
        """Repeat a request that may be made twice, wherever the group's coordinator goes."""

        async def once() -> _T:
            try:
                return await ask(await self._coordinator(GROUP, group))
            except ConnectionLost:
                self.forget_coordinator(GROUP, group)
                raise

        return await self.retried(once)

    def _check_moved(self, code: int, group: str) -> None:
        if int(code):
            self.forget_coordinator(GROUP, group)


def _commit_of(tp: TopicPartition, committed: int | tuple[int, str | None] | Offset) -> dict[str, Any]:
    if isinstance(committed, int):
        committed = Offset(committed)
    given = committed if isinstance(committed, Offset) else Offset(*committed)
    return {
        "partition_index": tp.partition,
        "committed_offset": given.offset,
        "committed_leader_epoch": given.leader_epoch,
        "committed_metadata": given.metadata,
    }


def _member_of(item: Any, protocol_type: str) -> GroupMember:
    """A member's own words are no reason to show nothing of its group."""
    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    if protocol_type == PROTOCOL_TYPE:
        with contextlib.suppress(MalformedMessage):
            assigned = decode_assignment(item.member_assignment)
        with contextlib.suppress(MalformedMessage):
            topics = decode_subscription(item.member_metadata).topics
    return GroupMember(
        item.member_id,
        field_of(item, "group_instance_id"),
        item.client_id,
        item.client_host.removeprefix("/"),
        tuple(sorted(assigned)),
        topics,
    )
