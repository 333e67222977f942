"""Committed offsets of consumers that assign partitions themselves. A log-backed core.

The records are Kafka's (``OffsetCommitKey`` version 1, ``OffsetCommitValue`` version 3), so that Kafka's
tools read ``__consumer_offsets``. There are no members or generations yet: a commit of a generation is refused as
by a group that does not know it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from semel.core.decision import Decision, StateRecord
from semel.errors import ErrorCode
from semel.types import NO_LEADER_EPOCH, TopicPartition

METADATA_BYTES_MAX: Final = 4096  # unless the settings say
GROUP_ID_BYTES_MAX: Final = 1024
OFFSETS_MAX: Final = 1_000_000  # of all groups

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_VALUE_HEAD: Final = struct.Struct(">hqi")  # version, offset, leader epoch
_VALUE_TAIL: Final = struct.Struct(">q")  # commit timestamp
_KEY_VERSION: Final = 1
_VALUE_VERSION: Final = 3
_NO_GENERATION: Final = -1


class CommittedOffset(NamedTuple):
    """The next offset to read, and what the consumer wrote beside it."""

    committed_offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_ms: int = -1


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """``offsets``: (partition, offset, leader epoch, metadata)."""

    group_id: str
    offsets: Sequence[tuple[TopicPartition, int, int, str]]
    generation_id: int = _NO_GENERATION
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class ForgetTopic:
    """The topic is deleted: nobody's offsets in it mean anything any more."""

    topic: str


Request: TypeAlias = CommitOffsets | ForgetTopic
Codes: TypeAlias = dict[TopicPartition, ErrorCode]


class Groups:
    """The committed offsets of every group."""

    def __init__(self, metadata_bytes_max: int = METADATA_BYTES_MAX) -> None:
        self._metadata_bytes_max = metadata_bytes_max
        self._offsets: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        """Every group with a committed offset, by name."""
        return iter(sorted(self._offsets))

    def offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All committed offsets of a group; a copy."""
        return dict(self._offsets.get(group_id, {}))

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        return self._offsets.get(group_id, {}).get(partition)

    def decide(self, request: Request, now_ms: int) -> Decision[Codes]:
        """The records to write, and the code for every partition named."""
        match request:
            case CommitOffsets():
                return self._commit(request, now_ms)
            case ForgetTopic(topic):
                forgotten = [
                    (group_id, one)
                    for group_id, offsets in sorted(self._offsets.items())
                    for one in sorted(offsets)
                    if one.topic == topic
                ]
                return Decision(tuple(StateRecord(encode_key(*one), None) for one in forgotten), {})

    def apply(self, record: StateRecord) -> bool:
        decoded = decode_key(record.key)
        if decoded is None:
            return False
        group_id, partition = decoded
        group = self._offsets.setdefault(group_id, {})
        self._count -= group.pop(partition, None) is not None
        if record.value is not None:
            group[partition] = decode_value(record.value)
            self._count += 1
        if not group:
            del self._offsets[group_id]
        return True

    def live_records(self) -> Iterable[StateRecord]:
        for group_id in self:
            for partition, committed in sorted(self._offsets[group_id].items()):
                yield StateRecord(encode_key(group_id, partition), encode_value(committed))

    def _commit(self, request: CommitOffsets, now_ms: int) -> Decision[Codes]:
        refused = _group_error(request)
        if refused is not None:
            return Decision((), {partition: refused for partition, *_ in request.offsets})
        records: list[StateRecord] = []
        codes: Codes = {}
        known = self._offsets.get(request.group_id, {})
        for partition, offset, leader_epoch, metadata in request.offsets:
            if len(metadata.encode()) > self._metadata_bytes_max:
                codes[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            elif offset < 0:
                codes[partition] = ErrorCode.INVALID_REQUEST
            elif partition not in known and self._count + len(records) >= OFFSETS_MAX:
                codes[partition] = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            else:
                codes[partition] = ErrorCode.NONE
                value = encode_value(CommittedOffset(offset, leader_epoch, metadata, now_ms))
                records.append(StateRecord(encode_key(request.group_id, partition), value))
        return Decision(tuple(records), codes)


def _group_error(request: CommitOffsets) -> ErrorCode | None:
    if not 0 < len(request.group_id.encode()) <= GROUP_ID_BYTES_MAX:
        return ErrorCode.INVALID_GROUP_ID
    # Without a generation a commit is nobody's in particular, whatever name it gives itself.
    return ErrorCode.ILLEGAL_GENERATION if request.generation_id >= 0 else None


def encode_key(group_id: str, partition: TopicPartition) -> bytes:
    number = _INT32.pack(partition.partition)
    return _INT16.pack(_KEY_VERSION) + _string(group_id) + _string(partition.topic) + number


def decode_key(key: bytes) -> tuple[str, TopicPartition] | None:
    """The group and partition of a committed offset's key; ``None`` for a key of another kind."""
    if len(key) < _INT16.size or _INT16.unpack_from(key)[0] not in {0, _KEY_VERSION}:
        return None
    group_id, position = _read_string(key, _INT16.size)
    topic, position = _read_string(key, position)
    return group_id, TopicPartition(topic, _INT32.unpack_from(key, position)[0])


def encode_value(committed: CommittedOffset) -> bytes:
    head = _VALUE_HEAD.pack(_VALUE_VERSION, committed.committed_offset, committed.leader_epoch)
    return head + _string(committed.metadata) + _VALUE_TAIL.pack(committed.committed_ms)


def decode_value(value: bytes) -> CommittedOffset:
    _, offset, leader_epoch = _VALUE_HEAD.unpack_from(value)
    metadata, position = _read_string(value, _VALUE_HEAD.size)
    return CommittedOffset(offset, leader_epoch, metadata, _VALUE_TAIL.unpack_from(value, position)[0])


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    start = position + _INT16.size
    end = start + _INT16.unpack_from(data, position)[0]
    return data[start:end].decode(), end
