"""Produce, versions 3 to 13, by hand: the hottest message, decoded without copying a record.

Topics are named by ``str`` up to version 12 and by ``UUID`` from 13 on (KIP-516). Partitions come as one flat
list in request order (a topic's partitions stay adjacent), because everything behind it works on partitions;
the answer is grouped again by runs of equal topics. The tagged fields of the answer (KIP-951, new leaders) are
never sent: there is one broker.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar
from uuid import UUID

from semel.types import NO_TIMESTAMP, RecordError
from semel.wire.frames import (
    INT32,
    RESPONSE_ITEMS_MAX,
    Buffer,
    MalformedMessage,
    Reader,
    write_bytes_length,
    write_count,
    write_string,
)

_FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
_P = TypeVar("_P", "ProducePartition", "ProducedPartition")
_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_RESULT: Final = struct.Struct(">ihqq")
_INT64: Final = struct.Struct(">q")


@dataclass(slots=True)
class ProducePartition:
    """Record batches for one partition; ``records`` is a view into the frame (None: the client sent null)."""

    topic: str | UUID
    partition: int
    records: memoryview | None


@dataclass(slots=True)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]


@dataclass(slots=True)
class ProducedPartition:
    """The fate of one partition's batches; ``base_offset`` is -1 when it is not known."""

    topic: str | UUID
    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()  # those for which the batch is refused, where that is known


def decode_request(version: int, body: Buffer) -> ProduceRequest:
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body)
    transactional_id = reader.nullable_string(flexible)
    try:
        acks, timeout_ms = _ACKS_TIMEOUT.unpack(reader.take(_ACKS_TIMEOUT.size))
    except struct.error:  # pragma: no cover - take() has checked the length
        raise MalformedMessage("message ends inside a produce request") from None
    partitions: list[ProducePartition] = []
    for _ in range(reader.count(flexible, item_bytes_min=2)):
        topic = _read_topic(reader, version)
        for _ in range(reader.count(flexible, item_bytes_min=5)):
            number = reader.int32()
            partitions.append(ProducePartition(topic, number, reader.nullable_bytes(flexible)))
            if flexible:
                reader.skip_tags()
        if flexible:
            reader.skip_tags()
    if flexible:
        reader.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, partitions)


def encode_request(version: int, request: ProduceRequest) -> list[Buffer]:
    """The body as parts; record batches are passed on by reference."""
    flexible = version >= _FLEXIBLE_FROM
    parts: list[Buffer] = []
    out = bytearray()
    write_string(out, request.transactional_id, flexible)
    out += _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms)
    topics = _by_topic(request.partitions)
    write_count(out, len(topics), flexible)
    for topic, partitions in topics:
        _write_topic(out, topic, version)
        write_count(out, len(partitions), flexible)
        for partition in partitions:
            out += INT32.pack(partition.partition)
            if partition.records is None:
                write_bytes_length(out, -1, flexible)
            else:
                write_bytes_length(out, len(partition.records), flexible)
                parts += (out, partition.records)
                out = bytearray()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    parts.append(out)
    return parts


def encode_response(
    version: int, results: Sequence[ProducedPartition], throttle_time_ms: int = 0
) -> bytearray:
    flexible = version >= _FLEXIBLE_FROM
    out = bytearray()
    topics = _by_topic(results)
    write_count(out, len(topics), flexible)
    for topic, partitions in topics:
        _write_topic(out, topic, version)
        write_count(out, len(partitions), flexible)
        for result in partitions:
            out += _RESULT.pack(
                result.partition, result.error_code, result.base_offset, result.log_append_time_ms
            )
            if version >= 5:
                out += _INT64.pack(result.log_start_offset)
            if version >= 8:
                _write_record_errors(out, result.record_errors, flexible)
                write_string(out, result.error_message, flexible)
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    out += INT32.pack(throttle_time_ms)
    if flexible:
        out.append(0)
    return out


def decode_response(version: int, body: Buffer) -> tuple[list[ProducedPartition], int]:
    """The results in the order sent, and the throttle time in milliseconds."""
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body, items_max=RESPONSE_ITEMS_MAX)
    results: list[ProducedPartition] = []
    for _ in range(reader.count(flexible, item_bytes_min=2)):
        topic = _read_topic(reader, version)
        for _ in range(reader.count(flexible, item_bytes_min=22)):
            partition, error_code, base_offset, log_append_time_ms = _RESULT.unpack(reader.take(_RESULT.size))
            log_start_offset = reader.int64() if version >= 5 else -1
            error_message = None
            record_errors: tuple[RecordError, ...] = ()
            if version >= 8:
                record_errors = _read_record_errors(reader, flexible)
                error_message = reader.nullable_string(flexible)
            if flexible:
                reader.skip_tags()
            results.append(
                ProducedPartition(
                    topic,
                    partition,
                    error_code,
                    base_offset,
                    log_append_time_ms,
                    log_start_offset,
                    error_message,
                    record_errors,
                )
            )
        if flexible:
            reader.skip_tags()
    throttle_time_ms = reader.int32()
    if flexible:
        reader.skip_tags()
    return results, throttle_time_ms


def _write_record_errors(out: bytearray, errors: Sequence[RecordError], flexible: bool) -> None:
    write_count(out, len(errors), flexible)
    for batch_index, message in errors:
        out += INT32.pack(batch_index)
        write_string(out, message, flexible)
        if flexible:
            out.append(0)


def _read_record_errors(reader: Reader, flexible: bool) -> tuple[RecordError, ...]:
    errors = []
    for _ in range(reader.count(flexible, item_bytes_min=5)):
        errors.append(RecordError(reader.int32(), reader.nullable_string(flexible)))
        if flexible:
            reader.skip_tags()
    return tuple(errors)


def _read_topic(reader: Reader, version: int) -> str | UUID:
    return reader.uuid() if version >= TOPIC_IDS_FROM else reader.string(version >= _FLEXIBLE_FROM)


def _write_topic(out: bytearray, topic: str | UUID, version: int) -> None:
    if version >= TOPIC_IDS_FROM:
        if not isinstance(topic, UUID):
            raise TypeError(f"produce version {version} names topics by id, not {topic!r}")
        out += topic.bytes
    else:
        write_string(out, str(topic), flexible=version >= _FLEXIBLE_FROM)


def _by_topic(items: Sequence[_P]) -> list[tuple[str | UUID, list[_P]]]:
    if len(items) == 1:
        return [(items[0].topic, [items[0]])]
    return [(topic, list(run)) for topic, run in groupby(items, attrgetter("topic"))]
