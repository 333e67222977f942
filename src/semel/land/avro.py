"""Avro values to columns, by fastavro: plain, or in the frame of Confluent's serializers (a zero, and a schema's id).

The columns are those of the reader's schema; nested ones become Arrow's own structs, lists and maps. Framed values name
the schema that they were written with: which id is which schema is said by hand, for there is no registry here, and a
value with an id that nobody named is bad. To guess would be to read it wrongly.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException

from semel.errors import ConfigError
from semel.land.values import Bad
from semel.wording import one_line

_PLAIN: Final = {
    "string": pa.string(),
    "enum": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}
_LOGICAL: Final = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}
_FRAME_BYTES: Final = 5


class AvroValues:
    """``writers`` by id: values are framed; none: they are plain, and written with ``reader``."""

    def __init__(self, reader: Path, writers: Mapping[int, Path] | None = None) -> None:
        self._reader = _load(reader)
        self._writers = {number: _load(path) for number, path in (writers or {}).items()}
        named: dict[str, Any] = {}
        type_ = _arrow(self._reader, named, str(reader))
        if not pa.types.is_struct(type_):
            raise ConfigError(f"{reader} is no record: its fields would be the columns")
        self.schema: pa.Schema | None = pa.schema([field.with_nullable(True) for field in type_])

    def read(self, values: pa.ChunkedArray) -> tuple[pa.Table, Bad]:
        assert self.schema is not None
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        bad: list[tuple[int, str]] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                rows.append(self._read_one(value))
                places.append(index)
            except _NotOfSchema as error:
                bad.append((index, str(error)))
        try:
            return pa.Table.from_pylist(rows, self.schema), bad
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            return self._each(rows, places, bad)

    def _each(
        self, rows: list[dict[str, Any]], places: list[int], bad: list[tuple[int, str]]
    ) -> tuple[pa.Table, Bad]:
        """One of them is Avro, and no column's: a date beyond the year 9999, a text that is no UTF-8."""
        kept = []
        for row, index in zip(rows, places, strict=True):
            try:
                pa.Table.from_pylist([row], self.schema)
                kept.append(row)
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
                bad.append((index, f"a column cannot hold it: {_in_short(error)}"))
        return pa.Table.from_pylist(kept, self.schema), sorted(bad)

    def _read_one(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            raise _NotOfSchema("the value is null")
        writer, body = self._reader, value
        if self._writers:
            if len(value) < _FRAME_BYTES or value[0] != 0:
                raise _NotOfSchema("it has no frame with a schema's id")
            number = int.from_bytes(value[1:_FRAME_BYTES], "big")
            if number not in self._writers:
                raise _NotOfSchema(f"its schema has the id {number}, which no --writer-schema names")
            writer, body = self._writers[number], value[_FRAME_BYTES:]
        source = io.BytesIO(body)
        try:
            row: Any = schemaless_reader(source, writer, self._reader)
        except Exception as error:  # fastavro lets through whatever its reading runs into
            raise _NotOfSchema(f"it is no Avro of the schema: {_in_short(error)}") from None
        if source.tell() != len(body):
            raise _NotOfSchema(f"it has {len(body) - source.tell()} bytes more than the schema says")
        return dict(row)


class _NotOfSchema(Exception):
    """Why a value is bad."""


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"[:200]


def _load(path: Path) -> Any:
    try:
        return parse_schema(json.loads(path.read_text(encoding="utf-8"), object_hook=_uuid_as_text))
    except OSError as error:
        raise ConfigError(f"Avro schema {path}: {error.strerror or error}") from None
    except (ValueError, SchemaParseException) as error:
        raise ConfigError(f"Avro schema {path}: {_in_short(error)}") from None


def _uuid_as_text(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: its for key, its in schema.items() if (key, its) != ("logicalType", "uuid")}


def _arrow(schema: Any, named: dict[str, Any], where: str) -> pa.DataType:
    """Arrow's type; ``named`` has the records, enums and fixed ones that were met, which may be named again."""
    if isinstance(schema, list):
        left = [each for each in schema if each != "null"]
        if len(left) == 1:
            return _arrow(left[0], named, where)
        raise ConfigError(
            f"{where}: a union of {len(left)} types is no column; only one of them beside null is"
        )
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if named.get(schema) is None:
            raise ConfigError(f"{where}: {schema} is no type of a column, or one within itself")
        return named[schema]
    logical = schema.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical is not None:
        raise ConfigError(
            f"{where}: the logical type {logical} is not known; take it away to land what it is made of"
        )
    return _arrow_of_plain(schema, named, where)


def _arrow_of_plain(schema: dict[str, Any], named: dict[str, Any], where: str) -> pa.DataType:
    kind = schema["type"]
    name: str = schema.get("name", "")
    if kind in ("record", "error"):
        named[name] = None  # until it is known: one that has itself in it is no column
        fields = [
            pa.field(field["name"], _arrow(field["type"], named, f"{where}, field {field['name']}"))
            for field in schema["fields"]
        ]
        type_: pa.DataType = pa.struct(fields)
    elif kind == "array":
        type_ = pa.list_(pa.field("element", _arrow(schema["items"], named, where)))
    elif kind == "map":
        type_ = pa.map_(pa.string(), _arrow(schema["values"], named, where))
    else:
        return _named(schema, named, name, where)
    named[name] = type_
    return type_


def _named(schema: dict[str, Any], named: dict[str, Any], name: str, where: str) -> pa.DataType:
    type_ = _PLAIN.get(schema["type"]) or _arrow(schema["type"], named, where)
    named[name] = type_
    return type_
