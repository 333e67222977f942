"""InitProducerId, versions 0 to 5, by hand: it carries semel's own tagged fields, which kio cannot skip.

A request may name a transactional id (a named identity), or, from version 3 on, the (producer id, producer
epoch) that it wants to follow (KIP-360). Unknown tagged fields are kept by number for the reader to judge.

Tag 9000, from version 2 on, asks for a lease and tells of it:

    request    int16 format version (0), [topic name, [int32 partition]]
    response   int16 format version (0), int64 length_ms, int64 remaining_ms,
               [topic name, [int32 partition, int32 first sequence]]

all arrays and strings compact. Stock clients neither send it nor see it, and a server that knows no leases answers
without it. A format version that is not known leaves the tag among the unknown ones: so it is with both sides.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from semel.wire.frames import (
    INT16,
    INT32,
    Buffer,
    MalformedMessage,
    Reader,
    write_count,
    write_string,
    write_tags,
)

_FLEXIBLE_FROM: Final = 2
_IDENTITY_FROM: Final = 3
_IDENTITY: Final = struct.Struct(">qh")
_RESPONSE: Final = struct.Struct(">ihqh")

LEASE_TAG: Final = 9_000
LEASE_FORMAT: Final = 0
_LIVES: Final = struct.Struct(">qq")
_TOPIC_BYTES_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class LeaseAsked:
    """The partitions that the lease is for, each once; there may be none."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """How long it lives, and where the sequences of the partitions asked for begin."""

    length_ms: int
    remaining_ms: int
    first_sequences: dict[TopicPartition, int]


@dataclass(slots=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    tags: dict[int, bytes] = field(default_factory=dict)  # the unknown ones
    lease: LeaseAsked | None = None


@dataclass(slots=True)
class InitProducerIdResponse:
    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    throttle_time_ms: int = 0
    tags: dict[int, bytes] = field(default_factory=dict)  # the unknown ones
    lease: LeaseGranted | None = None


def decode_request(version: int, body: Buffer) -> InitProducerIdRequest:
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body)
    request = InitProducerIdRequest(reader.nullable_string(flexible), reader.int32())
    if version >= _IDENTITY_FROM:
        request.producer_id, request.producer_epoch = _IDENTITY.unpack(reader.take(_IDENTITY.size))
    if flexible:
        lease, request.tags = _split(reader.tags())
        if lease is not None:
            request.lease = LeaseAsked(tuple(_partitions(lease)))
            _check_end(lease)
    return request


def encode_request(version: int, request: InitProducerIdRequest) -> bytearray:
    flexible = version >= _FLEXIBLE_FROM
    out = bytearray()
    write_string(out, request.transactional_id, flexible)
    out += INT32.pack(request.transaction_timeout_ms)
    if version >= _IDENTITY_FROM:
        out += _IDENTITY.pack(request.producer_id, request.producer_epoch)
    if flexible:
        lease = {} if request.lease is None else {LEASE_TAG: _encode_asked(request.lease)}
        write_tags(out, request.tags | lease)
    return out


def encode_response(version: int, response: InitProducerIdResponse) -> bytearray:
    out = bytearray(
        _RESPONSE.pack(
            response.throttle_time_ms, response.error_code, response.producer_id, response.producer_epoch
        )
    )
    if version >= _FLEXIBLE_FROM:
        lease = {} if response.lease is None else {LEASE_TAG: _encode_granted(response.lease)}
        write_tags(out, response.tags | lease)
    return out


def decode_response(version: int, body: Buffer) -> InitProducerIdResponse:
    reader = Reader(body)
    throttle_time_ms, error_code, producer_id, producer_epoch = _RESPONSE.unpack(reader.take(_RESPONSE.size))
    response = InitProducerIdResponse(error_code, producer_id, producer_epoch, throttle_time_ms)
    if version >= _FLEXIBLE_FROM:
        lease, response.tags = _split(reader.tags())
        if lease is not None:
            length_ms, remaining_ms = _LIVES.unpack(lease.take(_LIVES.size))
            if not 0 <= remaining_ms <= length_ms:
                raise MalformedMessage(f"a lease of {length_ms} ms of which {remaining_ms} ms remain")
            first_sequences = {tp: lease.int32() for tp in _partitions(lease, INT32.size)}
            _check_end(lease)
            response.lease = LeaseGranted(length_ms, remaining_ms, first_sequences)
    return response


def _split(tags: dict[int, memoryview]) -> tuple[Reader | None, dict[int, bytes]]:
    """The lease behind its format version, if there is one of a version that is known; and the other tags."""
    lease = tags.get(LEASE_TAG)
    reader = None if lease is None else Reader(lease)
    if reader is not None and reader.int16() == LEASE_FORMAT:
        del tags[LEASE_TAG]
    else:
        reader = None
    return reader, {tag: bytes(value) for tag, value in tags.items()}


def _partitions(reader: Reader, bytes_beside: int = 0) -> Iterator[TopicPartition]:
    """Each partition once, however often it is named; ``bytes_beside`` it are for the caller to read."""
    seen: set[TopicPartition] = set()
    for _ in range(max(0, reader.count(True, _TOPIC_BYTES_MIN))):
        topic = reader.string(True)
        for _ in range(max(0, reader.count(True, INT32.size + bytes_beside))):
            tp = TopicPartition(topic, reader.int32())
            if tp.partition < 0:
                raise MalformedMessage(f"{topic!r} has no partition {tp.partition}")
            if tp in seen and bytes_beside:
                raise MalformedMessage(f"{tp} is told of twice")
            if tp not in seen:
                seen.add(tp)
                yield tp


def _check_end(reader: Reader) -> None:
    if reader.remaining_bytes:
        raise MalformedMessage(f"{reader.remaining_bytes} bytes behind a lease")


def _encode_asked(lease: LeaseAsked) -> bytes:
    out = bytearray(INT16.pack(LEASE_FORMAT))
    _write_partitions(out, dict.fromkeys(lease.partitions, b""))
    return bytes(out)


def _encode_granted(lease: LeaseGranted) -> bytes:
    out = bytearray(INT16.pack(LEASE_FORMAT) + _LIVES.pack(lease.length_ms, lease.remaining_ms))
    _write_partitions(out, {tp: INT32.pack(first) for tp, first in lease.first_sequences.items()})
    return bytes(out)


def _write_partitions(out: bytearray, beside: Mapping[TopicPartition, bytes]) -> None:
    of_topic: dict[str, list[TopicPartition]] = {}
    for tp in beside:
        of_topic.setdefault(tp.topic, []).append(tp)
    write_count(out, len(of_topic), True)
    for topic, tps in of_topic.items():
        write_string(out, topic, True)
        write_count(out, len(tps), True)
        for tp in tps:
            out += INT32.pack(tp.partition) + beside[tp]
