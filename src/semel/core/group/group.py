"""One group's members and what they agreed on (Kafka's ``ClassicGroup``). It keeps the books; what follows from what is
in :mod:`semel.core.group.membership`.

Invariants
- The leader is a member, if there is any.
- A group instance id names one member at most (KIP-345).
- ``protocol_name`` is one that all members of the generation had named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.core.group.records import StoredGroup, StoredMember
from semel.core.group.states import VALID_PREVIOUS, GroupState
from semel.core.group.subscription import subscribed_topics
from semel.errors import ErrorCode

CONSUMER: Final = "consumer"


class Protocol(NamedTuple):
    """An assignor by name, and what the member tells the leader for it."""

    name: str
    metadata: bytes


@dataclass(slots=True, eq=False)
class Member:
    """``joining`` and ``syncing`` are the requests that await an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[Protocol]
    assignment: bytes = b""
    joining: int | None = None
    syncing: int | None = None
    is_new: bool = False  # it does not know its id yet, and so sends no heartbeats

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """What it said for this protocol; nothing, if it did not name it."""
        return next((one.metadata for one in self.protocols if one.name == protocol_name), b"")

    @property
    def size_bytes(self) -> int:
        """About what it takes to keep."""
        return len(self.assignment) + sum(len(one.name) + len(one.metadata) for one in self.protocols)


class Group:
    """One group, as its members are now."""

    def __init__(self, group_id: str, time_of_day_ms: int) -> None:
        self.group_id: Final = group_id
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: Final[dict[str, Member]] = {}
        # Ids that were given out, and nobody has come back with (KIP-394); and members who have the generation, and did
        # not ask for their part of it.
        self.pending: Final[set[str]] = set()
        self.yet_to_sync: Final[set[str]] = set()
        self.is_first_rebalance = False  # it had no members before
        self.has_newcomers = False  # since the first rebalance was last put off
        self.put_off_ms = 0  # for so long, at most, the first rebalance may be put off yet
        self.since_ms = time_of_day_ms  # of the state
        self.subscribed_topics: frozenset[str] | None = None  # None: nobody can tell
        self._state = GroupState.EMPTY
        self._static: dict[str, str] = {}

    @classmethod
    def load(cls, group_id: str, stored: StoredGroup, time_of_day_ms: int) -> Group:
        """As it was stored: its members are taken to be there still."""
        group = cls(group_id, stored.since_ms if stored.since_ms >= 0 else time_of_day_ms)
        group.generation_id = stored.generation_id
        group.protocol_type = stored.protocol_type or None
        group.protocol_name = stored.protocol_name
        for each in stored.members:
            protocols = (Protocol(stored.protocol_name or "", each.subscription),)
            member = Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                protocols,
                each.assignment,
            )
            group.add(member)
        if group.members:
            group._state = GroupState.STABLE
            group.leader = stored.leader if stored.leader in group.members else next(iter(group.members))
        group._note_subscriptions()
        return group

    def stored(self) -> StoredGroup:
        """What is to be kept of it."""
        members = tuple(
            StoredMember(
                one.member_id,
                one.instance_id,
                one.client_id,
                one.client_host,
                one.rebalance_timeout_ms,
                one.session_timeout_ms,
                one.metadata_for(self.protocol_name),
                one.assignment,
            )
            for one in self.members.values()
        )
        return StoredGroup(
            self.protocol_type or "",
            self.generation_id,
            self.protocol_name,
            self.leader,
            self.since_ms,
            members,
        )

    # -- what is known

    @property
    def state(self) -> GroupState:
        return self._state

    @property
    def can_rebalance(self) -> bool:
        return self._state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def joining(self) -> int:
        """How many members wait for the next generation."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def has_all_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member_id(self, instance_id: str) -> str | None:
        return self._static.get(instance_id)

    def refusal_of(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why whoever says to be this member is not, or NONE."""
        if instance_id is not None:
            known = self._static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether a member with these could be one beside all that there are."""
        named = [one.name for one in protocols]
        if self._state is GroupState.EMPTY:
            return bool(protocol_type and named)
        if protocol_type != self.protocol_type:
            return False
        if not self.members:  # all have left a rebalance that goes on
            return bool(named)
        candidates = self._candidates()
        return any(name in candidates for name in named)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may read ``topic``: also where nobody can tell what consumers read."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def selected_protocol(self) -> str:
        """The one that most members like best, of those that all of them know."""
        candidates = self._candidates()
        votes = Counter(
            next(one.name for one in member.protocols if one.name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def _candidates(self) -> set[str]:
        members = iter(self.members.values())
        found = {one.name for one in next(members).protocols} if self.members else set()
        for member in members:
            found.intersection_update(one.name for one in member.protocols)
        return found

    # -- what happens to it

    def become(self, state: GroupState, time_of_day_ms: int) -> None:
        assert self._state in VALID_PREVIOUS[state], f"{self._state} -> {state}"
        self.is_first_rebalance = self._state is GroupState.EMPTY
        self._state, self.since_ms = state, time_of_day_ms

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        self.pending.discard(member.member_id)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Of a member, or of an id that was given out."""
        self.pending.discard(member_id)
        self.yet_to_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old_id: str, new_id: str) -> Member:
        """Its next copy takes a static member's place, and keeps what it has."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        member.member_id = new_id
        self.members[new_id] = member
        self._static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        self.yet_to_sync.discard(old_id)  # the time for that began before this copy came; it has its session
        return member

    def elect_leader_that_joined(self) -> bool:
        """A leader that has not come back gives way to a member that has; whether there is one."""
        if self.leader is not None and self.members[self.leader].joining is not None:
            return True
        found = next((one for one in self.members.values() if one.joining is not None), None)
        if found is not None:
            self.leader = found.member_id
        return found is not None

    def begin_generation(self, time_of_day_ms: int) -> None:
        """Everybody who is a member now is one of the next generation."""
        self.generation_id = self.generation_id % (2**31 - 1) + 1
        if self.members:
            self.protocol_name = self.selected_protocol()
            self.become(GroupState.COMPLETING_REBALANCE, time_of_day_ms)
        else:
            self.protocol_name = None
            self.become(GroupState.EMPTY, time_of_day_ms)
        self._note_subscriptions()

    def _note_subscriptions(self) -> None:
        self.subscribed_topics = None
        if self.protocol_type == CONSUMER and self.protocol_name is not None:
            told = [subscribed_topics(one.metadata_for(self.protocol_name)) for one in self.members.values()]
            known = [topics for topics in told if topics is not None]
            if len(known) == len(told):
                self.subscribed_topics = frozenset().union(*known)
        elif self.protocol_type == CONSUMER and not self.members:
            self.subscribed_topics = frozenset()
