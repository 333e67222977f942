"""Who is a member of which group, generation by generation (the classic protocol of Kafka's ``GroupMetadataManager``).

A timed core: requests and the clock in, effects out. What it keeps dies with the process but for what its records say:
a group as of its last assignment, from which :meth:`Membership.begin` goes on.

Invariants
- A partition has at most one owner a generation, as far as the leader's assignment says so: it is handed out whole,
  once, and only after it was written.
- A request that waits is answered exactly once, at its group's deadline at the latest.
- Groups, members and what they tell of themselves are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from semel.core.deadlines import Deadlines
from semel.core.decision import StateRecord
from semel.core.group.group import Group, Member
from semel.core.group.records import GroupKey, StoredGroup, encode_group, encode_key
from semel.core.group.requests import (
    NOBODY,
    Answer,
    Effects,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    Leaving,
    Sync,
    SyncAnswer,
)
from semel.core.group.states import GroupState
from semel.errors import ErrorCode

GROUP_ID_BYTES_MAX: Final = 1024
# Kafka's: a member that has gone by then sends no heartbeat to tell by.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
GROUPS_MAX: Final = 100_000
MEMBERS_MAX: Final = 100_000  # of all groups, ids that were given out included
METADATA_BYTES_MAX: Final = 256 << 20  # of all members

_EMPTY, _PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
_COMPLETING, _STABLE = GroupState.COMPLETING_REBALANCE, GroupState.STABLE


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """By Kafka's names: ``group.initial.rebalance.delay.ms`` and so on."""

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _JoinDue:
    group_id: str


@dataclass(frozen=True, slots=True)
class _SyncDue:
    group_id: str


@dataclass(frozen=True, slots=True)
class _SessionDue:
    group_id: str
    member_id: str


_Deadline: TypeAlias = _JoinDue | _SyncDue | _SessionDue


class Membership:
    """Of all groups. ``now_ms`` is of a clock that only goes forward; ``time_of_day_ms`` ends up in records."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._deadlines: Deadlines[_Deadline] = Deadlines()
        self._records: list[StateRecord] = []
        self._answers: list[tuple[int, Answer]] = []
        self._now_ms = self._time_of_day_ms = 0
        self._weights: dict[str, tuple[int, int]] = {}
        self._known = self._told_bytes = 0  # members and ids that were given out; what members said

    def begin(self, stored: Mapping[str, StoredGroup], now_ms: int, time_of_day_ms: int) -> None:
        """Go on from what was stored: each member has a whole session's time to be heard of."""
        self._now_ms, self._time_of_day_ms = now_ms, time_of_day_ms
        for group_id, each in stored.items():
            group = self._groups[group_id] = Group.load(group_id, each, time_of_day_ms)
            for member in group.members.values():
                self._extend_session(group, member)
            self._weigh(group)

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def forget(self, group_id: str) -> None:
        """The group is deleted. It has no members."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            assert not group.members
            for member_id in group.pending:
                self._deadlines.cancel(_SessionDue(group_id, member_id))
            self._deadlines.cancel(_JoinDue(group_id))
            group.pending.clear()
            self._weigh(group)

    # -- requests

    def join(self, request: Join, now_ms: int, time_of_day_ms: int) -> Effects:
        self._now_ms, self._time_of_day_ms = now_ms, time_of_day_ms
        refusal = self._join(request)
        if refusal is not ErrorCode.NONE:
            self._answers.append((request.ticket, JoinAnswer(refusal, request.member_id)))
        return self._effects(request.group_id)

    def sync(self, request: Sync, now_ms: int, time_of_day_ms: int) -> Effects:
        self._now_ms, self._time_of_day_ms = now_ms, time_of_day_ms
        refusal = self._sync(request)
        if refusal is not ErrorCode.NONE:
            self._answers.append((request.ticket, SyncAnswer(refusal)))
        return self._effects(request.group_id)

    def heartbeat(self, request: Heartbeat, now_ms: int) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refusal = group.refusal_of(request.member_id, request.instance_id)
        if refusal is not ErrorCode.NONE:
            return refusal
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self._now_ms = now_ms
        self._extend_session(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is _PREPARING else ErrorCode.NONE

    def leave(
        self, request: Leave, now_ms: int, time_of_day_ms: int
    ) -> tuple[ErrorCode | list[ErrorCode], Effects]:
        """The code for each of the members that are named, or one for all."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID, Effects()
        self._now_ms, self._time_of_day_ms = now_ms, time_of_day_ms
        group = self._groups.get(request.group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(request.members), Effects()
        codes = [self._leave(group, each) for each in request.members]
        if ErrorCode.NONE in codes:
            if group.state in (_STABLE, _COMPLETING):
                self._rebalance(group)
            else:
                self._complete_join_if_all_came(group)
        return codes, self._effects(request.group_id)

    def refusal_of_commit(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        *,
        is_transactional: bool = False,
    ) -> ErrorCode:
        """Whether these may commit offsets of the group, and if not why (Kafka's ``validateOffsetCommit``).

        In a transaction who names no member may always: there the transactional id fences (KIP-447).
        """
        group = self._groups.get(group_id)
        is_anonymous = generation_id < 0 and not member_id and instance_id is None
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND if generation_id >= 0 else ErrorCode.NONE
        if generation_id < 0 and group.state is _EMPTY:
            return ErrorCode.NONE
        if is_anonymous:
            return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        refusal = group.refusal_of(member_id, instance_id)
        if refusal is not ErrorCode.NONE:
            return refusal
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        is_between = group.state is _COMPLETING and not is_transactional
        return ErrorCode.REBALANCE_IN_PROGRESS if is_between else ErrorCode.NONE

    def heard_of(self, group_id: str, member_id: str, now_ms: int) -> None:
        """A member has shown that it lives, by a commit."""
        group = self._groups.get(group_id)
        if group is not None and member_id in group.members:
            self._now_ms = now_ms
            self._extend_session(group, group.members[member_id])

    def tick(self, now_ms: int, time_of_day_ms: int) -> Effects:
        """What is due by now."""
        self._now_ms, self._time_of_day_ms = now_ms, time_of_day_ms
        for deadline in self._deadlines.due(now_ms):
            group = self._groups.get(deadline.group_id)
            if group is None:
                continue
            match deadline:
                case _SessionDue(member_id=member_id):
                    self._end_session(group, member_id)
                case _JoinDue():
                    self._end_join(group)
                case _SyncDue():
                    self._end_sync(group)
            self._weigh(group)
        return self._effects()

    def was_not_stored(self, group_id: str, now_ms: int, time_of_day_ms: int) -> Effects:
        """The group's record was refused by the log: nobody may go by an assignment that is not in it."""
        self._now_ms, self._time_of_day_ms = now_ms, time_of_day_ms
        group = self._groups.get(group_id)
        if group is not None and group.state is _STABLE:
            self._prepare_rebalance(group)
        return self._effects(group_id)

    # -- joining

    def _join(self, request: Join) -> ErrorCode:
        if not 0 < len(request.group_id.encode()) <= GROUP_ID_BYTES_MAX:
            return ErrorCode.INVALID_GROUP_ID
        bounds = self._settings
        if not (bounds.min_session_timeout_ms <= request.session_timeout_ms <= bounds.max_session_timeout_ms):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id != NOBODY:
                return ErrorCode.UNKNOWN_MEMBER_ID
            group = Group(request.group_id, self._time_of_day_ms)
        refusal = self._refusal_of_join(group, request)
        if refusal is not ErrorCode.NONE:
            return refusal
        if request.group_id not in self._groups:
            self._groups[request.group_id] = group
            self._store(group)  # so that the group is known after a restart, though its members are not yet
        if request.member_id == NOBODY:
            self._join_unknown(group, request)
        elif request.member_id in group.pending:
            self._add_member(group, request, request.member_id)
        else:
            return self._rejoin(group, request)
        return ErrorCode.NONE

    def _refusal_of_join(self, group: Group, request: Join) -> ErrorCode:
        if not self._has_place_for(group, request.member_id):
            self._drop(group, request.member_id)
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not group.supports(request.protocol_type, request.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        told_bytes = sum(len(one.name) + len(one.metadata) for one in request.protocols)
        is_beyond = (
            (group.group_id not in self._groups and len(self._groups) >= GROUPS_MAX)
            or (request.member_id not in group.members and self._known >= MEMBERS_MAX)
            or self._told_bytes + told_bytes > METADATA_BYTES_MAX
        )
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_beyond else ErrorCode.NONE

    def _has_place_for(self, group: Group, member_id: str) -> bool:
        """Whether ``group.max.size`` lets this member join. While all join anew, those count that came first."""
        member = group.members.get(member_id)
        if group.state is _PREPARING:
            is_in = member is not None and member.joining is not None
            return is_in or group.joining < self._settings.max_size
        return group.state is _EMPTY or member is not None or len(group.members) < self._settings.max_size

    def _join_unknown(self, group: Group, request: Join) -> None:
        member_id = request.fresh_member_id
        if request.instance_id is not None:
            known = group.static_member_id(request.instance_id)
            if known is None:
                self._add_member(group, request, member_id)
            else:
                self._replace_member(group, request, known)
        elif request.needs_known_id:
            group.pending.add(member_id)
            due_ms = self._now_ms + request.session_timeout_ms
            self._deadlines.set(_SessionDue(group.group_id, member_id), due_ms)
            self._answers.append((request.ticket, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id)))
        else:
            self._add_member(group, request, member_id)

    def _add_member(self, group: Group, request: Join, member_id: str) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            joining=request.ticket,
            is_new=True,
        )
        if group.state is _PREPARING and group.is_first_rebalance:
            group.has_newcomers = True
        if group.protocol_type is None or not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        self._deadlines.set(_SessionDue(group.group_id, member_id), self._now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance(group)

    def _rejoin(self, group: Group, request: Join) -> ErrorCode:
        refusal = group.refusal_of(request.member_id, request.instance_id)
        if refusal is not ErrorCode.NONE:
            return refusal
        member = group.members[request.member_id]
        is_alike = member.protocols == request.protocols
        if group.state is _COMPLETING and is_alike:
            # It has not had the answer to its last one.
            self._answers.append((request.ticket, self._joined(group, member)))
        elif group.state is _STABLE and is_alike and group.leader != member.member_id:
            self._answers.append((request.ticket, self._joined(group, member)))
        else:  # a leader that comes again wants an assignment anew
            self._update_member(member, request)
            self._rebalance(group)
        return ErrorCode.NONE

    def _replace_member(self, group: Group, request: Join, old_id: str) -> None:
        """A static member comes back under a new id: the old one is fenced, and what it had is the new one's."""
        member = group.members[old_id]
        self._refuse_waiting(member, ErrorCode.FENCED_INSTANCE_ID)
        self._deadlines.cancel(_SessionDue(group.group_id, old_id))
        group.replace(old_id, request.fresh_member_id)
        self._update_member(member, request)
        self._extend_session(group, member)
        if group.state is _COMPLETING:  # the leader knows it by its old id
            self._prepare_rebalance(group)
        elif group.state is not _STABLE:
            self._complete_join_if_all_came(group)
        elif group.selected_protocol() != group.protocol_name:
            self._rebalance(group)
        else:
            self._store(group)
            is_leader = group.leader == member.member_id
            answer = self._joined(group, member)
            if not request.can_skip_assignment:
                # Were it told that it leads, it would assign anew, and the others would not ask for it.
                answer = JoinAnswer(
                    ErrorCode.NONE,
                    member.member_id,
                    group.generation_id,
                    group.protocol_type,
                    group.protocol_name,
                    old_id if is_leader else group.leader or NOBODY,
                )
            elif is_leader:
                answer = replace(answer, skip_assignment=True)
            self._answers.append((request.ticket, answer))
            member.joining = None

    def _update_member(self, member: Member, request: Join) -> None:
        if member.joining is not None:  # it has given up on its last request, and nobody else may wait for it
            self._refuse_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.client_id, member.client_host = request.client_id, request.client_host
        member.joining = request.ticket

    def _joined(self, group: Group, member: Member) -> JoinAnswer:
        members: tuple[JoinedMember, ...] = ()
        if group.leader == member.member_id:
            members = tuple(
                JoinedMember(one.member_id, one.instance_id, one.metadata_for(group.protocol_name))
                for one in group.members.values()
            )
        return JoinAnswer(
            ErrorCode.NONE,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader or NOBODY,
            members=members,
        )

    # -- rebalancing

    def _rebalance(self, group: Group) -> None:
        """Somebody came, went or wants another protocol."""
        if group.can_rebalance:
            self._prepare_rebalance(group)
        else:
            self._complete_join_if_all_came(group)

    def _prepare_rebalance(self, group: Group) -> None:
        if group.state is _COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                self._answer_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.yet_to_sync.clear()
        self._deadlines.cancel(_SyncDue(group.group_id))
        group.become(_PREPARING, self._time_of_day_ms)
        due = _JoinDue(group.group_id)
        if group.is_first_rebalance:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.has_newcomers = False
            group.put_off_ms = max(0, group.rebalance_timeout_ms - delay_ms)
            self._deadlines.set(due, self._now_ms + delay_ms)
        elif group.has_all_joined:
            self._complete_join(group)
        else:
            self._deadlines.set(due, self._now_ms + group.rebalance_timeout_ms)

    def _complete_join_if_all_came(self, group: Group) -> None:
        if group.state is _PREPARING and not group.is_first_rebalance and group.has_all_joined:
            self._complete_join(group)

    def _end_join(self, group: Group) -> None:
        """The time to join is over: go on without those who did not come."""
        if group.state is not _PREPARING:
            return
        if group.is_first_rebalance and group.has_newcomers and group.put_off_ms:
            delay_ms = min(self._settings.initial_rebalance_delay_ms, group.put_off_ms)
            group.has_newcomers = False
            group.put_off_ms -= delay_ms
            self._deadlines.set(_JoinDue(group.group_id), self._now_ms + delay_ms)
        else:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        due = _JoinDue(group.group_id)
        self._deadlines.cancel(due)
        for member in list(group.members.values()):
            if member.joining is None and member.instance_id is None:
                self._drop(group, member.member_id)
        if group.members and not group.elect_leader_that_joined():
            # Static members that all stay away keep their places until their sessions end.
            self._deadlines.set(due, self._now_ms + group.rebalance_timeout_ms)
            return
        group.begin_generation(self._time_of_day_ms)
        if not group.members:
            self._store(group)
            return
        for member in group.members.values():
            if member.joining is not None:
                self._answers.append((member.joining, self._joined(group, member)))
                member.joining = None
            self._extend_session(group, member)
            member.is_new = False
            group.yet_to_sync.add(member.member_id)
        self._deadlines.set(_SyncDue(group.group_id), self._now_ms + group.rebalance_timeout_ms)

    # -- syncing

    def _sync(self, request: Sync) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None or group.state is _EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refusal = group.refusal_of(request.member_id, request.instance_id)
        if refusal is not ErrorCode.NONE:
            return refusal
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is _PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        member = group.members[request.member_id]
        group.yet_to_sync.discard(member.member_id)
        if not group.yet_to_sync:
            self._deadlines.cancel(_SyncDue(group.group_id))
        self._refuse_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS)  # an earlier one, that it has given up
        member.syncing = request.ticket
        if group.state is _STABLE:
            self._answer_sync(group, member)
        elif group.leader == member.member_id:
            self._assign(group, request.assignments)
        return ErrorCode.NONE

    def _assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.become(_STABLE, self._time_of_day_ms)
        self._store(group)
        for member in group.members.values():
            self._answer_sync(group, member)

    def _answer_sync(self, group: Group, member: Member, error_code: ErrorCode = ErrorCode.NONE) -> None:
        if member.syncing is None:
            return
        is_good = error_code is ErrorCode.NONE
        self._answers.append(
            (
                member.syncing,
                SyncAnswer(error_code, group.protocol_type, group.protocol_name, member.assignment)
                if is_good
                else SyncAnswer(error_code),
            )
        )
        member.syncing = None
        # Its session may have ended while it waited, which was nobody's fault but the leader's.
        self._extend_session(group, member)

    def _end_sync(self, group: Group) -> None:
        """Members that did not ask for their part of this generation are taken to be gone."""
        if group.state in (_COMPLETING, _STABLE) and group.yet_to_sync:
            for member_id in sorted(group.yet_to_sync):
                self._drop(group, member_id)
            self._prepare_rebalance(group)

    # -- going

    def _leave(self, group: Group, who: Leaving) -> ErrorCode:
        member_id = who.member_id
        if member_id == NOBODY:  # an administrator names a static member
            found = None if who.instance_id is None else group.static_member_id(who.instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id not in group.pending:
            refusal = group.refusal_of(member_id, who.instance_id)
            if refusal is not ErrorCode.NONE:
                return refusal
        self._drop(group, member_id)
        return ErrorCode.NONE

    def _end_session(self, group: Group, member_id: str) -> None:
        """Nothing was heard of it for the length of its session."""
        member = group.members.get(member_id)
        if member is None:
            group.remove(member_id)
            self._complete_join_if_all_came(group)
        elif member.is_new or (member.joining is None and member.syncing is None):
            self._drop(group, member_id)
            if group.state in (_STABLE, _COMPLETING):
                self._rebalance(group)
            elif group.state is _PREPARING and group.has_all_joined:
                self._complete_join(group)

    def _drop(self, group: Group, member_id: str) -> None:
        """It is no member any more; if a request of it waits, it is told so, and comes anew."""
        member = group.members.get(member_id)
        if member is not None:
            self._refuse_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)
        self._deadlines.cancel(_SessionDue(group.group_id, member_id))

    def _refuse_waiting(self, member: Member, error_code: ErrorCode) -> None:
        if member.joining is not None:
            member_id = NOBODY if error_code is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
            self._answers.append((member.joining, JoinAnswer(error_code, member_id)))
        if member.syncing is not None:
            self._answers.append((member.syncing, SyncAnswer(error_code)))
        member.joining = member.syncing = None

    def _extend_session(self, group: Group, member: Member) -> None:
        due_ms = self._now_ms + member.session_timeout_ms
        self._deadlines.set(_SessionDue(group.group_id, member.member_id), due_ms)

    # -- within

    def _store(self, group: Group) -> None:
        key = encode_key(GroupKey(group.group_id))
        self._records.append(StateRecord(key, encode_group(group.stored())))

    def _effects(self, group_id: str | None = None) -> Effects:
        group = None if group_id is None else self._groups.get(group_id)
        if group is not None:
            self._weigh(group)
        effects = Effects(self._records, self._answers)
        self._records, self._answers = [], []
        return effects

    def _weigh(self, group: Group) -> None:
        """What all groups take together is bounded, so each is weighed when it has changed."""
        known_before, bytes_before = self._weights.pop(group.group_id, (0, 0))
        known = len(group.members) + len(group.pending)
        told_bytes = sum(member.size_bytes for member in group.members.values())
        if known:
            self._weights[group.group_id] = known, told_bytes
        self._known += known - known_before
        self._told_bytes += told_bytes - bytes_before
