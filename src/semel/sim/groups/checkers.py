"""The invariants of groups: by what members were told, and by what the coordinator's log says and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.core.group.records import CommittedOffset, OffsetKey, StoredGroup
from semel.errors import ErrorCode
from semel.sim.checkers.checker import Checker
from semel.sim.groups.assignment import Assignment, decode_note
from semel.sim.groups.story import GroupPlan, GroupStory, Who
from semel.sim.groups.watcher import GroupLogWatcher, MemberWatcher
from semel.types import TopicPartition
from semel.wire.api import ApiKey

_LONG_AGO_MS = -(10**15)
_NO_MEMBER = -1  # the generation that a commit names whose sender is none


@dataclass(slots=True)
class _Deletions:
    """When which group was deleted last: its generations begin anew."""

    _gone_ms: dict[str, int] = field(default_factory=dict)

    def note(self, group_id: str, now_ms: int) -> None:
        self._gone_ms[group_id] = now_ms

    def came_after(self, group_id: str, sent_ms: int) -> bool:
        """What was asked by then says nothing of the group that there is now, however late its answer was heard."""
        return sent_ms <= self._gone_ms.get(group_id, -1)


class OneOwnerAGeneration(Checker, MemberWatcher, GroupLogWatcher):
    """``one_owner_a_generation``: at most one member is told that it owns a partition in one generation of a group.

    What it is told was made in that generation, and is durable: else a restart could hand the partition to somebody
    else. Copies of a static member are one owner. Judged at every answer to a sync; where a group was deleted its
    generations begin anew, and answers to what was asked before say nothing.
    """

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}
        self._deletions = _Deletions()

    def group_written(
        self, story: GroupStory, group_id: str, stored: StoredGroup | None, now_ms: int
    ) -> None:
        if stored is None:
            self._deletions.note(group_id, now_ms)
            self._owners = {key: owners for key, owners in self._owners.items() if key[0] != group_id}

    def member_assigned(
        self,
        story: GroupStory,
        who: Who,
        generation_id: int,
        assignment: Assignment | None,
        sent_ms: int,
        now_ms: int,
    ) -> None:
        if self._deletions.came_after(who.group_id, sent_ms):
            return
        if not _has_durably(story, who.group_id, generation_id):
            raise self.violated(f"{who} has its part of generation {generation_id}, which is not durable")
        if assignment is None:
            return
        if assignment.generation_id != generation_id:
            raise self.violated(
                f"{who} has a part of generation {assignment.generation_id} in generation {generation_id}"
            )
        owners = self._owners.setdefault((who.group_id, generation_id), {})
        for tp in assignment.partitions:
            owner = owners.setdefault(tp, who.owner)
            if owner != who.owner:
                raise self.violated(f"{owner} and {who} both own {tp} in generation {generation_id}")


def _has_durably(story: GroupStory, group_id: str, generation_id: int) -> bool:
    """Whether an assignment of that generation, or of a later one, can no longer be lost."""
    return any(
        of_generation >= generation_id and story.log.is_durable(place)
        for of_generation, place in story.log.assigned_places.get(group_id, ())
    )


class GenerationOnlyRises(Checker, MemberWatcher, GroupLogWatcher):
    """``generation_only_rises``: behind an assignment nobody is told of an older generation as of the present one.

    Not by a join, a sync or a heartbeat, and across restarts: what was assigned was durable. (Of a generation that was
    never assigned a restart knows nothing, and the next one may have its number, as in Apache Kafka.) Judged at every
    answer, by what anybody had been told before it was asked for; a group that was deleted begins anew.
    """

    def __init__(self) -> None:
        self._told: dict[str, list[tuple[int, int]]] = {}  # when which generation was first told, rising
        self._deletions = _Deletions()

    def group_written(
        self, story: GroupStory, group_id: str, stored: StoredGroup | None, now_ms: int
    ) -> None:
        if stored is None:
            self._deletions.note(group_id, now_ms)
            self._told.pop(group_id, None)

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
        if code is not ErrorCode.NONE or self._deletions.came_after(who.group_id, sent_ms):
            return
        told = self._told.setdefault(who.group_id, [])
        newest = max((known for told_ms, known in told if told_ms < sent_ms), default=0)
        if generation_id < newest:
            raise self.violated(
                f"{who} was told of generation {generation_id} by {api_key.name}, behind {newest}"
            )
        if api_key is ApiKey.SYNC_GROUP and (not told or told[-1][1] < generation_id):
            told.append((now_ms, generation_id))


class OlderGenerationNeverCommits(Checker, GroupLogWatcher):
    """``older_generation_never_commits``: no commit of an older generation, of a fenced instance, or of one that is no
    member, stands behind the newer generation's beginning.

    Judged as a commit is written, by the group's newest record in the log in front of it, and by who the text beside
    the offset says has sent it. A sender that is no member may commit only where the group has none. Where the disk has
    refused a record of groups since, the log does not say what the coordinator knows.
    """

    def offset_written(self, story: GroupStory, key: OffsetKey, committed: CommittedOffset | None) -> None:
        note = None if committed is None else decode_note(committed.metadata)
        if note is None or story.log.is_in_doubt(key.group_id):
            return
        group = story.log.groups.get(key.group_id)
        if note.generation_id == _NO_MEMBER:
            if group is not None and group.members:
                raise self.violated(f"{note} of no member stands behind {_told(group)}")
        elif (
            group is None
            or group.generation_id != note.generation_id
            or note.member_id not in {member.member_id for member in group.members}
        ):
            raise self.violated(f"{note} stands behind {'no group' if group is None else _told(group)}")


def _told(group: StoredGroup) -> str:
    return f"generation {group.generation_id} of {[member.member_id for member in group.members]}"


@dataclass(slots=True)
class _Acknowledged:
    """Of one partition in one group: when which place was acknowledged, both rising."""

    places: list[tuple[int, int]] = field(default_factory=list)

    def note(self, now_ms: int, place: int) -> None:
        if not self.places or place > self.places[-1][1]:
            self.places.append((now_ms, place))

    def before(self, ms: int) -> int:
        return max((place for told_ms, place in self.places if told_ms < ms), default=-1)


class CommittedPositionNeverLost(Checker, MemberWatcher, GroupLogWatcher):
    """``committed_position_never_lost``: a commit that was acknowledged is durable, and is what a fetch says from then
    on, unless a later commit, a deletion of group or topic, or its expiry came.

    Expiry comes only to a group without members, as everybody in a group reads its topics. Judged at every
    acknowledgement and every answer to a fetch, by the log's order of commits, as far as it was written by then; and as
    a deletion is written.
    """

    def __init__(self) -> None:
        self._acknowledged: dict[OffsetKey, _Acknowledged] = {}

    def offset_written(self, story: GroupStory, key: OffsetKey, committed: CommittedOffset | None) -> None:
        if committed is not None or story.log.is_in_doubt(key.group_id):
            return
        group = story.log.groups.get(key.group_id)
        is_read = group is not None and bool(group.members)
        was_asked_for = key.partition.topic in story.deleted_topics or key.group_id in story.deleted_groups
        if not was_asked_for and (is_read or not story.offsets_expire):
            raise self.violated(f"{key} is forgotten, which nobody asked for")

    def commit_acknowledged(
        self, story: GroupStory, who: Who, notes: Mapping[TopicPartition, str], now_ms: int
    ) -> None:
        for tp, note in notes.items():
            key = OffsetKey(who.group_id, tp)
            place = story.log.first_places.get(key, {}).get(note)
            if place is None or not story.log.is_durable(place):
                raise self.violated(f"{note} for {tp} was acknowledged before it was durable")
            self._acknowledged.setdefault(key, _Acknowledged()).note(now_ms, place)

    def position_told(
        self, story: GroupStory, group_id: str, tp: TopicPartition, note: str | None, sent_ms: int
    ) -> None:
        key = OffsetKey(group_id, tp)
        acknowledged = self._acknowledged.get(key)
        floor = -1 if acknowledged is None else acknowledged.before(sent_ms)
        place = _place_of(story, key, note)
        if place < floor:
            raise self.violated(
                f"{key} is said to be at {note} (place {place}), though place {floor} was acknowledged"
            )


def _place_of(story: GroupStory, key: OffsetKey, note: str | None) -> int:
    """Where that commit was written last; or, where there is none, that all are gone."""
    if note is None:
        return story.log.gone_places.get(key, -1)
    return story.log.note_places.get(key, {}).get(note, -1)


@dataclass(slots=True)
class _LastHeard:
    sent_ms: int
    counts_from_ms: int  # its session, and its time to ask for its part
    is_stored: bool = False


@dataclass(slots=True)
class _Register:
    """When members were last heard of, as their answers show, and by which of the server's lives."""

    heard: dict[str, _LastHeard] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    left_ms: dict[str, int] = field(default_factory=dict)  # when a copy of a static member said so
    # Of each group's generations: when somebody last asked who was answered as of it.
    present_ms: dict[str, dict[int, int]] = field(default_factory=dict)
    came_up_ms: int = 0

    def leaves(self, who: Who, now_ms: int) -> None:
        self.leaving.add(who.member_id)
        if who.instance_id is not None:
            self.left_ms[who.instance_id] = now_ms

    def judge(
        self,
        plan: GroupPlan,
        who: Who,
        api_key: ApiKey,
        code: ErrorCode,
        generation_id: int,
        sent_ms: int,
        now_ms: int,
    ) -> tuple[int, bool] | None:
        """Of one who is told in time that it is no member: for how long nothing was heard of it, and whether the server
        was started since. A commit does not count: it may come in the middle of a rebalance, whose end is due.
        """
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) and generation_id >= 0:
            present_ms = self.present_ms.setdefault(who.group_id, {})
            present_ms[generation_id] = max(present_ms.get(generation_id, -1), sent_ms)
        if code is ErrorCode.NONE:
            counts_from_ms = sent_ms
            if api_key is ApiKey.JOIN_GROUP:
                counts_from_ms = min(sent_ms, self._begins_after_ms(who.group_id, generation_id))
            known = self.heard.setdefault(who.member_id, _LastHeard(sent_ms, counts_from_ms))
            known.sent_ms = max(known.sent_ms, sent_ms)
            known.counts_from_ms = max(known.counts_from_ms, counts_from_ms)
            known.is_stored |= api_key is ApiKey.SYNC_GROUP
            return None
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.leaving.add(who.member_id)
        if code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return None
        known_before = self.heard.pop(who.member_id, None)
        if known_before is None or who.member_id in self.leaving:
            return None
        if self.left_ms.get(who.instance_id or "", -1) >= known_before.sent_ms:  # a newer copy came and went
            return None
        silent_ms = now_ms - known_before.counts_from_ms
        was_restarted = self.came_up_ms >= known_before.sent_ms
        if silent_ms >= plan.patience_ms or (was_restarted and not known_before.is_stored):
            return None
        return silent_ms, was_restarted

    def _begins_after_ms(self, group_id: str, generation_id: int) -> int:
        """When a generation had not begun yet, as far as is known: somebody who asked then was answered as of an older
        one.
        """
        older = (ms for known, ms in self.present_ms[group_id].items() if known < generation_id)
        return max(older, default=_LONG_AGO_MS)


class MemberInTimeStays(Checker, MemberWatcher, GroupLogWatcher):
    """``member_in_time_stays``: nobody is told that it is no member who was heard of within its session.

    Nor within the time for a rebalance, which drops who does not join. Judged at every answer, from when the last one
    was asked for that said otherwise; who leaves is left out, and who was told so by another life of the server. Who
    joins was heard of when the generation began, as far as is known: a join that is repeated in it is answered at once,
    and gives no more time, as in Apache Kafka.
    """

    def __init__(self) -> None:
        self._register = _Register()

    def coordinator_came_up(self, story: GroupStory, now_ms: int) -> None:
        self._register.came_up_ms = now_ms

    def member_leaves(self, who: Who, now_ms: int) -> None:
        self._register.leaves(who, now_ms)

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
        found = self._register.judge(plan, who, api_key, code, generation_id, sent_ms, now_ms)
        if found is not None and not found[1]:
            raise self.violated(f"{who} is no member, after {found[0]} ms of {plan.patience_ms}")


class RestartKeepsMembers(Checker, MemberWatcher, GroupLogWatcher):
    """``restart_keeps_members``: a server that was started anew knows the members of what it had assigned, and their
    generation.

    Nobody who has its part of a durable assignment, and is heard of within its session, is told because of a restart
    that it is no member. Judged at every answer, as ``member_in_time_stays`` is; and as a server comes up, by what it
    has found: all who were told their parts in the generation that is the newest there; where a group was deleted, in
    those of the next one alone.
    """

    def __init__(self) -> None:
        self._deletions = _Deletions()
        self._register = _Register()
        self._assigned: dict[
            str, tuple[int, dict[str, str]]
        ] = {}  # the newest generation's: owners by member id

    def group_written(
        self, story: GroupStory, group_id: str, stored: StoredGroup | None, now_ms: int
    ) -> None:
        if stored is None:
            self._deletions.note(group_id, now_ms)
            self._assigned.pop(group_id, None)

    def member_leaves(self, who: Who, now_ms: int) -> None:
        self._register.leaves(who, now_ms)

    def member_assigned(
        self,
        story: GroupStory,
        who: Who,
        generation_id: int,
        assignment: Assignment | None,
        sent_ms: int,
        now_ms: int,
    ) -> None:
        if self._deletions.came_after(who.group_id, sent_ms):
            return
        newest, owners = self._assigned.get(who.group_id, (-1, {}))
        if generation_id > newest:
            newest, owners = self._assigned[who.group_id] = generation_id, {}
        if generation_id == newest:
            owners[who.member_id] = who.owner

    def coordinator_came_up(self, story: GroupStory, now_ms: int) -> None:
        self._register.came_up_ms = now_ms
        for group_id, (generation_id, owners) in self._assigned.items():
            group = story.log.groups.get(group_id)
            if group is None or group.generation_id < generation_id:
                was = "not" if group is None else f"in generation {group.generation_id}"
                raise self.violated(f"{group_id} is found {was}, and had generation {generation_id}")
            if group.generation_id > generation_id:  # nobody has heard of it yet
                continue
            found = {member.instance_id or member.member_id for member in group.members}
            for member_id, owner in owners.items():
                if member_id not in found and owner not in found and member_id not in self._register.leaving:
                    raise self.violated(f"{group_id} is found without {member_id}, in {_told(group)}")

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
        found = self._register.judge(plan, who, api_key, code, generation_id, sent_ms, now_ms)
        if found is not None and found[1]:
            raise self.violated(
                f"{who} is no member since a restart, after {found[0]} ms of {plan.patience_ms}"
            )


class GroupBecomesStable(Checker, MemberWatcher):
    """``group_becomes_stable``: once faults have ended and members stay, all of them are in one generation, and own all
    partitions between them, within a session and two rebalances.

    Judged at the end, from when nothing of before can still be under way.
    """

    def group_waited(self, group_id: str, waited_ms: int, patience_ms: int, what_is_open: str | None) -> None:
        if what_is_open is not None and waited_ms > patience_ms:
            raise self.violated(f"{group_id} after {waited_ms} ms: {what_is_open}")
