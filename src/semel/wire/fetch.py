"""Fetch, versions 4 to 18, by hand: records leave the server and reach the client by reference.

Topics are named by ``str`` up to version 12 and by ``UUID`` from 13 on (KIP-516); partitions come as one flat
list in request order. What 17 and 18 add to a partition are tagged fields of a follower (its directory, KIP-853;
the high watermark that it knows, KIP-1166), which are skipped: nobody follows semel. The epoch of the row in front,
which a follower sends from 12 on, is for any reader: where the log was cut behind it, the answer is told (KIP-595).
Sessions (KIP-227) are carried but never opened: the server answers session id 0, which tells every client to
send full requests.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar
from uuid import UUID

from semel.types import NO_LEADER_EPOCH
from semel.wire.frames import (
    INT16,
    INT32,
    RESPONSE_ITEMS_MAX,
    Buffer,
    Reader,
    write_bytes_length,
    write_count,
    write_string,
    write_tags,
)

_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_P = TypeVar("_P", "FetchPartition", "FetchedPartition")
_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_ABORTED: Final = struct.Struct(">qq")

# (partition, [leader epoch,] fetch offset, [last fetched epoch,] [log start offset,] max bytes)
_PARTITION_V4: Final = struct.Struct(">iqi")
_PARTITION_V5: Final = struct.Struct(">iqqi")
_PARTITION_V9: Final = struct.Struct(">iiqqi")
_PARTITION_V12: Final = struct.Struct(">iiqiqi")
_RESULT_V4: Final = struct.Struct(">ihqq")
_RESULT_V5: Final = struct.Struct(">ihqqq")
_DIVERGING: Final = struct.Struct(">iqx")  # with its tags, of which there are none
_DIVERGING_TAG: Final = 0

_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


@dataclass(slots=True)
class FetchPartition:
    topic: str | UUID
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = NO_LEADER_EPOCH
    last_fetched_epoch: int = NO_LEADER_EPOCH  # of the row in front of the offset


@dataclass(slots=True)
class FetchRequest:
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    partitions: list[FetchPartition]
    session_id: int = 0
    session_epoch: int = _FINAL_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether it names all that it asks for: none, or the first, of a session. Any id is of one that ends here."""
        return self.session_epoch in (_FINAL_EPOCH, _INITIAL_EPOCH)


@dataclass(slots=True)
class FetchedPartition:
    """One partition's answer; ``records`` may begin with batches that lie before the offset asked for."""

    topic: str | UUID
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer | None = None
    aborted: list[tuple[int, int]] | None = (
        None  # (producer id, first offset); None: READ_UNCOMMITTED was asked
    )
    preferred_read_replica: int = -1  # of another broker's answer; nothing is read here then
    # (epoch, its end) of where the log and its reader part; nothing is read then
    diverging_epoch: tuple[int, int] | None = None


@dataclass(slots=True)
class FetchResponse:
    partitions: list[FetchedPartition] = field(default_factory=list)
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0


def decode_request(version: int, body: Buffer) -> FetchRequest:
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body)
    if version < 15:
        reader.int32()  # replica_id: followers do not fetch from semel
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack(reader.take(_LIMITS.size))
    session_id, session_epoch = _SESSION.unpack(reader.take(_SESSION.size)) if version >= 7 else (0, -1)
    partitions: list[FetchPartition] = []
    form = _partition_form(version)
    for _ in range(reader.count(flexible, item_bytes_min=3)):
        topic = _read_topic(reader, version)
        for _ in range(reader.count(flexible, item_bytes_min=form.size)):
            values = form.unpack(reader.take(form.size))
            leader_epoch, fetch_offset = values[1:3] if version >= 9 else (NO_LEADER_EPOCH, values[1])
            last_epoch = values[3] if version >= 12 else NO_LEADER_EPOCH
            partitions.append(
                FetchPartition(topic, values[0], fetch_offset, values[-1], leader_epoch, last_epoch)
            )
            if flexible:
                reader.skip_tags()
        if flexible:
            reader.skip_tags()
    if version >= 7:
        for _ in range(reader.count(flexible, item_bytes_min=3)):  # forgotten topics: no sessions here
            _read_topic(reader, version)
            reader.take(max(reader.count(flexible, item_bytes_min=4), 0) * 4)
            if flexible:
                reader.skip_tags()
    if version >= 11:
        reader.nullable_string(flexible)  # rack
    if flexible:
        reader.skip_tags()
    return FetchRequest(
        max_wait_ms, min_bytes, max_bytes, isolation_level, partitions, session_id, session_epoch
    )


def encode_request(version: int, request: FetchRequest) -> bytearray:
    flexible = version >= _FLEXIBLE_FROM
    out = bytearray()
    if version < 15:
        out += INT32.pack(-1)
    out += _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= 7:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    topics = _by_topic(request.partitions)
    write_count(out, len(topics), flexible)
    form = _partition_form(version)
    for topic, partitions in topics:
        _write_topic(out, topic, version)
        write_count(out, len(partitions), flexible)
        for item in partitions:
            start, offset, limit = item.partition, item.fetch_offset, item.partition_max_bytes
            if version >= 12:
                out += form.pack(start, item.current_leader_epoch, offset, item.last_fetched_epoch, -1, limit)
            elif version >= 9:
                out += form.pack(start, item.current_leader_epoch, offset, -1, limit)
            elif version >= 5:
                out += form.pack(start, offset, -1, limit)
            else:
                out += form.pack(start, offset, limit)
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if version >= 7:
        write_count(out, 0, flexible)
    if version >= 11:
        write_string(out, "", flexible)
    if flexible:
        out.append(0)
    return out


def encode_response(version: int, response: FetchResponse) -> list[Buffer]:
    """The body as parts; records are passed on by reference."""
    flexible = version >= _FLEXIBLE_FROM
    parts: list[Buffer] = []
    out = bytearray(INT32.pack(response.throttle_time_ms))
    if version >= 7:
        out += INT16.pack(response.error_code)
        out += INT32.pack(response.session_id)
    topics = _by_topic(response.partitions)
    write_count(out, len(topics), flexible)
    for topic, partitions in topics:
        _write_topic(out, topic, version)
        write_count(out, len(partitions), flexible)
        for item in partitions:
            start = (item.partition, item.error_code, item.high_watermark, item.last_stable_offset)
            if version >= 5:
                out += _RESULT_V5.pack(*start, item.log_start_offset)
            else:
                out += _RESULT_V4.pack(*start)
            write_count(out, -1 if item.aborted is None else len(item.aborted), flexible)
            for producer_id, first_offset in item.aborted or ():
                out += _ABORTED.pack(producer_id, first_offset)
                if flexible:
                    out.append(0)
            if version >= 11:
                out += INT32.pack(-1)  # preferred read replica
            # Null would do by the schema, but librdkafka and Kafka's own broker expect an empty field.
            records = b"" if item.records is None else item.records
            write_bytes_length(out, len(records), flexible)
            if len(records):
                parts += (out, records)
                out = bytearray()
            if flexible:
                told = item.diverging_epoch
                write_tags(out, {} if told is None else {_DIVERGING_TAG: _DIVERGING.pack(*told)})
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    parts.append(out)
    return parts


def decode_response(version: int, body: Buffer) -> FetchResponse:
    """The answer, with ``records`` as views into ``body``."""
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body, items_max=RESPONSE_ITEMS_MAX)
    response = FetchResponse(throttle_time_ms=reader.int32())
    if version >= 7:
        response.error_code = reader.int16()
        response.session_id = reader.int32()
    form = _RESULT_V5 if version >= 5 else _RESULT_V4
    for _ in range(reader.count(flexible, item_bytes_min=3)):
        topic = _read_topic(reader, version)
        for _ in range(reader.count(flexible, item_bytes_min=form.size)):
            result = FetchedPartition(topic, *form.unpack(reader.take(form.size)))
            aborted_count = reader.count(flexible, item_bytes_min=_ABORTED.size)
            if aborted_count >= 0:
                result.aborted = []
                for _ in range(aborted_count):
                    producer_id, first_offset = _ABORTED.unpack(reader.take(_ABORTED.size))
                    result.aborted.append((producer_id, first_offset))
                    if flexible:
                        reader.skip_tags()
            if version >= 11:
                result.preferred_read_replica = reader.int32()
            result.records = reader.nullable_bytes(flexible)
            if flexible and (told := reader.tags().get(_DIVERGING_TAG)) is not None:
                result.diverging_epoch = _read_diverging(told)
            response.partitions.append(result)
        if flexible:
            reader.skip_tags()
    if flexible:
        reader.skip_tags()
    return response


def _read_diverging(field: memoryview) -> tuple[int, int]:
    reader = Reader(field)
    epoch, end_offset = reader.int32(), reader.int64()
    reader.skip_tags()
    return epoch, end_offset


def _partition_form(version: int) -> struct.Struct:
    if version >= 12:
        return _PARTITION_V12
    if version >= 9:
        return _PARTITION_V9
    return _PARTITION_V5 if version >= 5 else _PARTITION_V4


def _read_topic(reader: Reader, version: int) -> str | UUID:
    return reader.uuid() if version >= _TOPIC_IDS_FROM else reader.string(version >= _FLEXIBLE_FROM)


def _write_topic(out: bytearray, topic: str | UUID, version: int) -> None:
    if version >= _TOPIC_IDS_FROM:
        if not isinstance(topic, UUID):
            raise TypeError(f"fetch version {version} names topics by id, not {topic!r}")
        out += topic.bytes
    else:
        write_string(out, str(topic), flexible=version >= _FLEXIBLE_FROM)


def _by_topic(items: Iterable[_P]) -> list[tuple[str | UUID, list[_P]]]:
    return [(topic, list(run)) for topic, run in groupby(items, attrgetter("topic"))]
