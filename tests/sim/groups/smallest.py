"""The smallest group: ``g``, which reads ``t-0`` and ``t-1``, and what its coordinator has written."""

from __future__ import annotations

from typing import Final

from semel.core.group.groups import OffsetSettings
from semel.core.group.membership import GroupSettings
from semel.core.group.records import CommittedOffset, OffsetKey, StoredGroup, StoredMember
from semel.sim.groups.assignment import Assignment, CommitNote
from semel.sim.groups.story import GroupPlan, GroupStory, Strategy, Who
from semel.types import TopicPartition

GROUP: Final = "g"
TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
KEY: Final = OffsetKey(GROUP, TP)
PLAN: Final = GroupPlan(
    GROUP,
    ("t",),
    Strategy.RANGE,
    session_timeout_ms=1_000,
    rebalance_timeout_ms=2_000,
    heartbeat_ms=100,
    members=2,
    static_members=0,
)
ANN, BOB = Who(GROUP, "m0.1", "ann"), Who(GROUP, "m1.2", "bob")
OLDER, NEWER = Who(GROUP, "m2.3", "older", "i2"), Who(GROUP, "m2.4", "newer", "i2")


def story(*, offsets_expire: bool = False) -> GroupStory:
    return GroupStory((PLAN,), {"t": 2}, GroupSettings(), OffsetSettings(), offsets_expire)


def stored(generation_id: int, *members: Who) -> StoredGroup:
    """A group as of an assignment."""
    return StoredGroup(
        "consumer",
        generation_id,
        "range",
        members[0].member_id if members else None,
        0,
        tuple(
            StoredMember(who.member_id, who.instance_id, "", "", 2_000, 1_000, b"", b"") for who in members
        ),
    )


def wrote(of: GroupStory, *groups: StoredGroup, durable: bool = True) -> GroupStory:
    """These came into the coordinator's log, one behind the other."""
    for group in groups:
        of.log.group_came(_next(of), GROUP, group)
    if durable:
        of.log.durable_end = _next(of)
    return of


def committed(of: GroupStory, note: str | None, *, durable: bool = True) -> None:
    """A commit came into it; ``None``: a deletion."""
    of.log.offset_came(_next(of), KEY, None if note is None else CommittedOffset(5, metadata=note))
    if durable:
        of.log.durable_end = _next(of)


def _next(of: GroupStory) -> int:
    places = [*of.log.group_places.values(), *of.log.gone_places.values()]
    places += [place for notes in of.log.note_places.values() for place in notes.values()]
    return max(places, default=-1) + 1


def note(who: Who, generation_id: int, number: int = 1) -> str:
    """The text beside its commit of that number."""
    return CommitNote(who.name, number, generation_id, who.member_id).encode()


def part(generation_id: int, *tps: TopicPartition) -> Assignment:
    return Assignment(generation_id, tps)
