"""What may be watched of groups; no hook does anything by itself."""

from __future__ import annotations

from collections.abc import Mapping

from semel.core.group.records import CommittedOffset, OffsetKey, StoredGroup
from semel.errors import ErrorCode
from semel.sim.groups.assignment import Assignment
from semel.sim.groups.story import GroupPlan, GroupStory, Who
from semel.types import TopicPartition
from semel.wire.api import ApiKey


class MemberWatcher:
    """What members are told. ``sent_ms``: when they asked, ``now_ms``: when they heard."""

    def member_answered(
        self,
        plan: GroupPlan,
        who: Who,
        api_key: ApiKey,
        code: ErrorCode,
        generation_id: int,
        sent_ms: int,
        now_ms: int,
    ) -> None:
        """A join was answered with this generation; or a sync or a heartbeat, which named it."""

    def member_assigned(
        self,
        story: GroupStory,
        who: Who,
        generation_id: int,
        assignment: Assignment | None,
        sent_ms: int,
        now_ms: int,
    ) -> None:
        """A sync was answered with this part of the whole."""

    def member_leaves(self, who: Who, now_ms: int) -> None:
        """It is about to say so."""

    def commit_acknowledged(
        self, story: GroupStory, who: Who, notes: Mapping[TopicPartition, str], now_ms: int
    ) -> None:
        """Commits with these texts were taken."""

    def position_told(
        self, story: GroupStory, group_id: str, tp: TopicPartition, note: str | None, sent_ms: int
    ) -> None:
        """The commit with this text is the newest, or there is none."""

    def group_waited(self, group_id: str, waited_ms: int, patience_ms: int, what_is_open: str | None) -> None:
        """A world without faults goes on so long; ``None``: the group is stable, and all partitions are owned."""


class GroupLogWatcher:
    """What the coordinator writes. ``story.log`` does not have it yet."""

    def group_written(
        self, story: GroupStory, group_id: str, stored: StoredGroup | None, now_ms: int
    ) -> None:
        """A group as of an assignment, or with nobody left; ``None``: it is gone."""

    def offset_written(self, story: GroupStory, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """A commit; ``None``: it is gone."""

    def coordinator_came_up(self, story: GroupStory, now_ms: int) -> None:
        """A process is about to serve what ``story.log`` has."""
