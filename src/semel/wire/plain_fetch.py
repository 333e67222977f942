"""The fetch request as nearly every client sends it: a few partitions of one topic, outside any session.

:func:`decode` takes the whole frame, header included, and gives None for whatever is not of this form, be it
rarer or malformed: :mod:`semel.wire.fetch` then reads it in full, and says what is wrong with it. Both agree
byte for byte, in what they read and in what they answer.

A client's requests for one topic are alike but for the correlation id and what is asked of each partition.
What stands around that is read once and remembered as a :class:`PlainForm`, with the start of its answer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence, Sized
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from semel.types import NO_LEADER_EPOCH
from semel.wire import fetch
from semel.wire.api import SERVED, ApiKey
from semel.wire.fetch import READ_COMMITTED, FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from semel.wire.frames import INT32, MalformedMessage, encode_response_header, write_bytes_length, write_count

_FETCH: Final = int(ApiKey.FETCH)
_VERSION_MIN: Final = SERVED[ApiKey.FETCH].version_min
_VERSION_MAX: Final = SERVED[ApiKey.FETCH].version_max
_FLEXIBLE_FROM: Final = SERVED[ApiKey.FETCH].flexible_from
_TOPIC_IDS_FROM: Final = 13
_PARTITIONS_MAX: Final = 32
_FORMS_MAX: Final = 4096
_FORM_BYTES_MAX: Final = 512

_HEAD: Final = struct.Struct(">hhih")  # API key, version, correlation id, bytes of the client id
_NULL: Final = -1
_NAME_BYTES: Final = struct.Struct(">h")
_TOPIC_ID_BYTES: Final = 16
_START: Final = struct.Struct(">ii")  # bytes of the answer, correlation id

# From the end of the client id to the topic: [tags,] [replica,] limits, [session,] how many topics.
_TOPIC_AT_V4: Final = 4 + 13 + 4
_TOPIC_AT_V7: Final = 4 + 13 + 8 + 4
_TOPIC_AT_V12: Final = 1 + 4 + 13 + 8 + 1
_TOPIC_AT_V15: Final = 1 + 13 + 8 + 1

# As the full codec has them; x is what the server makes no use of.
_ASKED_V4: Final = struct.Struct(">iqi")
_ASKED_V5: Final = struct.Struct(">iq8xi")
_ASKED_V9: Final = struct.Struct(">iiq8xi")
_ASKED_V12: Final = struct.Struct(">iiqi8xix")  # with its tags, which must be none
# Without error, aborted transactions, and another replica to read from; the records' length follows.
_FOUND_V4: Final = struct.Struct(">ihqqi")
_FOUND_V5: Final = struct.Struct(">ihqqqi")
_FOUND_V11: Final = struct.Struct(">ihqqqii")
_FOUND_V12: Final = struct.Struct(">ihqqqbi")

_HOLE_NUMBER: Final = 0x7EFEFEFE  # nothing like it follows a partition's number in an answer without records
_HOLE: Final = INT32.pack(_HOLE_NUMBER)

R = TypeVar("R", bound=Sized)  # records, in memory or elsewhere


class Asked(NamedTuple):
    """What is asked of one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    partition_max_bytes: int


class Found(NamedTuple, Generic[R]):
    """What it is answered."""

    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: R


class PlainForm:
    """What the requests of one client for one topic have in common, and the start of their answers."""

    __slots__ = ("_start", "isolation_level", "max_bytes", "max_wait_ms", "min_bytes", "topic", "version")

    def __init__(self, version: int, request: FetchRequest) -> None:
        self.version: Final = version
        self.max_wait_ms: Final = request.max_wait_ms
        self.min_bytes: Final = request.min_bytes
        self.max_bytes: Final = request.max_bytes
        self.isolation_level: Final = request.isolation_level
        self.topic: Final = request.partitions[0].topic
        response = FetchResponse([FetchedPartition(self.topic, _HOLE_NUMBER, 0, 0)])
        (body,) = fetch.encode_response(version, response)
        before, _, _ = (encode_response_header(_FETCH, version, 0) + body).rpartition(_HOLE)
        self._start: Final = before[INT32.size : -_count_bytes(version)]

    def encode_answer(self, correlation_id: int, found: Sequence[Found[R]]) -> list[bytearray | R]:
        """The whole answer, length prefix and header included; records are passed on by reference."""
        version = self.version
        flexible = version >= _FLEXIBLE_FROM
        none = 0 if self.isolation_level == READ_COMMITTED else _NULL  # aborted transactions
        first = out = bytearray(_START.size)
        out += self._start
        write_count(out, len(found), flexible)
        parts: list[bytearray | R] = [out]
        for partition, high_watermark, last_stable_offset, log_start_offset, records in found:
            offsets = high_watermark, last_stable_offset, log_start_offset
            if version >= 12:
                out += _FOUND_V12.pack(partition, 0, *offsets, none + 1, -1)
            elif version >= 11:
                out += _FOUND_V11.pack(partition, 0, *offsets, none, -1)
            elif version >= 5:
                out += _FOUND_V5.pack(partition, 0, *offsets, none)
            else:
                out += _FOUND_V4.pack(partition, 0, high_watermark, last_stable_offset, none)
            write_bytes_length(out, len(records), flexible)
            if len(records):
                out = bytearray()
                parts += (records, out)
            if flexible:
                out.append(0)
        if flexible:
            out += b"\0\0"  # tags of the topic and of the answer
        if not out:
            parts.pop()
        _START.pack_into(first, 0, sum(map(len, parts)) - INT32.size, correlation_id)
        return parts


def decode(frame: memoryview) -> tuple[PlainForm, int, list[Asked]] | None:
    """If the request in ``frame`` (without its length prefix) is a plain one: its form, its correlation id,
    and what it asks for.
    """
    try:
        api_key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(frame, 0)
        if api_key != _FETCH or not _VERSION_MIN <= version <= _VERSION_MAX or client_id_bytes < _NULL:
            return None
        form_at = _HEAD.size + (client_id_bytes if client_id_bytes > 0 else 0)
        if version >= _FLEXIBLE_FROM:
            topic_at = form_at + (_TOPIC_AT_V15 if version >= 15 else _TOPIC_AT_V12)
            # A compact string's length is one more than its bytes: that is what the length itself takes.
            count_at = topic_at + (_TOPIC_ID_BYTES if version >= _TOPIC_IDS_FROM else frame[topic_at])
            count, items_at = frame[count_at] - 1, count_at + 1
        else:
            topic_at = form_at + (_TOPIC_AT_V7 if version >= 7 else _TOPIC_AT_V4)
            count_at = topic_at + _NAME_BYTES.size + _NAME_BYTES.unpack_from(frame, topic_at)[0]
            (count,), items_at = INT32.unpack_from(frame, count_at), count_at + INT32.size
        item = _item_form(version)
        items_end = items_at + count * item.size
        if not 0 < count <= _PARTITIONS_MAX or items_end > len(frame):
            return None
        if count_at - form_at > _FORM_BYTES_MAX or len(frame) - items_end > _FORM_BYTES_MAX:
            return None
        form = _form_of(version, bytes(frame[form_at:count_at]), bytes(frame[items_end:]))
    except (struct.error, IndexError):
        return None
    if form is None:
        return None
    items = item.iter_unpack(frame[items_at:items_end])
    none = NO_LEADER_EPOCH
    if version < 9:
        return form, correlation_id, [Asked(n, none, offset, none, limit) for n, offset, limit in items]
    if version < _FLEXIBLE_FROM:
        asked = [Asked(n, epoch, offset, none, limit) for n, epoch, offset, limit in items]
        return form, correlation_id, asked
    if any(frame[items_at + item.size - 1 : items_end : item.size]):
        return None
    return form, correlation_id, [Asked._make(each) for each in items]


def partition_of(topic: str | UUID, asked: Asked) -> FetchPartition:
    """As the full codec has it."""
    return FetchPartition(
        topic,
        asked.partition,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
    )


def _item_form(version: int) -> struct.Struct:
    if version >= 12:
        return _ASKED_V12
    if version >= 9:
        return _ASKED_V9
    return _ASKED_V5 if version >= 5 else _ASKED_V4


def _count_bytes(version: int) -> int:
    return 1 if version >= _FLEXIBLE_FROM else INT32.size


@lru_cache(maxsize=_FORMS_MAX)
def _form_of(version: int, before: bytes, after: bytes) -> PlainForm | None:
    """What stands around the partitions; None unless the full codec, too, finds them just there."""
    flexible = version >= _FLEXIBLE_FROM
    if flexible and before[0]:  # tags of the header
        return None
    some = Asked(0x01020304, 0x05060708, 0x1112131415161718, NO_LEADER_EPOCH, 0x21222324)
    if version >= 12:
        some = some._replace(last_fetched_epoch=0x31323334)
        values: tuple[int, ...] = some
    elif version >= 9:
        values = some.partition, some.current_leader_epoch, some.fetch_offset, some.partition_max_bytes
    else:
        some = some._replace(current_leader_epoch=NO_LEADER_EPOCH)
        values = some.partition, some.fetch_offset, some.partition_max_bytes
    body = bytearray(before[1:] if flexible else before)
    write_count(body, 1, flexible)
    body += _item_form(version).pack(*values) + after
    try:
        request = fetch.decode_request(version, body)
    except MalformedMessage:
        return None
    if not request.is_full or len(request.partitions) != 1:
        return None
    topic = request.partitions[0].topic
    if request.partitions != [partition_of(topic, some)]:
        return None
    return PlainForm(version, request)
