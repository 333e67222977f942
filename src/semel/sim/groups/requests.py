"""What a member asks of its coordinator, one request after another, and what the checkers are told of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from semel.errors import ErrorCode
from semel.sim.clients.cluster import Later
from semel.sim.clients.session import REQUEST_TIMEOUT_MS, Session
from semel.sim.groups.assignment import Assignment, CommitNote, decode_assignment, decode_note
from semel.sim.groups.story import PROTOCOL_TYPE, GroupPlan, GroupStory, Who
from semel.sim.groups.watcher import MemberWatcher
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import TopicPartition
from semel.wire.api import ApiKey
from semel.wire.messages import decode_response, encode_request, field_of

LONGER_MS: Final = 1_000  # than the coordinator may wait, a client waits
NO_ANSWER: Final = ErrorCode.NETWORK_EXCEPTION
Versions = Mapping[ApiKey, int]
MODERN: Final[Versions] = {
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.DELETE_GROUPS: 2,
}
OLDER: Final[Versions] = {
    **MODERN,
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 3,
    ApiKey.OFFSET_COMMIT: 7,
    ApiKey.OFFSET_FETCH: 5,
}
OLDEST: Final[Versions] = {  # it is a member at once, and never a static one
    **OLDER,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.OFFSET_COMMIT: 6,
}


class Joined(NamedTuple):
    """The answer to a join. Of a leader with what ``members`` said, by member id."""

    code: ErrorCode
    member_id: str = ""
    generation_id: int = -1
    is_leader: bool = False
    is_to_assign: bool = False  # a leader that has come back need not (KIP-814)
    members: Mapping[str, bytes] = {}


class GroupRequests:
    """Of one process. An answer that does not come is :data:`NO_ANSWER`."""

    def __init__(
        self,
        plan: GroupPlan,
        story: GroupStory,
        name: str,
        process: Process,
        around: Surroundings,
        versions: Versions,
    ) -> None:
        self._plan, self._story, self._name, self._around = plan, story, name, around
        self._watcher = around.watchers.of(MemberWatcher)
        self._versions = versions
        self.session: Final = Session(plan.group_id, process, around.network)  # its name is the client's id
        self._commits = 0

    def die(self) -> None:
        self.session.die()

    @property
    def _now_ms(self) -> int:
        return self._around.scheduler.now_ms

    async def _ask(
        self, api_key: ApiKey, fields: Mapping[str, Any], timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Any:
        answer, version = Later(), self._versions[api_key]
        body = [encode_request(api_key, version, fields)]
        self.session.request(api_key, version, body, answer.know, timeout_ms)
        found: memoryview | None = await answer
        return None if found is None else decode_response(api_key, version, found)

    def _told(self, who: Who, api_key: ApiKey, answer: Any, generation_id: int, sent_ms: int) -> ErrorCode:
        code = NO_ANSWER if answer is None else ErrorCode.of(int(answer.error_code))
        if answer is not None:
            if code is not ErrorCode.NONE:
                self._around.counts.verdict(f"group: {api_key.name}, {code.name}")
            self._watcher.member_answered(
                self._plan, who, api_key, code, generation_id, sent_ms, self._now_ms
            )
            self._around.trace.note(self._name, f"{api_key.name} {generation_id}: {code.name}")
        return code

    # -- membership

    async def join(self, who: Who, subscription: bytes) -> Joined:
        plan, sent_ms = self._plan, self._now_ms
        answer = await self._ask(
            ApiKey.JOIN_GROUP,
            {
                "group_id": plan.group_id,
                "session_timeout": plan.session_timeout_ms,
                "rebalance_timeout": plan.rebalance_timeout_ms,
                "member_id": who.member_id,
                "group_instance_id": who.instance_id,
                "protocol_type": PROTOCOL_TYPE,
                "protocols": [{"name": plan.strategy.value, "metadata": subscription}],
                "reason": None,
            },
            plan.rebalance_timeout_ms + LONGER_MS,
        )
        if answer is None:
            return Joined(NO_ANSWER)
        code = ErrorCode.of(int(answer.error_code))
        told = who._replace(member_id=answer.member_id) if code is ErrorCode.NONE else who
        self._told(told, ApiKey.JOIN_GROUP, answer, answer.generation_id, sent_ms)
        is_leader = answer.leader == answer.member_id
        return Joined(
            code,
            answer.member_id,
            answer.generation_id,
            is_leader,
            is_leader and not field_of(answer, "skip_assignment", False),
            {each.member_id: bytes(each.metadata) for each in answer.members},
        )

    async def sync(
        self, who: Who, generation_id: int, assignments: Mapping[str, Assignment]
    ) -> tuple[ErrorCode, Assignment | None]:
        sent_ms = self._now_ms
        answer = await self._ask(
            ApiKey.SYNC_GROUP,
            {
                "group_id": self._plan.group_id,
                "generation_id": generation_id,
                "member_id": who.member_id,
                "group_instance_id": who.instance_id,
                "protocol_type": PROTOCOL_TYPE,
                "protocol_name": self._plan.strategy.value,
                "assignments": [
                    {"member_id": member_id, "assignment": each.encode()}
                    for member_id, each in assignments.items()
                ],
            },
            self._plan.rebalance_timeout_ms + LONGER_MS,
        )
        code = self._told(who, ApiKey.SYNC_GROUP, answer, generation_id, sent_ms)
        if code is not ErrorCode.NONE:
            return code, None
        assignment = decode_assignment(bytes(answer.assignment))
        self._watcher.member_assigned(self._story, who, generation_id, assignment, sent_ms, self._now_ms)
        return code, assignment

    async def heartbeat(self, who: Who, generation_id: int) -> ErrorCode:
        sent_ms = self._now_ms
        fields = {
            "group_id": self._plan.group_id,
            "generation_id": generation_id,
            "member_id": who.member_id,
            "group_instance_id": who.instance_id,
        }
        answer = await self._ask(ApiKey.HEARTBEAT, fields)
        return self._told(who, ApiKey.HEARTBEAT, answer, generation_id, sent_ms)

    async def leave(self, who: Who) -> ErrorCode:
        self._watcher.member_leaves(who, self._now_ms)
        fields = {
            "group_id": self._plan.group_id,
            "member_id": who.member_id,
            "members": [{"member_id": who.member_id, "group_instance_id": who.instance_id, "reason": None}],
        }
        answer = await self._ask(ApiKey.LEAVE_GROUP, fields)
        return NO_ANSWER if answer is None else ErrorCode.of(int(answer.error_code))

    # -- offsets

    async def commit(
        self, who: Who, generation_id: int, offsets: Mapping[TopicPartition, int]
    ) -> Sequence[ErrorCode]:
        """The codes that came, of all partitions."""
        notes: dict[TopicPartition, str] = {}
        for tp in offsets:
            self._commits += 1
            notes[tp] = CommitNote(self._name, self._commits, generation_id, who.member_id).encode()
        answer = await self._ask(
            ApiKey.OFFSET_COMMIT,
            {
                "group_id": self._plan.group_id,
                "generation_id_or_member_epoch": generation_id,
                "member_id": who.member_id,
                "group_instance_id": who.instance_id,
                "topics": _by_topic(
                    "partitions",
                    {
                        tp: {
                            "partition_index": tp.partition,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": notes[tp],
                        }
                        for tp, offset in offsets.items()
                    },
                ),
            },
        )
        if answer is None:
            return [NO_ANSWER]
        codes = {
            TopicPartition(topic.name, item.partition_index): ErrorCode.of(int(item.error_code))
            for topic in answer.topics
            for item in topic.partitions
        }
        for code in dict.fromkeys(codes.values()):
            self._around.counts.verdict(f"group: OFFSET_COMMIT, {code.name}")
        taken = {tp: notes[tp] for tp, code in codes.items() if code is ErrorCode.NONE}
        self._around.trace.note(self._name, f"commits {generation_id}: {notes} {[*codes.values()]}")
        self._watcher.commit_acknowledged(self._story, who, taken, self._now_ms)
        return list(codes.values())

    async def positions(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """What is committed, -1 where nothing is; ``None``: no answer."""
        sent_ms = self._now_ms
        asked = {tp: tp.partition for tp in tps}
        fields = {
            "group_id": self._plan.group_id,
            "topics": _by_topic("partition_indexes", asked),
            "require_stable": True,
        }
        answer = await self._ask(ApiKey.OFFSET_FETCH, fields)
        if answer is None or int(answer.error_code):
            return None
        found: dict[TopicPartition, int] = {}
        for topic in answer.topics:
            for item in topic.partitions:
                tp = TopicPartition(topic.name, item.partition_index)
                found[tp] = item.committed_offset
                note = (item.metadata or "") if item.committed_offset >= 0 else None
                if note is None or decode_note(note) is not None:
                    self._watcher.position_told(self._story, self._plan.group_id, tp, note, sent_ms)
        return found

    async def delete_group(self) -> ErrorCode:
        self._story.deleted_groups.add(self._plan.group_id)
        answer = await self._ask(ApiKey.DELETE_GROUPS, {"groups_names": [self._plan.group_id]})
        return NO_ANSWER if answer is None else ErrorCode.of(int(answer.results[0].error_code))


def _by_topic(name: str, items: Mapping[TopicPartition, Any]) -> list[dict[str, Any]]:
    return [
        {"name": topic, name: [items[tp] for tp in tps]}
        for topic, tps in groupby(sorted(items), key=lambda tp: tp.topic)
    ]
