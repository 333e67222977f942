"""The produce request as nearly every client sends it: one batch for one partition, acks=all, no transaction.

:func:`decode` takes the whole frame, header included, and gives None for whatever is not of this form, be it
rarer or malformed: :mod:`semel.wire.produce` then reads it in full, and says what is wrong with it. The
answer to a success is one ``pack``. Both agree with the full codec byte for byte.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from semel.wire.api import SERVED, ApiKey

_VERSION_MIN: Final = SERVED[ApiKey.PRODUCE].version_min
_VERSION_MAX: Final = SERVED[ApiKey.PRODUCE].version_max
_FLEXIBLE_FROM: Final = SERVED[ApiKey.PRODUCE].flexible_from
_PRODUCE: Final = int(ApiKey.PRODUCE)

_HEAD: Final = struct.Struct(">hhih")  # API key, version, correlation id, bytes of the client id
_BODY: Final = struct.Struct(">hhiih")  # transactional id (-1), acks, timeout, topics, bytes of the name
_ITEM: Final = struct.Struct(">iii")  # partitions, partition, bytes of records
_FLEXIBLE_BODY: Final = struct.Struct(">BBhiBB")  # tags of the header, then as above
_FLEXIBLE_ITEM: Final = struct.Struct(">Bi")  # partitions, partition
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic, the request
_ALL_ACKS: Final = -1
_NULL: Final = -1
_COMPACT_ONE: Final = 2
_LENGTH_BYTES: Final = 4
_FORMS_MAX: Final = 1024


class PlainProduce(NamedTuple):
    """All of such a request but its records: what its answer needs."""

    version: int
    correlation_id: int
    topic: str
    partition: int


def decode(frame: memoryview) -> tuple[PlainProduce, memoryview] | None:
    """The request in ``frame`` (without its length prefix) if it is a plain one, and its records in place."""
    try:
        api_key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(frame, 0)
        if api_key != _PRODUCE or not _VERSION_MIN <= version <= _VERSION_MAX:
            return None
        at = _HEAD.size + (client_id_bytes if client_id_bytes > 0 else 0)
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(frame, at, version, correlation_id)
        transactional_id, acks, _, topics, name_bytes = _BODY.unpack_from(frame, at)
        at += _BODY.size
        name_end = at + name_bytes
        partitions, partition, records_bytes = _ITEM.unpack_from(frame, name_end)
        start = name_end + _ITEM.size
        if (
            transactional_id != _NULL
            or acks != _ALL_ACKS
            or topics != 1
            or partitions != 1
            or name_bytes <= 0
            or records_bytes <= 0
            or start + records_bytes != len(frame)
        ):
            return None
        topic = str(frame[at:name_end], "utf-8")
        return PlainProduce(version, correlation_id, topic, partition), frame[start:]
    except (struct.error, UnicodeDecodeError):
        return None


def _decode_flexible(
    frame: memoryview, at: int, version: int, correlation_id: int
) -> tuple[PlainProduce, memoryview] | None:
    tags, transactional_id, acks, _, topics, name_bytes = _FLEXIBLE_BODY.unpack_from(frame, at)
    at += _FLEXIBLE_BODY.size
    name_end = at + name_bytes - 1
    partitions, partition = _FLEXIBLE_ITEM.unpack_from(frame, name_end)
    start = name_end + _FLEXIBLE_ITEM.size
    end = len(frame) - len(_NO_TAGS)
    records_bytes = shift = 0
    while start < end and shift < 35:
        byte = frame[start]
        start += 1
        records_bytes |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if (
        tags
        or transactional_id
        or acks != _ALL_ACKS
        or topics != _COMPACT_ONE
        or partitions != _COMPACT_ONE
        or not 1 < name_bytes < 0x80
        or records_bytes <= 1
        or start + records_bytes - 1 != end
        or frame[end:].tobytes() != _NO_TAGS
    ):
        return None
    topic = str(frame[at:name_end], "utf-8")
    return PlainProduce(version, correlation_id, topic, partition), frame[start:end]


def encode_success(
    request: PlainProduce, base_offset: int, log_append_time_ms: int, log_start_offset: int
) -> bytes:
    """The whole answer, length prefix and header included."""
    version = request.version
    name = request.topic.encode()
    form, size_bytes = _success_form(version, len(name))
    start = (size_bytes, request.correlation_id)
    result = (request.partition, 0, base_offset, log_append_time_ms)
    if version >= _FLEXIBLE_FROM:
        return form.pack(*start, 0, 2, len(name) + 1, name, 2, *result, log_start_offset, 1, 0, 0, 0, 0, 0)
    if version >= 8:
        return form.pack(*start, 1, len(name), name, 1, *result, log_start_offset, 0, _NULL, 0)
    if version >= 5:
        return form.pack(*start, 1, len(name), name, 1, *result, log_start_offset, 0)
    return form.pack(*start, 1, len(name), name, 1, *result, 0)


@lru_cache(maxsize=_FORMS_MAX)
def _success_form(version: int, name_bytes: int) -> tuple[struct.Struct, int]:
    """The layout of a success for a name of this length, and the bytes that follow the length prefix."""
    if version >= _FLEXIBLE_FROM:
        # Tags of the header; topics, name, partitions; result; record errors, message, two tags; throttle, tags.
        form = struct.Struct(f">iibBB{name_bytes}sBihqqqBBBBiB")
    elif version >= 8:
        form = struct.Struct(f">iiih{name_bytes}siihqqqihi")
    elif version >= 5:
        form = struct.Struct(f">iiih{name_bytes}siihqqqi")
    else:
        form = struct.Struct(f">iiih{name_bytes}siihqqi")
    return form, form.size - _LENGTH_BYTES
