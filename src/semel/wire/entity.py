"""Reads kio's message classes from untrusted bytes.

kio's own reader trusts the counts that it reads: an array that claims 2^31 items makes it allocate them and
abort the whole process, which one frame of a stranger must not be able to do; and it raises on an unknown
tagged field, which must be skipped. So the schemas are kio's, and the reading is done here, through
:class:`semel.wire.frames.Reader`, which believes no count before it fits into the rest of the frame.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from semel.wire.frames import MalformedMessage, Reader

_Read: TypeAlias = Callable[[Reader], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS: Final[dict[str, tuple[_Read, int]]] = {
    "int8": (Reader.int8, 1),
    "int16": (Reader.int16, 2),
    "int32": (Reader.int32, 4),
    "int64": (Reader.int64, 8),
}


class _Type(NamedTuple):
    """How to read one value, and how many bytes it takes at least."""

    read: _Read
    bytes_min: int


class _Tagged(NamedTuple):
    name: str
    read: _Read


_known: dict[type[Any], _Type] = {}


def reader_of(schema: type[Any]) -> _Read:
    """The function that reads one ``schema``; anything but ``MalformedMessage`` out of it is a defect."""
    return _type_of_class(schema).read


def _type_of_class(schema: type[Any]) -> _Type:
    known = _known.get(schema)
    if known is None:
        known = _known[schema] = _create(schema)
    return known


def _create(schema: type[Any]) -> _Type:
    flexible = bool(schema.__flexible__)
    hints = typing.get_type_hints(schema)
    plain: list[tuple[str, _Read]] = []
    tagged: dict[int, _Tagged] = {}
    bytes_min = 1 if flexible else 0
    for field in dataclasses.fields(schema):
        found = _type_of(hints[field.name], field.metadata.get("kafka_type"), flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = _Tagged(field.name, found.read)
        else:
            plain.append((field.name, found.read))
            bytes_min += found.bytes_min

    def read(reader: Reader) -> Any:
        values = {name: read_field(reader) for name, read_field in plain}
        if flexible:
            if tagged:
                for tag, content in reader.tags().items():
                    if tag in tagged:
                        values[tagged[tag].name] = tagged[tag].read(Reader(content))
            else:
                reader.skip_tags()
        return schema(**values)

    return _Type(read, bytes_min)


def _read_bytes(reader: Reader, *, flexible: bool, nullable: bool) -> bytes | None:
    """A copy: it may be kept for long."""
    found = reader.nullable_bytes(flexible)
    if found is None and not nullable:
        raise MalformedMessage("bytes that must not be null are null")
    return None if found is None else bytes(found)


def _type_of(hint: Any, kafka_type: str | None, flexible: bool) -> _Type:
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    nullable = type(None) in typing.get_args(hint)
    if nullable:
        (hint,) = options
    if typing.get_origin(hint) is tuple:
        return _array_of(_type_of(typing.get_args(hint)[0], kafka_type, flexible), nullable, flexible)
    if dataclasses.is_dataclass(hint):
        found = _type_of_class(typing.cast("type[Any]", hint))
        return _nullable(found) if nullable else found
    if kafka_type == "string":
        length_bytes = 1 if flexible else 2
        if nullable:
            return _Type(lambda reader: reader.nullable_string(flexible), length_bytes)
        return _Type(lambda reader: reader.string(flexible), length_bytes)
    if kafka_type == "bytes":
        return _Type(partial(_read_bytes, flexible=flexible, nullable=nullable), 1 if flexible else 4)
    if kafka_type in _INTEGERS:
        return _Type(*_INTEGERS[kafka_type])
    try:
        return {
            "bool": _Type(lambda reader: reader.int8() != 0, 1),
            "error_code": _Type(_read_error_code, 2),
            "uuid": _Type(_read_uuid, 16),
            "timedelta_i32": _Type(lambda reader: timedelta(milliseconds=reader.int32()), 4),
            "timedelta_i64": _Type(_read_long_timedelta, 8),
            "datetime_i64": _Type(_read_datetime, 8),
        }[str(kafka_type)]
    except KeyError:
        raise TypeError(f"no reader for a field of type {kafka_type}") from None


def _array_of(item: _Type, nullable: bool, flexible: bool) -> _Type:
    read_item, item_bytes_min = item

    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.count(flexible, item_bytes_min)
        if count >= 0:
            return tuple([read_item(reader) for _ in range(count)])
        if nullable:
            return None
        raise MalformedMessage("an array that must not be null is null")

    return _Type(read, 1 if flexible else 4)


def _nullable(struct: _Type) -> _Type:
    """A struct that may be null has a byte before it that says so (KIP-893)."""

    def read(reader: Reader) -> Any:
        return None if reader.int8() < 0 else struct.read(reader)

    return _Type(read, 1)


def _read_uuid(reader: Reader) -> UUID | None:
    """All zeros stand for none, as in kio."""
    value = reader.uuid()
    return value if value.int else None


def _read_long_timedelta(reader: Reader) -> timedelta:
    try:
        return timedelta(milliseconds=reader.int64())
    except OverflowError:
        raise MalformedMessage("a duration of more than a million years") from None


def _read_datetime(reader: Reader) -> datetime:
    """Milliseconds since 1970; -1, which stands for none, is the last one before."""
    try:
        return _EPOCH + timedelta(milliseconds=reader.int64())
    except OverflowError:
        raise MalformedMessage("a date that no calendar has") from None


def _read_error_code(reader: Reader) -> int:
    """kio's ``ErrorCode``, or the plain number of one that it does not know."""
    from kio.schema.errors import ErrorCode

    code = reader.int16()
    try:
        return ErrorCode(code)
    except ValueError:
        return code
