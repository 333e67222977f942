"""Every message that is not hot, through kio's generated schemas, imported one API and version at a time.

Callers write version-independent code: ``encode_*`` take nested mappings and lists with the field names of
kio (Kafka's own, in snake case) and leave out what the version at hand does not know; ``decode_*`` give kio's
frozen dataclasses, whose absent fields are read with :func:`field_of`. Times are integers in milliseconds and
error codes plain integers on the way in; kio's ``timedelta`` and ``ErrorCode`` on the way out.

The schemas and the writing are kio's; the reading is our own (``entity``), as bytes from a socket deserve.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from io import BytesIO
from threading import RLock
from typing import Any, Final, Literal

from semel.wire.api import ApiKey
from semel.wire.entity import reader_of
from semel.wire.frames import REQUEST_ITEMS_MAX, RESPONSE_ITEMS_MAX, Buffer, MalformedMessage, Reader

Direction = Literal["request", "response"]
Fields = Mapping[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Parsed into objects, these messages grow tenfold; none of them is large in earnest.
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024


# kio's packages import their own modules: two threads that begin with different ones may wait for each other, and
# Python then breaks one's import off (``_DeadlockError``).
_importing: Final = RLock()


@cache
def schema_of(api_key: ApiKey, version: int, direction: Direction) -> type[Any]:
    """kio's class for one message; the first call for a version imports it (a few milliseconds)."""
    with _importing:
        module = import_module(f"kio.schema.{api_key.name.lower()}.v{version}.{direction}")
    name = "".join(map(str.capitalize, api_key.name.split("_"))) + direction.capitalize()
    found = getattr(module, name)
    assert isinstance(found, type)
    return found


def decode_request(api_key: ApiKey, version: int, body: Buffer) -> Any:
    return _decode(api_key, version, "request", body)


def decode_response(api_key: ApiKey, version: int, body: Buffer) -> Any:
    return _decode(api_key, version, "response", body)


def encode_request(api_key: ApiKey, version: int, fields: Fields) -> bytes:
    return _encode(api_key, version, "request", fields)


def encode_response(api_key: ApiKey, version: int, fields: Fields) -> bytes:
    return _encode(api_key, version, "response", fields)


def build(schema: type[Any], fields: Fields) -> Any:
    """An instance of a kio class from nested mappings; fields that this version lacks are left out."""
    return _builder_of(schema)(fields)


def field_of(entity: Any, name: str, absent: Any = None) -> Any:
    """A field that only some versions have."""
    return getattr(entity, name, absent)


def milliseconds(value: timedelta) -> int:
    """kio's form of a duration as the integer that was on the wire."""
    return value // timedelta(milliseconds=1)


def _decode(api_key: ApiKey, version: int, direction: Direction, body: Buffer) -> Any:
    if len(body) > MESSAGE_BYTES_MAX:
        raise MalformedMessage(f"{api_key.name} {direction} of {len(body)} bytes")
    items_max = REQUEST_ITEMS_MAX if direction == "request" else RESPONSE_ITEMS_MAX
    return reader_of(schema_of(api_key, version, direction))(Reader(body, items_max=items_max))


def _encode(api_key: ApiKey, version: int, direction: Direction, fields: Fields) -> bytes:
    out = BytesIO()
    schema = schema_of(api_key, version, direction)
    _writer_of(api_key, version, direction)(out, build(schema, fields))
    return out.getvalue()


@cache
def _writer_of(api_key: ApiKey, version: int, direction: Direction) -> Callable[..., None]:
    with _importing:
        from kio.serial import entity_writer

    return entity_writer(schema_of(api_key, version, direction))


_builders: dict[type[Any], Callable[[Fields], Any]] = {}


def _builder_of(schema: type[Any]) -> Callable[[Fields], Any]:
    known = _builders.get(schema)
    if known is None:
        known = _builders[schema] = _create_builder(schema)
    return known


def _create_builder(schema: type[Any]) -> Callable[[Fields], Any]:
    hints = typing.get_type_hints(schema)
    converters = {
        field.name: _converter_of(hints[field.name], field.metadata.get("kafka_type"))
        for field in dataclasses.fields(schema)
    }

    def create(fields: Fields) -> Any:
        known = {}
        for name, convert in converters.items():
            if name in fields:
                value = fields[name]
                known[name] = value if convert is None or value is None else convert(value)
            elif name == "throttle_time":
                known[name] = timedelta(0)
        return schema(**known)

    return create


def _converter_of(hint: Any, kafka_type: str | None) -> Callable[[Any], Any] | None:
    if kafka_type is not None and kafka_type.startswith("timedelta"):
        return lambda value: timedelta(milliseconds=value)
    if kafka_type == "datetime_i64":
        return lambda value: _EPOCH + timedelta(milliseconds=value)
    if kafka_type == "error_code":
        from kio.schema.errors import ErrorCode

        return ErrorCode
    options = typing.get_args(hint)
    item = next((option for option in options if typing.get_origin(option) is tuple), None)
    if typing.get_origin(hint) is tuple:
        item = hint
    if item is not None:
        element = typing.get_args(item)[0]
        if dataclasses.is_dataclass(element):
            create = _builder_of(typing.cast("type[Any]", element))
            return lambda values: tuple(create(value) for value in values)
        return tuple
    struct = next((one for one in (hint, *options) if dataclasses.is_dataclass(one)), None)
    return None if struct is None else _builder_of(typing.cast("type[Any]", struct))
