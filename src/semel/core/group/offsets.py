"""What the groups have committed, and which of them are stored: the sum of the records of ``__consumer_offsets``.

Only :meth:`GroupRecords.apply` changes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from semel.core.decision import StateRecord
from semel.core.group.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)
from semel.types import TopicPartition


class _Pending(NamedTuple):
    """An offset in a transaction that is open; ``number`` rises in the order of the log."""

    number: int
    value: bytes | None


class GroupRecords:
    """All groups', by group id."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._stored: dict[str, StoredGroup] = {}
        self._pending: dict[int, dict[OffsetKey, _Pending]] = {}  # by the producer whose transaction is open
        self._pending_keys: Counter[OffsetKey] = Counter()  # in how many transactions each is
        self._pending_groups: Counter[str] = Counter()  # how many keys of each are in one
        self._pending_so_far = 0
        self.offset_count = 0  # of those that count, and of those that may come to

    def __iter__(self) -> Iterator[str]:
        """Every group of which there is a record, by name."""
        return iter(sorted({*self._offsets, *self._stored}))

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._offsets or group_id in self._stored or self.has_pending(group_id)

    def offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._offsets.get(group_id, {})

    @property
    def stored(self) -> Mapping[str, StoredGroup]:
        return self._stored

    def committed(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """Every committed offset, by group."""
        for group_id, offsets in sorted(self._offsets.items()):
            for partition, committed in sorted(offsets.items()):
                yield OffsetKey(group_id, partition), committed

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Every offset of ``topic``, committed or in a transaction that is open."""
        return (key for key in self._keys() if key.partition.topic == topic)

    def of_group(self, group_id: str) -> list[OffsetKey]:
        """The same of a group."""
        keys = {OffsetKey(group_id, partition) for partition in self.offsets(group_id)}
        if self.has_pending(group_id):
            keys.update(key for key in self._pending_keys if key.group_id == group_id)
        return sorted(keys)

    def _keys(self) -> list[OffsetKey]:
        return sorted({key for key, _ in self.committed()} | self._pending_keys.keys())

    def apply(self, record: StateRecord) -> bool:
        key = decode_key(record.key)
        match key:
            case OffsetKey(group_id, partition):
                self._forget_pending(key, self._pending_so_far)
                self._apply_offset(group_id, partition, record.value)
            case GroupKey(group_id):
                if record.value is None:
                    self._stored.pop(group_id, None)
                else:
                    self._stored[group_id] = decode_group(record.value)
        return key is not None

    # -- in transactions

    def is_pending(self, key: OffsetKey) -> bool:
        return key in self._pending_keys

    def has_pending(self, group_id: str) -> bool:
        """Whether any of the group's is."""
        return group_id in self._pending_groups

    def apply_pending(self, producer_id: int, record: StateRecord) -> bool:
        key = decode_key(record.key)
        if not isinstance(key, OffsetKey):
            return False
        self._pending_so_far += 1
        offsets = self._pending.setdefault(producer_id, {})
        if key not in offsets:
            self._pending_groups[key.group_id] += 1
            self._pending_keys[key] += 1
            self.offset_count += 1
        offsets[key] = _Pending(self._pending_so_far, record.value)
        return True

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        """What is committed counts from where it stands in the log, not from where the transaction ends: of a key its
        newest record does, as compaction has it (Kafka's ``completePendingTxnOffsetCommit``).
        """
        for key, pending in self._pending.pop(producer_id, {}).items():
            self._is_pending_no_more(key)
            if is_commit:
                self._forget_pending(key, pending.number)
                self._apply_offset(key.group_id, key.partition, pending.value)

    def _forget_pending(self, key: OffsetKey, up_to: int) -> None:
        """Older ones of the same key than the one that counts now."""
        if key not in self._pending_keys:
            return
        for producer_id, offsets in list(self._pending.items()):
            if key in offsets and offsets[key].number <= up_to:
                del offsets[key]
                self._is_pending_no_more(key)
                if not offsets:
                    del self._pending[producer_id]

    def _is_pending_no_more(self, key: OffsetKey) -> None:
        self.offset_count -= 1
        self._pending_keys[key] -= 1
        if not self._pending_keys[key]:
            del self._pending_keys[key]
        self._pending_groups[key.group_id] -= 1
        if not self._pending_groups[key.group_id]:
            del self._pending_groups[key.group_id]

    def _apply_offset(self, group_id: str, partition: TopicPartition, value: bytes | None) -> None:
        group = self._offsets.setdefault(group_id, {})
        self.offset_count -= group.pop(partition, None) is not None
        if value is not None:
            group[partition] = decode_offset(value)
            self.offset_count += 1
        if not group:
            del self._offsets[group_id]

    def live_records(self) -> Iterable[StateRecord]:
        for group_id, stored in sorted(self._stored.items()):
            yield StateRecord(encode_key(GroupKey(group_id)), encode_group(stored))
        for key, committed in self.committed():
            yield StateRecord(encode_key(key), encode_offset(committed))
