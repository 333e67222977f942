"""Frames, headers and primitive fields of Kafka's protocol (KIP-482 for the flexible versions).

Invariants: no read leaves its buffer, no count is believed before it fits into the bytes that are there,
unknown tagged fields are skipped, and every malformed input raises :class:`MalformedMessage`, nothing else.
Strings and byte fields come out as copies (``str``) or as views into the frame (``memoryview``), as named.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

from semel.errors import CorruptRecordBatch
from semel.wire.api import SERVED, ApiKey, is_flexible

Buffer = bytes | bytearray | memoryview

LENGTH_BYTES: Final = 4
FRAME_MAX_BYTES: Final = 100 * 1024 * 1024
_VARINT_BYTES_MAX: Final = 5
_TAGS_MAX: Final = 64
# A small item becomes an object a hundred times its size, so bytes alone bound nothing. No honest request
# names more things than a server has; an answer may list every producer of every partition.
REQUEST_ITEMS_MAX: Final = 100_000
RESPONSE_ITEMS_MAX: Final = 10_000_000

INT8: Final = struct.Struct(">b")
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
_REQUEST_START: Final = struct.Struct(">hhi")


_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_SERVED_BY_NUMBER: Final = {int(api_key): served for api_key, served in SERVED.items()}


class MalformedMessage(CorruptRecordBatch):
    """A frame's bytes do not form the message that its header announces."""


class RequestHeader(NamedTuple):
    """What precedes every request: which message follows, and the number that its answer repeats."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class Reader:
    """A cursor over one frame; every method checks its bounds."""

    __slots__ = ("buffer", "end", "items_left", "position")

    def __init__(self, buffer: Buffer, position: int = 0, items_max: int = REQUEST_ITEMS_MAX) -> None:
        self.buffer = memoryview(buffer)
        self.position = position
        self.end = len(self.buffer)
        self.items_left = items_max

    @property
    def remaining_bytes(self) -> int:
        return self.end - self.position

    def _fixed(self, form: struct.Struct) -> int:
        position = self.position
        try:
            (value,) = form.unpack_from(self.buffer, position)
        except struct.error:
            raise MalformedMessage(f"message ends inside a field at byte {position}") from None
        self.position = position + form.size
        return value  # type: ignore[no-any-return]

    def int8(self) -> int:
        return self._fixed(INT8)

    def int16(self) -> int:
        return self._fixed(INT16)

    def int32(self) -> int:
        return self._fixed(INT32)

    def int64(self) -> int:
        return self._fixed(INT64)

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self.take(16)))

    def take(self, size_bytes: int) -> memoryview:
        """The next ``size_bytes`` as a view."""
        start = self.position
        stop = start + size_bytes
        if size_bytes < 0 or stop > self.end:
            raise MalformedMessage(f"a field of {size_bytes} bytes leaves its message at byte {start}")
        self.position = stop
        return self.buffer[start:stop]

    def unsigned_varint(self) -> int:
        buffer, position, end = self.buffer, self.position, self.end
        if position < end and buffer[position] < 0x80:  # nearly all of them
            self.position = position + 1
            return buffer[position]
        value = 0
        for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
            if position >= end:
                raise MalformedMessage(f"message ends inside a varint at byte {position}")
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFF_FFFF:
                    break
                self.position = position
                return value
        raise MalformedMessage(f"varint of more than 32 bits at byte {self.position}")

    def nullable_bytes(self, flexible: bool) -> memoryview | None:
        size = self.unsigned_varint() - 1 if flexible else self.int32()
        return None if size == -1 else self.take(size)

    def nullable_string(self, flexible: bool) -> str | None:
        size = self.unsigned_varint() - 1 if flexible else self.int16()
        if size == -1:
            return None
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("a string is not UTF-8") from None

    def string(self, flexible: bool) -> str:
        value = self.nullable_string(flexible)
        if value is None:
            raise MalformedMessage("a string that must not be null is null")
        return value

    def count(self, flexible: bool, item_bytes_min: int) -> int:
        """An array's length; -1 when the array is null.

        Bounded by what the rest of the frame can hold, and by what one message may have in all.
        """
        count = self.unsigned_varint() - 1 if flexible else self.int32()
        if count < -1 or count * item_bytes_min > self.end - self.position:
            raise MalformedMessage(f"an array of {count} items does not fit into its message")
        self.items_left -= count
        if self.items_left < 0:
            raise MalformedMessage(f"more items than a message may have; the last array has {count}")
        return count

    def skip_tags(self) -> None:
        position = self.position
        if position < self.end and not self.buffer[position]:  # nearly always there are none
            self.position = position + 1
            return
        for _ in range(self._tag_count()):
            self.unsigned_varint()
            self.take(self.unsigned_varint())

    def tags(self) -> dict[int, memoryview]:
        """The tagged fields as raw bytes, unknown ones included: take what you know, leave the rest."""
        found: dict[int, memoryview] = {}
        for _ in range(self._tag_count()):
            tag = self.unsigned_varint()
            found[tag] = self.take(self.unsigned_varint())
        return found

    def _tag_count(self) -> int:
        count = self.unsigned_varint()
        if count > _TAGS_MAX or count * 2 > self.remaining_bytes:
            raise MalformedMessage(f"{count} tagged fields do not fit into their message")
        return count


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_string(out: bytearray, value: str | None, flexible: bool) -> None:
    if value is None:
        out += b"\x00" if flexible else b"\xff\xff"
        return
    encoded = value.encode()
    if flexible:
        write_unsigned_varint(out, len(encoded) + 1)
    elif len(encoded) > 32767:
        raise ValueError(f"a string of {len(encoded)} bytes is too long for this version of the message")
    else:
        out += INT16.pack(len(encoded))
    out += encoded


def write_bytes_length(out: bytearray, size_bytes: int, flexible: bool) -> None:
    """The length before a byte field (-1: null); the bytes themselves follow by reference."""
    if flexible:
        write_unsigned_varint(out, size_bytes + 1)
    else:
        out += INT32.pack(size_bytes)


def write_count(out: bytearray, count: int, flexible: bool) -> None:
    """An array's length (-1: null)."""
    write_bytes_length(out, count, flexible)


def write_tags(out: bytearray, tags: dict[int, bytes]) -> None:
    """A tag buffer, in ascending order of tags as KIP-482 demands."""
    write_unsigned_varint(out, len(tags))
    for tag in sorted(tags):
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(tags[tag]))
        out += tags[tag]


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request (without its length prefix), and where its body starts.

    The header's form hangs on the API and version, so of an API or version that is not served it is read only as
    far as all forms have it (but for that of Kafka's ControlledShutdown): enough to answer, or to name in the log. A
    ``client_id`` that is none is None there.
    """
    try:
        api_key, api_version, correlation_id = _REQUEST_START.unpack_from(frame, 0)
    except struct.error:
        raise MalformedMessage("message ends inside its header") from None
    served = _SERVED_BY_NUMBER.get(api_key)
    if served is None or not served.version_min <= api_version <= served.version_max:
        with suppress(MalformedMessage):
            client_id = Reader(frame, _REQUEST_START.size).nullable_string(flexible=False)
            return RequestHeader(api_key, api_version, correlation_id, client_id), _REQUEST_START.size
        return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST_START.size
    reader = Reader(frame, _REQUEST_START.size)
    client_id = reader.nullable_string(flexible=False)  # never compact, so that any broker can read it
    if api_version >= served.flexible_from:
        reader.skip_tags()
    return RequestHeader(api_key, api_version, correlation_id, client_id), reader.position


def encode_request_header(
    api_key: ApiKey, api_version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    out = bytearray(_REQUEST_START.pack(api_key, api_version, correlation_id))
    write_string(out, client_id, flexible=False)
    if is_flexible(api_key, api_version):
        out.append(0)
    return out


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """ApiVersions answers always carry header version 0, so that an old client can read a refusal."""
    flexible = api_key != _API_VERSIONS and api_version >= _SERVED_BY_NUMBER[api_key].flexible_from
    return INT32.pack(correlation_id) + b"\0" if flexible else INT32.pack(correlation_id)


def decode_response_header(frame: Buffer, api_key: ApiKey, api_version: int) -> tuple[int, int]:
    """The correlation id, and where the body starts."""
    reader = Reader(frame)
    correlation_id = reader.int32()
    if api_key is not ApiKey.API_VERSIONS and is_flexible(api_key, api_version):
        reader.skip_tags()
    return correlation_id, reader.position


def frame_of(*parts: Buffer) -> list[Buffer]:
    """``parts`` as one frame: the length prefix, then the parts by reference."""
    return [INT32.pack(sum(map(len, parts))), *parts]
