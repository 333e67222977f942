"""The columns that an Avro schema makes, and how values get into them.

Avro resolves a written value by the types below the logical ones: a long is a long, and what it counts is said by the
schema that it is read as. So a long that was annotated later is read as its annotation says. Where the schema that it
was written with says a unit or a scale as well, the value keeps that, and is converted: milliseconds that are read as
microseconds are the same moment.

A logical type that is not known here, or not valid where it stands, is ignored, as Avro wants it: the type below it is
the column. So are times of the day, for which Delta has no type: they are whole numbers. A union of several types is
text, the value's JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from semel.errors import ConfigError
from semel.record.json_values import NESTING_MAX, TOO_DEEP

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
    "null": pa.string(),
}
_OURS: Final = (
    "semel-"  # in front of a logical type's name: else fastavro would convert by what the writer says
)
_DAY_MAX: Final = 2_932_896  # 9999-12-31
_DAY_MIN: Final = -719_162  # 0001-01-01
_DAY_US: Final = 86_400_000_000
_PRECISION_MAX: Final = 38
_EXACT: Final = Context(prec=1_000)
_JSON: Final = msgspec.json.Encoder(decimal_format="number")

Convert = Callable[[Any], Any]  # a value as it was read to one that the column takes


@dataclass(frozen=True, slots=True)
class Column:
    """``convert`` is ``None`` where the column takes the values as they are read."""

    type: pa.DataType
    convert: Convert | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    """Of a logical type that counts: ``us`` is one of it in microseconds; ``type`` is the column's."""

    us: int
    type: pa.DataType
    is_day_time: bool = False


_INSTANT: Final = pa.timestamp("us", "UTC")
_LOCAL: Final = pa.timestamp("us")
_UNITS: Final = {  # by the type below
    ("long", "timestamp-millis"): _Unit(1_000, _INSTANT),
    ("long", "timestamp-micros"): _Unit(1, _INSTANT),
    ("long", "local-timestamp-millis"): _Unit(1_000, _LOCAL),
    ("long", "local-timestamp-micros"): _Unit(1, _LOCAL),
    ("int", "time-millis"): _Unit(1_000, pa.int32(), is_day_time=True),
    ("long", "time-micros"): _Unit(1, pa.int64(), is_day_time=True),
}
_KEPT: Final = frozenset(logical for _, logical in _UNITS) | {"date", "decimal"}


class TooDeep(Exception):
    """A value is nested deeper than JSON may be."""


class _Counted(int):
    """A number whose writer said what it counts."""

    us: int


class _Unscaled(bytes):
    """A decimal's digits, whose writer said where its point is."""

    scale: int


def without_others(schema: dict[str, Any]) -> dict[str, Any]:
    """An object of a schema's JSON, without the logical types that are not known, and with our names for the others."""
    if "logicalType" not in schema:
        return schema
    logical = schema["logicalType"]
    rest = {key: its for key, its in schema.items() if key != "logicalType"}
    return rest | {"logicalType": _OURS + logical} if isinstance(logical, str) and logical in _KEPT else rest


def has_itself(schema: Any, within: frozenset[str] = frozenset()) -> bool:
    """Whether a type of a parsed schema has itself in it, so that its values may be nested at any depth."""
    if isinstance(schema, list):
        return any(has_itself(each, within) for each in schema)
    if isinstance(schema, str):
        return schema in within
    if "fields" in schema:
        within |= {schema["name"]}
        return any(has_itself(field["type"], within) for field in schema["fields"])
    return any(has_itself(schema[part], within) for part in ("items", "values") if part in schema)


def column_of(schema: Any, named: dict[str, Column | None], where: str) -> Column:
    """Of a parsed schema; ``named`` has the records, enums and fixed ones that were met, which may be named again."""
    if isinstance(schema, list):
        left = [each for each in schema if each != "null"]
        return column_of(left[0], named, where) if len(left) == 1 else _union(left, named, where)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return Column(_PLAIN[schema])
        its = named.get(schema)
        if its is None:
            raise ConfigError(f"{where}: {schema} has itself in it, at any depth, and no column has")
        return its
    kind = schema["type"]
    if kind in ("record", "error"):
        return _record(schema, named, where)
    if kind == "array":
        return _array(column_of(schema["items"], named, where))
    if kind == "map":
        return _map(column_of(schema["values"], named, where))
    column = _logical(schema) or (Column(_PLAIN[kind]) if kind in _PLAIN else column_of(kind, named, where))
    if "name" in schema:
        named[schema["name"]] = column
    return column


def _record(schema: Mapping[str, Any], named: dict[str, Column | None], where: str) -> Column:
    named[schema["name"]] = None  # until it is known
    columns = {
        field["name"]: column_of(field["type"], named, f"{where}, field {field['name']}")
        for field in schema["fields"]
    }
    converts = [(name, its.convert) for name, its in columns.items() if its.convert is not None]

    def convert(row: dict[str, Any]) -> dict[str, Any]:
        # Not in place: a default is one object for all rows.
        return row | {name: its(row[name]) for name, its in converts if row[name] is not None}

    type_ = pa.struct([pa.field(name, its.type) for name, its in columns.items()])
    named[schema["name"]] = column = Column(type_, convert if converts else None)
    return column


def _array(items: Column) -> Column:
    its = items.convert
    type_ = pa.list_(pa.field("element", items.type))
    if its is None:
        return Column(type_)
    return Column(type_, lambda values: [None if each is None else its(each) for each in values])


def _map(values: Column) -> Column:
    its = values.convert
    type_ = pa.map_(pa.string(), values.type)
    if its is None:
        return Column(type_)
    return Column(
        type_, lambda items: {key: None if each is None else its(each) for key, each in items.items()}
    )


def _union(left: list[Any], named: dict[str, Column | None], where: str) -> Column:
    for each in left:
        with suppress(ConfigError):  # it needs no column; but what it names may be named again
            column_of(each, named, where)
    return Column(_PLAIN["string" if left else "null"], lambda value: _JSON.encode(_jsonable(value)).decode())


def _jsonable(value: Any, depth: int = 0) -> Any:
    if isinstance(value, dict | list) and depth == NESTING_MAX:
        raise TooDeep(TOO_DEEP)
    if isinstance(value, dict):
        return {key: _jsonable(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_jsonable(each, depth + 1) for each in value]
    if isinstance(value, _Unscaled):
        return _decimal(value, value.scale)
    if isinstance(value, bytes):
        return value.decode("latin-1")  # as Avro's own JSON has them
    if isinstance(value, float) and not math.isfinite(value):
        return str(Decimal(value))  # NaN, Infinity: JSON has no number for them
    return int(value) if isinstance(value, _Counted) else value


def _logical(schema: Mapping[str, Any]) -> Column | None:
    kind, logical = schema["type"], schema.get("logicalType", "").removeprefix(_OURS)
    unit = _UNITS.get((kind, logical))
    if unit is not None:
        return Column(unit.type, _day_time(unit) if unit.is_day_time else _moment(unit))
    if (kind, logical) == ("int", "date"):
        return Column(pa.date32(), _date)
    scale = _scale(schema)
    if scale is None:
        return None
    return Column(
        pa.decimal128(schema["precision"], scale),
        lambda value: _decimal(value, getattr(value, "scale", scale)),
    )


def _scale(schema: Mapping[str, Any]) -> int | None:
    """Of a decimal that a column can be; ``None``: it is none."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    is_one = schema["type"] in ("bytes", "fixed") and schema.get("logicalType") == f"{_OURS}decimal"
    if not is_one or not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return scale if 0 < precision <= _PRECISION_MAX and 0 <= scale <= precision else None


def _decimal(unscaled: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)


def _moment(unit: _Unit) -> Convert:
    def convert(value: int) -> int:
        us = int(value) * getattr(value, "us", unit.us)
        if not _DAY_MIN * _DAY_US <= us < (_DAY_MAX + 1) * _DAY_US:
            raise OverflowError(f"{us} microseconds are outside of the years 1 to 9999")
        return us

    return convert


def _day_time(unit: _Unit) -> Convert:
    return lambda value: int(value) * getattr(value, "us", unit.us) // unit.us


def _date(days: int) -> int:
    if not _DAY_MIN <= days <= _DAY_MAX:
        raise OverflowError(f"{days} days are outside of the years 1 to 9999")
    return days


def _note_unit(us: int) -> Callable[..., _Counted]:
    def read(value: int, writer: Any = None, reader: Any = None) -> _Counted:
        counted = _Counted(value)
        counted.us = us
        return counted

    return read


def _note_scale(value: bytes, writer: Any = None, reader: Any = None) -> bytes:
    scale = _scale(writer)
    if scale is None:
        return value
    unscaled = _Unscaled(value)
    unscaled.scale = scale
    return unscaled


# What fastavro is to do with values whose writer said what they are: remember it.
LOGICAL_READERS.update(
    {f"{kind}-{_OURS}{logical}": _note_unit(its.us) for (kind, logical), its in _UNITS.items()}
)
LOGICAL_READERS.update({f"{kind}-{_OURS}decimal": _note_scale for kind in ("bytes", "fixed")})
