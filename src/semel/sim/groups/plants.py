"""Bugs planted in the coordinator of groups: each leaves out what one of Kafka's rules, or a restart, asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from semel.core.group.group import Group
from semel.core.group.groups import Groups
from semel.core.group.membership import Membership, _SessionDue
from semel.core.group.offsets import GroupRecords
from semel.core.group.records import CommittedOffset, StoredGroup
from semel.core.group.requests import NOBODY, Answer, CommitOffsets, Heartbeat, Join, Sync, SyncAnswer
from semel.core.group.states import GroupState
from semel.errors import ErrorCode
from semel.server import group_coordinator
from semel.server.group_coordinator import GroupCoordinator, _Ticket
from semel.server.operation import Happened
from semel.server.storage.state_log import StateLog
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.plants.planting import Patches, plant

ONE_OWNER, RISES = "one_owner_a_generation", "generation_only_rises"
OLDER, COMMITTED = "older_generation_never_commits", "committed_position_never_lost"
IN_TIME, RESTART, STABLE = "member_in_time_stays", "restart_keeps_members", "group_becomes_stable"

group_plant = partial(plant, may_show=seed_has_groups)
_LONG_AGO_MS = -(10**15)


# -- who may commit -----------------------------------------------------------------------------------------


@group_plant("a commit's generation is not looked at", "here", OLDER)
def group_commits_of_any_generation(patch: Patches) -> None:
    def refuses(
        membership: Membership,
        group_id: str,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        **given: bool,
    ) -> Any:
        group = membership.get(group_id)
        if group is not None and generation_id >= 0:
            generation_id = group.generation_id
        return original(membership, group_id, generation_id, member_id, instance_id, **given)

    original = patch.set(Membership, "refusal_of_commit", refuses)


@group_plant("an instance that was fenced may commit in the generation that it had", "KIP-345", OLDER)
def group_fenced_instance_commits(patch: Patches) -> None:
    def refuses(membership: Membership, *asked: Any, **given: bool) -> Any:
        refusal = original(membership, *asked, **given)
        return ErrorCode.NONE if refusal is ErrorCode.FENCED_INSTANCE_ID else refusal

    original = patch.set(Membership, "refusal_of_commit", refuses)


@group_plant("who is no member may commit for a group that has some", "here", OLDER)
def group_anybody_commits(patch: Patches) -> None:
    def refuses(
        membership: Membership,
        group_id: str,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        **given: bool,
    ) -> Any:
        if generation_id < 0 and member_id == NOBODY:
            return ErrorCode.NONE
        return original(membership, group_id, generation_id, member_id, instance_id, **given)

    original = patch.set(Membership, "refusal_of_commit", refuses)


# -- what is committed --------------------------------------------------------------------------------------


@group_plant("a commit is answered before it is durable", "KAFKA-17507", COMMITTED)
def group_commit_before_sync(patch: Patches) -> None:
    async def commits(coordinator: GroupCoordinator, request: CommitOffsets, time_of_day_ms: int) -> Any:
        decision = coordinator.groups.commit(request, coordinator._monotonic_ms(), time_of_day_ms)
        return coordinator.log.submit(decision, time_of_day_ms).response

    patch.set(GroupCoordinator, "commit", commits)


@group_plant("a restart reads the groups and passes over what they have committed", "here", COMMITTED)
def group_commits_lost_at_restart(patch: Patches) -> None:
    loading: list[StateLog] = []

    def reads(log: StateLog, offset: int) -> Any:
        loading.append(log)
        try:
            return original_read(log, offset)
        finally:
            loading.clear()

    def applies(records: GroupRecords, *what: Any) -> None:
        if not loading:
            original_apply(records, *what)

    original_read = patch.set(StateLog, "_read_from", reads)
    original_apply = patch.set(GroupRecords, "_apply_offset", applies)


@group_plant("committed offsets expire although members read", "KAFKA-4682", COMMITTED)
def group_offsets_expire_while_read(patch: Patches) -> None:
    def ages_from(groups: Groups, group: Group | None, topic: str, committed: CommittedOffset) -> int:
        return committed.committed_ms

    patch.set(Groups, "_ages_from", ages_from)


@group_plant("what is committed goes with the last member", "KAFKA-4682", COMMITTED)
def group_offsets_go_with_the_last_member(patch: Patches) -> None:
    def ages_from(groups: Groups, group: Group | None, *what: Any) -> Any:
        is_empty = group is not None and group.state is GroupState.EMPTY
        return _LONG_AGO_MS if is_empty else original(groups, group, *what)

    original = patch.set(Groups, "_ages_from", ages_from)


# -- what is stored -----------------------------------------------------------------------------------------


@group_plant("an assignment is answered before it is durable", "KAFKA-16541", ONE_OWNER, RESTART)
def group_assignment_before_sync(patch: Patches) -> None:
    async def answer_to(coordinator: GroupCoordinator, ticket: int) -> Answer | None:
        answered = coordinator._waiting[ticket]
        while answered is None:
            if not await Happened((_Ticket(ticket),), 2**31 - 1):
                break
            answered = coordinator._waiting[ticket]
        coordinator._waiting.pop(ticket)
        return None if answered is None else answered.answer

    patch.set(GroupCoordinator, "_answer_to", answer_to)


@group_plant("an assignment that the disk has refused is answered all the same", "here", ONE_OWNER, RESTART)
def group_refused_assignment_is_told(patch: Patches) -> None:
    patch.set(group_coordinator, "_not_stored", lambda answer: answer)


@group_plant("the members are not stored with their assignment", "here", RESTART, OLDER)
def group_members_not_stored(patch: Patches) -> None:
    def stored(group: Group) -> StoredGroup:
        found: StoredGroup = original(group)
        return replace(found, members=())

    original = patch.set(Group, "stored", stored)


@group_plant(
    "that nobody is left is not stored: a restart knows the last members again",
    "KAFKA-4425",
    OLDER,
    COMMITTED,
)
def group_empty_is_not_stored(patch: Patches) -> None:
    def stores(membership: Membership, group: Group) -> None:
        if group.members or not group.generation_id:
            original(membership, group)

    original = patch.set(Membership, "_store", stores)


@group_plant("a restart counts generations anew", "here", RISES, OLDER, STABLE)
def group_generations_begin_anew(patch: Patches) -> None:
    def load(group_id: str, stored: StoredGroup, time_of_day_ms: int) -> Group:
        return original.__func__(Group, group_id, replace(stored, generation_id=0), time_of_day_ms)  # type: ignore[no-any-return]

    original = patch.set(Group, "load", staticmethod(load))


@group_plant("the sessions of members that a restart finds are over", "KAFKA-7725", RESTART)
def group_sessions_end_at_load(patch: Patches) -> None:
    def begins(membership: Membership, stored: Any, now_ms: int, time_of_day_ms: int) -> None:
        original(membership, stored, now_ms, time_of_day_ms)
        for group in membership:
            for member_id in group.members:
                membership._deadlines.set(_SessionDue(group.group_id, member_id), now_ms)

    original = patch.set(Membership, "begin", begins)


@group_plant("a restart does not know who is static", "KIP-345", RESTART)
def group_instances_lost_at_restart(patch: Patches) -> None:
    def load(group_id: str, stored: StoredGroup, time_of_day_ms: int) -> Group:
        members = tuple(replace(member, instance_id=None) for member in stored.members)
        return original.__func__(Group, group_id, replace(stored, members=members), time_of_day_ms)  # type: ignore[no-any-return]

    original = patch.set(Group, "load", staticmethod(load))


# -- generations --------------------------------------------------------------------------------------------


@group_plant("a rebalance goes on in the generation before it", "here", ONE_OWNER)
def group_generation_is_not_raised(patch: Patches) -> None:
    def begins(group: Group, time_of_day_ms: int) -> None:
        before = group.generation_id
        original(group, time_of_day_ms)
        group.generation_id = max(before, 1)

    original = patch.set(Group, "begin_generation", begins)


@group_plant("a heartbeat's generation is not looked at", "KAFKA-13435", RISES)
def group_heartbeats_of_any_generation(patch: Patches) -> None:
    def hears(membership: Membership, request: Heartbeat, now_ms: int) -> Any:
        group = membership.get(request.group_id)
        if group is not None:
            request = replace(request, generation_id=group.generation_id)
        return original(membership, request, now_ms)

    original = patch.set(Membership, "heartbeat", hears)


@group_plant("a leader's assignment is taken in whichever generation it comes", "here", ONE_OWNER, RISES)
def group_syncs_of_any_generation(patch: Patches) -> None:
    def syncs(membership: Membership, request: Sync) -> Any:
        group = membership.get(request.group_id)
        if group is not None:
            request = replace(request, generation_id=group.generation_id)
        return original(membership, request)

    original = patch.set(Membership, "_sync", syncs)


@group_plant("a follower's part is answered before its leader has assigned any", "here", ONE_OWNER, STABLE)
def group_followers_do_not_wait(patch: Patches) -> None:
    def syncs(membership: Membership, request: Sync) -> Any:
        refusal = original(membership, request)
        group = membership.get(request.group_id)
        if refusal is ErrorCode.NONE and group is not None:
            member = group.members[request.member_id]
            if member.syncing is not None:
                answer = SyncAnswer(ErrorCode.NONE, group.protocol_type, group.protocol_name)
                membership._answers.append((member.syncing, answer))
                member.syncing = None
        return refusal

    original = patch.set(Membership, "_sync", syncs)


# -- members ------------------------------------------------------------------------------------------------


@group_plant("a rebalance does not wait for those who have still to join", "KIP-62", IN_TIME, STABLE)
def group_joins_end_at_once(patch: Patches) -> None:
    patch.set(Group, "has_all_joined", property(lambda group: True))


@group_plant("a member id that was given out is forgotten at once", "KIP-394", STABLE)
def group_given_ids_are_forgotten(patch: Patches) -> None:
    def joins(membership: Membership, group: Group, request: Join) -> None:
        original(membership, group, request)
        group.pending.clear()

    original = patch.set(Membership, "_join_unknown", joins)


@group_plant("two members have the same id", "here", ONE_OWNER, STABLE, OLDER)
def group_ids_are_names(patch: Patches) -> None:
    def member_id_for(coordinator: GroupCoordinator, name: str) -> str:
        return name

    patch.set(GroupCoordinator, "member_id_for", member_id_for)


@group_plant("a heartbeat does not extend the session", "here", IN_TIME, RESTART)
def group_heartbeats_count_for_nothing(patch: Patches) -> None:
    def hears(membership: Membership, request: Heartbeat, now_ms: int) -> Any:
        with _without_extension():
            return original(membership, request, now_ms)

    original = patch.set(Membership, "heartbeat", hears)


@group_plant(
    "who gets its part has no session from then on, if its own was over while it waited",
    "here",
    STABLE,
    IN_TIME,
)
def group_answer_extends_no_session(patch: Patches) -> None:
    def answers(membership: Membership, *what: Any) -> None:
        with _without_extension():
            original(membership, *what)

    original = patch.set(Membership, "_answer_sync", answers)


@group_plant("a restart sets no deadlines: who does not come back is a member for ever", "here", STABLE)
def group_deadlines_lost_at_restart(patch: Patches) -> None:
    def begins(membership: Membership, *what: Any) -> None:
        with _without_extension():
            original(membership, *what)

    original = patch.set(Membership, "begin", begins)


@contextmanager
def _without_extension() -> Iterator[None]:
    extend: Callable[..., None] = Membership._extend_session
    Membership._extend_session = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Membership._extend_session = extend  # type: ignore[method-assign]


@group_plant("a leader that has gone is not replaced", "here", STABLE)
def group_leader_is_not_replaced(patch: Patches) -> None:
    def removes(group: Group, member_id: str) -> None:
        leader = group.leader
        original(group, member_id)
        group.leader = leader if group.members else None

    original = patch.set(Group, "remove", removes)
    patch.set(Group, "elect_leader_that_joined", lambda group: True)
