"""The produce request as nearly every client sends it: one batch for one partition, acks=all, no transaction.

:func:`decode` takes the whole frame, header included, and gives None for whatever is not of this form, be it
rarer or malformed: :mod:`semel.wire.produce` then reads it in full, and says what is wrong with it. Both
agree byte for byte, in what they read and in what they answer.

A producer's requests to one partition are alike but for correlation id and records, so what lies between is
read once and remembered as a :class:`PlainForm`, with its answer made ready.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

from semel.types import TopicIdPartition, TopicPartition
from semel.wire import produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.frames import encode_response_header
from semel.wire.produce import TOPIC_IDS_FROM, ProducedPartition

_VERSION_MIN: Final = SERVED[ApiKey.PRODUCE].version_min
_VERSION_MAX: Final = SERVED[ApiKey.PRODUCE].version_max
_FLEXIBLE_FROM: Final = SERVED[ApiKey.PRODUCE].flexible_from
_LOG_START_FROM: Final = 5
_PRODUCE: Final = int(ApiKey.PRODUCE)

_HEAD: Final = struct.Struct(">hhih")  # API key, version, correlation id, bytes of the client id
_BODY: Final = struct.Struct(">hhiih")  # transactional id (-1), acks, timeout, topics, bytes of the name
_ITEM: Final = struct.Struct(">ii")  # partitions, partition
_FLEXIBLE_BODY: Final = struct.Struct(">BBhiBB")  # tags of the header, then as above
_FLEXIBLE_ITEM: Final = struct.Struct(">Bi")
_TOPIC_ID_BYTES: Final = 16
_TOPIC_AT: Final = _FLEXIBLE_BODY.size - 1  # where a flexible version's topic begins, by name or by id
_BY_ID_BYTES: Final = _TOPIC_AT + _TOPIC_ID_BYTES + _FLEXIBLE_ITEM.size
_NAME_BYTES: Final = struct.Struct(">h")
_NAME_BYTES_AT: Final = _BODY.size - _NAME_BYTES.size
_RECORDS_BYTES: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic, the request
_ALL_ACKS: Final = -1
_NULL: Final = -1
_COMPACT_ONE: Final = 2
_FORMS_MAX: Final = 4096
_PREFIX_BYTES_MAX: Final = 512
_VARINT_BITS_MAX: Final = 28  # more would be more than a frame

_HOLE: Final = b"\xfe" * 8  # where a number of the answer goes: never in a name, as it is not UTF-8
_HOLE_NUMBER: Final = int.from_bytes(_HOLE, "big", signed=True)


class PlainForm:
    """What the requests of one client to one partition have in common, and their answer with holes in it."""

    __slots__ = (
        "_after",
        "_before",
        "_has_log_start",
        "_layout",
        "_size_bytes",
        "partition",
        "version",
    )

    def __init__(self, version: int, partition: TopicPartition | TopicIdPartition) -> None:
        self.version: Final = version
        self.partition: Final = partition
        numbers = 3 if version >= _LOG_START_FROM else 2
        hole = _HOLE_NUMBER
        topic, number = partition
        result = ProducedPartition(topic, number, 0, hole, hole, hole)
        whole = encode_response_header(_PRODUCE, version, 0) + produce.encode_response(version, [result])
        # From the right: a topic's id may look like a hole.
        before, _, self._after = whole.rpartition(_HOLE * numbers)
        self._before = before[4:]  # the correlation id
        self._size_bytes = len(whole)
        self._has_log_start = version >= _LOG_START_FROM
        self._layout = struct.Struct(f">ii{len(self._before)}s{'q' * numbers}{len(self._after)}s")

    def encode_success(
        self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int
    ) -> bytes:
        """The whole answer, length prefix and header included."""
        size_bytes, before, after = self._size_bytes, self._before, self._after
        if self._has_log_start:
            return self._layout.pack(
                size_bytes, correlation_id, before, base_offset, log_append_time_ms, log_start_offset, after
            )
        return self._layout.pack(size_bytes, correlation_id, before, base_offset, log_append_time_ms, after)


def decode(frame: memoryview) -> tuple[PlainForm, int, memoryview] | None:
    """If the request in ``frame`` (without its length prefix) is a plain one: its form, its correlation id,
    and its records in place.
    """
    try:
        api_key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(frame, 0)
        if api_key != _PRODUCE or client_id_bytes < _NULL:
            return None
        at = _HEAD.size + (client_id_bytes if client_id_bytes > 0 else 0)
        if version >= TOPIC_IDS_FROM:
            records_at = at + _BY_ID_BYTES
        elif version >= _FLEXIBLE_FROM:
            records_at = at + _FLEXIBLE_BODY.size + frame[at + _FLEXIBLE_BODY.size - 1] - 1
            records_at += _FLEXIBLE_ITEM.size
        else:
            (name_bytes,) = _NAME_BYTES.unpack_from(frame, at + _NAME_BYTES_AT)
            records_at = at + _BODY.size + name_bytes + _ITEM.size
        if records_at - at > _PREFIX_BYTES_MAX:
            return None
        form = _form_of(version, bytes(frame[at:records_at]))
        if form is None:
            return None
        if version >= _FLEXIBLE_FROM:
            records = _compact_records(frame, records_at)
        else:
            start = records_at + _RECORDS_BYTES.size
            (records_bytes,) = _RECORDS_BYTES.unpack_from(frame, records_at)
            records = frame[start:] if 0 < records_bytes == len(frame) - start else None
    except (struct.error, IndexError):
        return None
    return None if records is None else (form, correlation_id, records)


def _compact_records(frame: memoryview, at: int) -> memoryview | None:
    end = len(frame) - len(_NO_TAGS)
    size_bytes = shift = 0
    while True:
        byte = frame[at]
        at += 1
        size_bytes |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _VARINT_BITS_MAX:
            return None
    if size_bytes <= 1 or at + size_bytes - 1 != end or bytes(frame[end:]) != _NO_TAGS:
        return None
    return frame[at:end]


@lru_cache(maxsize=_FORMS_MAX)
def _form_of(version: int, prefix: bytes) -> PlainForm | None:
    """What stands between client id and records; None when that is not of the plain form."""
    if not _VERSION_MIN <= version <= _VERSION_MAX:
        return None
    name: TopicPartition | TopicIdPartition
    try:
        if version >= TOPIC_IDS_FROM:
            tags, transactional_id, acks, _, topics, _ = _FLEXIBLE_BODY.unpack_from(prefix, 0)
            topic_id = UUID(bytes=prefix[_TOPIC_AT : _TOPIC_AT + _TOPIC_ID_BYTES])
            partitions, partition = _FLEXIBLE_ITEM.unpack_from(prefix, _TOPIC_AT + _TOPIC_ID_BYTES)
            name = TopicIdPartition(topic_id, partition)
            is_plain = not tags and not transactional_id and topics == partitions == _COMPACT_ONE
        elif version >= _FLEXIBLE_FROM:
            tags, transactional_id, acks, _, topics, name_bytes = _FLEXIBLE_BODY.unpack_from(prefix, 0)
            name_at, name_bytes = _FLEXIBLE_BODY.size, name_bytes - 1
            partitions, partition = _FLEXIBLE_ITEM.unpack_from(prefix, name_at + name_bytes)
            is_plain = not tags and not transactional_id and topics == partitions == _COMPACT_ONE
            is_plain = is_plain and 0 < name_bytes < 0x7F  # its length is a varint of one byte
            name = TopicPartition(prefix[name_at : name_at + name_bytes].decode(), partition)
        else:
            transactional_id, acks, _, topics, name_bytes = _BODY.unpack_from(prefix, 0)
            name_at = _BODY.size
            partitions, partition = _ITEM.unpack_from(prefix, name_at + name_bytes)
            is_plain = transactional_id == _NULL and topics == partitions == 1 and name_bytes > 0
            name = TopicPartition(prefix[name_at : name_at + name_bytes].decode(), partition)
        if not is_plain or acks != _ALL_ACKS:
            return None
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return PlainForm(version, name)
