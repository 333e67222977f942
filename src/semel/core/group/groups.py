"""The coordinator's core: all groups, their members and what they have committed. Log-backed and timed.

Invariants
- A commit of an older generation, or of a fenced instance, changes nothing.
- A committed offset goes only with its group, its topic, by request, or when its time is over; while a member may still
  read its topic, only that of a topic that nobody reads. One in a transaction that is open goes with group and topic
  alike, but never for its time: no offset of a partition is over while a transaction may commit another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from semel.core.decision import Decision, StateRecord
from semel.core.group.group import CONSUMER, Group
from semel.core.group.membership import GROUP_ID_BYTES_MAX, GroupSettings, Membership
from semel.core.group.offsets import GroupRecords
from semel.core.group.records import (
    NEVER,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    decode_key,
    encode_key,
    encode_offset,
)
from semel.core.group.requests import Codes, CommitOffsets, DeleteOffsets
from semel.core.group.states import GroupState
from semel.errors import ErrorCode
from semel.types import TopicPartition

METADATA_BYTES_MAX: Final = 4096  # unless the settings say
OFFSETS_MAX: Final = 1_000_000  # of all groups
RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000  # Kafka's offsets.retention.minutes
_EXPIRED_AT_ONCE: Final = 1_000  # records of one decision about what is over


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """By Kafka's names: ``offset.metadata.max.bytes`` and ``offsets.retention.minutes``."""

    metadata_bytes_max: int = METADATA_BYTES_MAX
    retention_ms: int = RETENTION_MS


class Listed(NamedTuple):
    """A group in a list of them."""

    group_id: str
    protocol_type: str
    state: GroupState


@dataclass(slots=True)
class Groups:
    """``membership`` may be asked; what changes records is decided here or there, and comes back by :meth:`apply`."""

    offset_settings: OffsetSettings = field(default_factory=OffsetSettings)
    settings: GroupSettings = field(default_factory=GroupSettings)
    records: GroupRecords = field(default_factory=GroupRecords, init=False)
    membership: Membership = field(init=False)

    def __post_init__(self) -> None:
        self.membership = Membership(self.settings)

    def apply(self, record: StateRecord) -> bool:
        if record.value is None:
            key = decode_key(record.key)
            if isinstance(key, GroupKey):  # not before: the log may refuse it, and keeps its generation then
                self.membership.forget(key.group_id)
        return self.records.apply(record)

    def apply_pending(self, producer_id: int, record: StateRecord) -> bool:
        """The same of a record in a transaction, which counts once that is committed."""
        return self.records.apply_pending(producer_id, record)

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        """The transaction has ended."""
        self.records.end_pending(producer_id, is_commit=is_commit)

    def live_records(self) -> Iterable[StateRecord]:
        return self.records.live_records()

    # -- what is known

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether a transaction is open that may commit another offset."""
        return self.records.is_pending(OffsetKey(group_id, partition))

    def offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets of a group."""
        return self.records.offsets(group_id)

    def __iter__(self) -> Iterator[Listed]:
        """Every group, by name; those too that only commit offsets, and have no members."""
        known = {group.group_id: group for group in self.membership}
        for group_id in sorted({*known, *self.records}):
            group = known.get(group_id)
            if group is None:
                yield Listed(group_id, "", GroupState.EMPTY)
            else:
                yield Listed(group_id, group.protocol_type or "", group.state)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.records or self.membership.get(group_id) is not None

    # -- decisions

    def commit(self, request: CommitOffsets, now_ms: int, time_of_day_ms: int) -> Decision[Codes]:
        """The records to write, and the code for every partition named."""
        refused = self._refusal_of_commit(request)
        if refused is not ErrorCode.NONE:
            return Decision((), {each.partition: refused for each in request.offsets})
        if request.generation_id >= 0:
            self.membership.heard_of(request.group_id, request.member_id, now_ms)
        expires_ms = NEVER if request.retention_ms < 0 else time_of_day_ms + request.retention_ms
        records: list[StateRecord] = []
        codes: Codes = {}
        known = self.offsets(request.group_id)
        for partition, offset, leader_epoch, metadata in request.offsets:
            if len(metadata.encode()) > self.offset_settings.metadata_bytes_max:
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif partition not in known and self.records.offset_count + len(records) >= OFFSETS_MAX:
                codes[partition] = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            else:
                codes[partition] = ErrorCode.NONE
                value = CommittedOffset(offset, leader_epoch, metadata, time_of_day_ms, expires_ms)
                key = encode_key(OffsetKey(request.group_id, partition))
                records.append(StateRecord(key, encode_offset(value)))
        return Decision(tuple(records), codes)

    def _refusal_of_commit(self, request: CommitOffsets) -> ErrorCode:
        if not 0 < len(request.group_id.encode()) <= GROUP_ID_BYTES_MAX:
            return ErrorCode.INVALID_GROUP_ID
        return self.membership.refusal_of_commit(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.instance_id,
            is_transactional=request.is_transactional,
        )

    def delete_offsets(self, request: DeleteOffsets) -> Decision[ErrorCode | Codes]:
        """The code for every partition named, or one for all (OffsetDelete)."""
        if not request.group_id:
            return Decision((), ErrorCode.INVALID_GROUP_ID)
        if request.group_id not in self:
            return Decision((), ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.membership.get(request.group_id)
        has_members = group is not None and group.state is not GroupState.EMPTY
        if group is not None and has_members and group.protocol_type != CONSUMER:
            return Decision((), ErrorCode.NON_EMPTY_GROUP)
        known = self.offsets(request.group_id)
        records: list[StateRecord] = []
        codes: Codes = {}
        for partition in dict.fromkeys(request.partitions):
            if group is not None and has_members and group.is_subscribed_to(partition.topic):
                codes[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                continue
            codes[partition] = ErrorCode.NONE
            key = OffsetKey(request.group_id, partition)
            if partition in known or self.records.is_pending(key):
                records.append(_tombstone(key))
        return Decision(tuple(records), codes)

    def delete_group(self, group_id: str) -> Decision[ErrorCode]:
        """A group without members goes, with all that it has committed (DeleteGroups)."""
        if group_id not in self:
            return Decision((), ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.membership.get(group_id)
        if group is not None and group.state is not GroupState.EMPTY:
            return Decision((), ErrorCode.NON_EMPTY_GROUP)
        keys: list[OffsetKey | GroupKey] = [*self.records.of_group(group_id)]
        if group is not None or group_id in self.records.stored:
            keys.append(GroupKey(group_id))
        return Decision(tuple(map(_tombstone, keys)), ErrorCode.NONE)

    def forget_topic(self, topic: str) -> Decision[None]:
        """The topic is deleted: nobody's offsets in it mean anything any more."""
        return Decision(tuple(map(_tombstone, self.records.of_topic(topic))), None)

    def forget_what_is_over(self, time_of_day_ms: int) -> Decision[bool]:
        """Offsets whose time is over, and groups that have neither members nor offsets; some, and whether there may
        be more.
        """
        over = list(islice(self._over(time_of_day_ms), _EXPIRED_AT_ONCE))
        return Decision(tuple(map(_tombstone, over)), len(over) == _EXPIRED_AT_ONCE)

    def _over(self, time_of_day_ms: int) -> Iterator[OffsetKey | GroupKey]:
        for listed in self:
            group_id = listed.group_id
            group = self.membership.get(group_id)
            offsets = self.offsets(group_id)
            gone = 0
            for partition, committed in sorted(offsets.items()):
                begins_ms = self._ages_from(group, partition.topic, committed)
                if begins_ms is None:
                    continue
                end_ms = (
                    committed.expires_ms
                    if committed.expires_ms != NEVER
                    else (begins_ms + self.offset_settings.retention_ms)
                )
                if end_ms <= time_of_day_ms and not self.is_unstable(group_id, partition):
                    gone += 1
                    yield OffsetKey(group_id, partition)
            is_empty = group is not None and group.state is GroupState.EMPTY and not group.pending
            if is_empty and not self.records.has_pending(group_id) and gone == len(offsets):
                yield GroupKey(group_id)

    def _ages_from(self, group: Group | None, topic: str, committed: CommittedOffset) -> int | None:
        """Since when an offset is not in use, or None (Kafka's ``offsetExpirationCondition``)."""
        if group is None or not group.protocol_type:
            return committed.committed_ms  # of a consumer that assigns its partitions itself
        if group.state is GroupState.EMPTY:
            return max(group.since_ms, committed.committed_ms)
        is_read_by_nobody = (
            group.state is GroupState.STABLE
            and group.subscribed_topics is not None
            and not group.is_subscribed_to(topic)
        )
        return committed.committed_ms if is_read_by_nobody else None


def _tombstone(key: OffsetKey | GroupKey) -> StateRecord:
    return StateRecord(encode_key(key), None)
