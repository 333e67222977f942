"""The records of ``__consumer_offsets``, in the formats of Kafka's that its formatter reads.

``OffsetCommitKey`` version 1 with ``OffsetCommitValue`` version 3 (version 1 where the client said how long to keep
it), ``GroupMetadataKey`` version 2 with ``GroupMetadataValue`` version 3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from semel.types import NO_LEADER_EPOCH, TopicPartition

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_HEAD: Final = struct.Struct(">hqi")  # version, offset, leader epoch
_EXPIRING_HEAD: Final = struct.Struct(">hq")  # version, offset
_TWO_TIMES: Final = struct.Struct(">qq")  # of the commit, of its end
_OFFSET_KEY: Final = _INT16.pack(1)
_OFFSET_KEYS: Final = frozenset({_INT16.pack(0), _OFFSET_KEY})
_GROUP_KEY: Final = _INT16.pack(2)
_OFFSET_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1
_GROUP_VERSION: Final = 3
_NULL: Final = -1

NEVER: Final = -1


class CommittedOffset(NamedTuple):
    """The next offset to read, and what the consumer wrote with it.

    Below 0 it is what its consumer says: -2 and -1 are "the earliest" and "the latest" to some; to most it is as if
    nothing were committed.
    """

    committed_offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_ms: int = -1
    expires_ms: int = NEVER  # as clients before 2.1 could ask for


class OffsetKey(NamedTuple):
    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    group_id: str


Key: TypeAlias = OffsetKey | GroupKey


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member as of the last assignment. ``subscription`` and ``assignment`` are the clients' own bytes."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as of its last assignment, or as it became empty at ``since_ms``."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    since_ms: int
    members: tuple[StoredMember, ...] = ()


def encode_key(key: Key) -> bytes:
    if isinstance(key, GroupKey):
        return _GROUP_KEY + _string(key.group_id)
    topic, number = key.partition
    return _OFFSET_KEY + _string(key.group_id) + _string(topic) + _INT32.pack(number)


def decode_key(key: bytes) -> Key | None:
    """``None`` for a key of another kind."""
    version = key[: _INT16.size]
    if version == _GROUP_KEY:
        return GroupKey(_string_at(key, _INT16.size)[0])
    if version not in _OFFSET_KEYS:
        return None
    group_id, position = _string_at(key, _INT16.size)
    topic, position = _string_at(key, position)
    return OffsetKey(group_id, TopicPartition(topic, _INT32.unpack_from(key, position)[0]))


def encode_offset(committed: CommittedOffset) -> bytes:
    offset, leader_epoch, metadata, committed_ms, expires_ms = committed
    if expires_ms == NEVER:
        head = _OFFSET_HEAD.pack(_OFFSET_VERSION, offset, leader_epoch)
        return head + _string(metadata) + _INT64.pack(committed_ms)
    times = _TWO_TIMES.pack(committed_ms, expires_ms)
    return _EXPIRING_HEAD.pack(_EXPIRING_VERSION, offset) + _string(metadata) + times


def decode_offset(value: bytes) -> CommittedOffset:
    version, offset = _EXPIRING_HEAD.unpack_from(value)
    leader_epoch, position = NO_LEADER_EPOCH, _EXPIRING_HEAD.size
    if version >= _OFFSET_VERSION:
        version, offset, leader_epoch = _OFFSET_HEAD.unpack_from(value)
        position = _OFFSET_HEAD.size
    metadata, position = _string_at(value, position)
    if version == _EXPIRING_VERSION:
        return CommittedOffset(offset, leader_epoch, metadata, *_TWO_TIMES.unpack_from(value, position))
    return CommittedOffset(offset, leader_epoch, metadata, _INT64.unpack_from(value, position)[0])


def encode_group(group: StoredGroup) -> bytes:
    parts = [
        _INT16.pack(_GROUP_VERSION),
        _string(group.protocol_type),
        _INT32.pack(group.generation_id),
        _nullable(group.protocol_name),
        _nullable(group.leader),
        _INT64.pack(group.since_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _nullable(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def decode_group(value: bytes) -> StoredGroup:
    read = _Reader(value)
    version = read.int16()
    protocol_type, generation_id = read.string(), read.int32()
    protocol_name, leader = read.nullable(), read.nullable()
    since_ms = read.int64() if version >= 2 else -1
    members = tuple(_read_member(read, version) for _ in range(read.int32()))
    return StoredGroup(protocol_type, generation_id, protocol_name, leader, since_ms, members)


def _read_member(read: _Reader, version: int) -> StoredMember:
    member_id = read.string()
    instance_id = read.nullable() if version >= 3 else None
    client_id, client_host = read.string(), read.string()
    rebalance_timeout_ms = read.int32() if version >= 1 else -1
    session_timeout_ms = read.int32()
    return StoredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        session_timeout_ms,
        read.data(),
        read.data(),
    )


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _string_at(data: bytes, position: int) -> tuple[str, int]:
    """The string, and the position behind it."""
    start = position + _INT16.size
    end = start + _INT16.unpack_from(data, position)[0]
    return data[start:end].decode(), end


def _nullable(text: str | None) -> bytes:
    return _INT16.pack(_NULL) if text is None else _string(text)


def _bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


class _Reader:
    """Forward through a group's value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return int(self._unpack(_INT16))

    def int32(self) -> int:
        return int(self._unpack(_INT32))

    def int64(self) -> int:
        return int(self._unpack(_INT64))

    def string(self) -> str:
        return self._take(self.int16()).decode()

    def nullable(self) -> str | None:
        length = self.int16()
        return None if length == _NULL else self._take(length).decode()

    def data(self) -> bytes:
        return self._take(self.int32())

    def _unpack(self, form: struct.Struct) -> int:
        found: int = form.unpack_from(self._data, self._position)[0]
        self._position += form.size
        return found

    def _take(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        return self._data[start : self._position]
