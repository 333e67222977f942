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
from fastavro import _read_py, parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException

from semel.errors import ConfigError
from semel.land.avro_columns import TooDeep, column_of, has_itself, without_others
from semel.land.avro_defaults import settle_defaults
from semel.land.values import Bad
from semel.record.json_values import TOO_DEEP
from semel.wording import counted, one_line

_FRAME_BYTES: Final = 5
_OTHER_FORMS: Final = {
    b"Obj\x01": "an Avro file (object container), which is not read: send each of its values by itself",
    b"\x03\x00": "the frame of AWS Glue's serializer, which is not read: land it with --value raw",
    b"\x03\x05": "the frame of AWS Glue's serializer, compressed, which is not read: land it with --value raw",
    b"\xc3\x01": "Avro's single-object encoding, which is not read: land it with --value raw",
}
_NO_COLUMN: Final = "a column cannot hold it: "


class AvroValues:
    """``writers`` by id: values are framed; none: they are plain, and written with ``reader``."""

    def __init__(self, reader: Path, writers: Mapping[int, Path] | None = None) -> None:
        self._reader = _load(reader)
        self._writers = {number: _load(path) for number, path in (writers or {}).items()}
        column = column_of(self._reader, {}, str(reader))
        if not pa.types.is_struct(column.type):
            raise ConfigError(f"{reader} is no record: its fields would be the columns")
        settle_defaults(self._reader, self._reader["__named_schemas"], str(reader))
        # fastavro's compiled reader ends the process where a value is nested too deep for the stack.
        self._nested = {id(each) for each in (self._reader, *self._writers.values()) if has_itself(each)}
        self._convert = column.convert
        self.schema: pa.Schema | None = pa.schema([field.with_nullable(True) for field in column.type])

    def read(self, values: pa.ChunkedArray) -> tuple[pa.Table, Bad]:
        assert self.schema is not None
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        bad: list[tuple[int, str]] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                row = self._read_one(value)
                rows.append(row if self._convert is None else self._convert(row))
                places.append(index)
            except _NotOfSchema as error:
                bad.append((index, str(error)))
            except TooDeep as error:
                bad.append((index, str(error)))
            except (OverflowError, ValueError) as error:
                bad.append((index, _NO_COLUMN + _in_short(error)))
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
                bad.append((index, _NO_COLUMN + _in_short(error)))
        return pa.Table.from_pylist(kept, self.schema), sorted(bad)

    def _read_one(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            raise _NotOfSchema("the value is null")
        writer, body = self._reader, value
        if self._writers:
            if len(value) < _FRAME_BYTES or value[0] != 0:
                raise _NotOfSchema(f"it has no frame with a schema's id{_looks_like(value)}")
            number = int.from_bytes(value[1:_FRAME_BYTES], "big")
            if number not in self._writers:
                raise _NotOfSchema(f"its schema has the id {number}, which no --writer-schema names")
            writer, body = self._writers[number], value[_FRAME_BYTES:]
        hint = "" if self._writers else _looks_like(value)
        source = io.BytesIO(body)
        read = _read_py.schemaless_reader if id(writer) in self._nested else schemaless_reader
        try:
            row: Any = read(source, writer, self._reader)
        except RecursionError:
            raise _NotOfSchema(TOO_DEEP) from None
        except Exception as error:  # fastavro lets through whatever its reading runs into
            raise _NotOfSchema(f"it is no Avro of the schema: {_in_short(error)}{hint}") from None
        if source.tell() != len(body):
            more = counted(len(body) - source.tell(), "byte")
            raise _NotOfSchema(f"it has {more} more than the schema says{hint}")
        return dict(row)


class _NotOfSchema(Exception):
    """Why a value is bad."""


def _looks_like(value: bytes) -> str:
    """Of a value that does not fit: what it may be instead, and what to do."""
    if len(value) >= _FRAME_BYTES and value[0] == 0:
        number = int.from_bytes(value[1:_FRAME_BYTES], "big")
        return f"; it looks like Confluent's frame of schema id {number}: say --writer-schema {number}=FILE"
    for begins, what in _OTHER_FORMS.items():
        if value.startswith(begins):
            return f"; it looks like {what}"
    return ""


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"[:200]


def _load(path: Path) -> Any:
    try:
        return parse_schema(json.loads(path.read_text(encoding="utf-8"), object_hook=without_others))
    except OSError as error:
        raise ConfigError(f"Avro schema {path}: {error.strerror or error}") from None
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        SchemaParseException,
    ) as error:  # as fastavro meets it
        raise ConfigError(f"Avro schema {path}: {_in_short(error)}") from None
