"""InitProducerId, versions 0 to 5, by hand: it will carry semel's own tagged fields, which kio cannot skip.

A request may name a transactional id (a named identity), or, from version 3 on, the (producer id, producer
epoch) that it wants to follow (KIP-360). Unknown tagged fields are kept by number for the reader to judge.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from semel.wire.frames import INT32, Buffer, Reader, write_string, write_tags

_FLEXIBLE_FROM: Final = 2
_IDENTITY_FROM: Final = 3
_IDENTITY: Final = struct.Struct(">qh")
_RESPONSE: Final = struct.Struct(">ihqh")


@dataclass(slots=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    tags: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class InitProducerIdResponse:
    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    throttle_time_ms: int = 0
    tags: dict[int, bytes] = field(default_factory=dict)


def decode_request(version: int, body: Buffer) -> InitProducerIdRequest:
    flexible = version >= _FLEXIBLE_FROM
    reader = Reader(body)
    request = InitProducerIdRequest(reader.nullable_string(flexible), reader.int32())
    if version >= _IDENTITY_FROM:
        request.producer_id, request.producer_epoch = _IDENTITY.unpack(reader.take(_IDENTITY.size))
    if flexible:
        request.tags = {tag: bytes(value) for tag, value in reader.tags().items()}
    return request


def encode_request(version: int, request: InitProducerIdRequest) -> bytearray:
    flexible = version >= _FLEXIBLE_FROM
    out = bytearray()
    write_string(out, request.transactional_id, flexible)
    out += INT32.pack(request.transaction_timeout_ms)
    if version >= _IDENTITY_FROM:
        out += _IDENTITY.pack(request.producer_id, request.producer_epoch)
    if flexible:
        write_tags(out, request.tags)
    return out


def encode_response(version: int, response: InitProducerIdResponse) -> bytearray:
    out = bytearray(
        _RESPONSE.pack(
            response.throttle_time_ms, response.error_code, response.producer_id, response.producer_epoch
        )
    )
    if version >= _FLEXIBLE_FROM:
        write_tags(out, response.tags)
    return out


def decode_response(version: int, body: Buffer) -> InitProducerIdResponse:
    reader = Reader(body)
    throttle_time_ms, error_code, producer_id, producer_epoch = _RESPONSE.unpack(reader.take(_RESPONSE.size))
    response = InitProducerIdResponse(error_code, producer_id, producer_epoch, throttle_time_ms)
    if version >= _FLEXIBLE_FROM:
        response.tags = {tag: bytes(value) for tag, value in reader.tags().items()}
    return response
