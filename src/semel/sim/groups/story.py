"""The groups of a history, the topics that they read, and what was asked of both. What the checkers know of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from semel.core.group.groups import OffsetSettings
from semel.core.group.membership import GroupSettings
from semel.sim.groups.log import GroupLog

PROTOCOL_TYPE: Final = "consumer"


class Strategy(StrEnum):
    """How a leader assigns; the value is the protocol's name."""

    RANGE = "range"
    ARBITRARY = "arbitrary"  # another order each time: somebody owns what somebody else owned before
    COOPERATIVE = "cooperative"  # who has a partition keeps it until it was told to let it go (KIP-429)


class Who(NamedTuple):
    """Who asks the coordinator: a process, under the names that it has there."""

    group_id: str
    name: str  # of the process: no two of a history have the same
    member_id: str
    instance_id: str | None = None

    @property
    def owner(self) -> str:
        """Copies of a static member are one owner: the older one is fenced."""
        return self.name if self.instance_id is None else self.instance_id


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group, as all its members understand it."""

    group_id: str
    topics: tuple[str, ...]
    strategy: Strategy
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_ms: int
    members: int
    static_members: int  # of them

    @property
    def patience_ms(self) -> int:
        """So long after it was heard of nobody may be taken for gone."""
        return min(self.session_timeout_ms, self.rebalance_timeout_ms)


@dataclass(slots=True)
class GroupStory:
    """Of one history. ``topics`` with their partitions, as they were made or are to be."""

    plans: tuple[GroupPlan, ...]
    topics: dict[str, int]
    group_settings: GroupSettings
    offset_settings: OffsetSettings
    offsets_expire: bool  # within the history
    deleted_topics: set[str] = field(default_factory=set)  # somebody asked for it
    deleted_groups: set[str] = field(default_factory=set)  # likewise
    log: GroupLog = field(default_factory=GroupLog)  # the coordinator's
    is_made: bool = False  # the topics are there
