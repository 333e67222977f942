"""OffsetCommit by hand, versions 2 to 9: consumers that commit often send hardly anything else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.types import NO_LEADER_EPOCH
from semel.wire.api import ApiKey, is_flexible
from semel.wire.frames import Buffer, Reader, write_count, write_string

_RETENTION_TO: Final = 4
_THROTTLE_FROM: Final = 3
_LEADER_EPOCH_FROM: Final = 6
_INSTANCE_FROM: Final = 7
_PARTITION: Final = struct.Struct(">iqi")
_PARTITION_WITHOUT_EPOCH: Final = struct.Struct(">iq")
_RESULT: Final = struct.Struct(">ih")
_NO_THROTTLE: Final = b"\0\0\0\0"
_NO_TAGS: Final = b"\0"
DEFAULT_RETENTION: Final = -1


class CommittedPartition(NamedTuple):
    partition_index: int
    committed_offset: int
    leader_epoch: int
    metadata: str


class CommittedTopic(NamedTuple):
    topic: str
    partitions: Sequence[CommittedPartition]


class OffsetCommitRequest(NamedTuple):
    """``retention_ms``: how long to keep them, where a client says so."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: Sequence[CommittedTopic]


def decode_request(version: int, body: Buffer) -> OffsetCommitRequest:
    flexible = is_flexible(ApiKey.OFFSET_COMMIT, version)
    reader = Reader(body)
    group_id = reader.string(flexible)
    generation_id = reader.int32()
    member_id = reader.string(flexible)
    instance_id = reader.nullable_string(flexible) if version >= _INSTANCE_FROM else None
    retention_ms = reader.int64() if version <= _RETENTION_TO else DEFAULT_RETENTION
    topics = [_read_topic(reader, version, flexible) for _ in range(max(0, reader.count(flexible, 2)))]
    if flexible:
        reader.skip_tags()
    return OffsetCommitRequest(group_id, generation_id, member_id, instance_id, retention_ms, topics)


def _read_topic(reader: Reader, version: int, flexible: bool) -> CommittedTopic:
    topic = reader.string(flexible)
    has_epoch = version >= _LEADER_EPOCH_FROM
    form = _PARTITION if has_epoch else _PARTITION_WITHOUT_EPOCH
    partitions = []
    for _ in range(max(0, reader.count(flexible, form.size + 1))):
        found = form.unpack(reader.take(form.size))
        number, offset, leader_epoch = found if has_epoch else (*found, NO_LEADER_EPOCH)
        metadata = reader.nullable_string(flexible) or ""
        if flexible:
            reader.skip_tags()
        partitions.append(CommittedPartition(number, offset, leader_epoch, metadata))
    if flexible:
        reader.skip_tags()
    return CommittedTopic(topic, partitions)


def encode_response(version: int, topics: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> bytearray:
    """``topics``: (topic, (partition, error code) …)."""
    flexible = is_flexible(ApiKey.OFFSET_COMMIT, version)
    out = bytearray(_NO_THROTTLE if version >= _THROTTLE_FROM else b"")
    write_count(out, len(topics), flexible)
    for topic, results in topics:
        write_string(out, topic, flexible)
        _write_results(out, results, flexible)
    if flexible:
        out += _NO_TAGS
    return out


def _write_results(out: bytearray, results: Sequence[tuple[int, int]], flexible: bool) -> None:
    write_count(out, len(results), flexible)
    for number, error_code in results:
        out += _RESULT.pack(number, error_code)
        if flexible:
            out += _NO_TAGS
    if flexible:
        out += _NO_TAGS
