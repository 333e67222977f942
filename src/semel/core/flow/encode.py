"""Rows and tables to JSON objects.

Equal rows have equal bytes: columns in the order of the class or table, keys of dictionaries and members of sets
sorted, times in UTC (of a zone that is no whole number of minutes from UTC, as some before 1937, too, which msgspec
alone would round). What would not read back is refused: NaN and infinity, which msgspec would write as null, and what
is no object.

The rows are written in one call; what cannot be seen in that is looked for only where its text says that it may be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.columns import (
    ENCODER,
    NotOfSchema,
    in_family,
    in_utc,
    json_texts,
    kind_of,
    plain,
    shown,
    split_lines,
)

_ODD_FLOAT: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)  # infinity or NaN, as msgpack has it
_PACKER: Final = msgspec.msgpack.Encoder(enc_hook=plain)
_SCALARS: Final = {str, int, float, bool, bytes, date, datetime, type(None)}
_TIME_LETTERS_MIN: Final = 11


def encode_rows(rows: Sequence[Any]) -> pa.Array:
    """Each row (dictionary, dataclass or Struct) as a JSON object, binary. :class:`NotOfSchema` if one cannot be."""
    rows = rows if isinstance(rows, list) else list(rows)
    if not rows:
        return pa.array([], pa.binary())
    try:
        lines = ENCODER.encode_lines(rows)
        if _may_have_time_elsewhere(lines) and _has_time_elsewhere(rows):
            rows = list(map(_in_utc_within, rows))
            lines = ENCODER.encode_lines(rows)
    except Exception:  # whatever a row's class raises: one by one, to say which
        return _encode_each(rows)
    if b"null" in lines and _may_have_odd_float(rows):
        return _encode_each(rows)
    values = split_lines(lines)
    if len(values) != len(rows) or not _all_objects(values):
        return _encode_each(rows)  # raw JSON with line ends, or what is no object
    return values


def encode_table(table: pa.Table) -> pa.Array:
    """Each row of the table as a JSON object of its columns, binary. :class:`NotOfSchema` if one cannot be."""
    parts: list[Any] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            texts = _texts(column)
        except NotOfSchema as error:
            raise NotOfSchema(error.why, index=error.index, column=name) from None
        parts += [("," if parts else "{") + ENCODER.encode(name).decode() + ":", texts.fill_null("null")]
    if not parts:
        return pa.array([b"{}"] * table.num_rows, pa.binary())
    return pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())


def _texts(column: pa.ChunkedArray) -> pa.Array:
    kind = kind_of(column.type)
    if kind is not None:
        return json_texts(kind, in_family(kind, column))
    values = (
        None if value is None else _json_of(value, index) for index, value in enumerate(column.to_pylist())
    )
    return pa.array(values, pa.binary()).cast(pa.string())


def _encode_each(rows: Sequence[Any]) -> pa.Array:
    values = []
    for index, row in enumerate(rows):
        value = _json_of(row, index)
        if not value.startswith(b"{"):
            why = f"{shown(row)} is no JSON object: a row is a dictionary, a dataclass or a Struct"
            raise NotOfSchema(why, index=index)
        values.append(value)
    return pa.array(values, pa.binary())


def _json_of(value: Any, index: int) -> bytes:
    try:
        if _has_odd_float(msgspec.to_builtins(value, enc_hook=_plain_or_raw)):
            raise NotOfSchema(f"{shown(value)} holds NaN or infinity, which JSON has not", index=index)
        return ENCODER.encode(_in_utc_within(value))
    except NotOfSchema as error:
        raise NotOfSchema(error.why, index=index) from error
    except Exception as error:
        raise NotOfSchema(f"{shown(value)} cannot be written as JSON: {error}", index=index) from error


def _plain_or_raw(value: Any) -> Any:
    return None if isinstance(value, msgspec.Raw) else plain(value)  # raw JSON has no such float


def _all_objects(values: pa.Array) -> bool:
    is_large = pa.types.is_large_binary(values.type)
    starts = np.frombuffer(values.buffers()[1], np.int64 if is_large else np.int32)
    letters = np.frombuffer(values.buffers()[2], np.uint8)
    return bool((np.diff(starts) > 0).all() and (letters[starts[:-1]] == ord("{")).all())


# --- NaN and infinity -----------------------------------------------------------------------------------


def _may_have_odd_float(rows: list[Any]) -> bool:
    """Whether there may be a NaN or an infinity: where JSON has null for it, msgpack has bytes of its own."""
    try:
        return _ODD_FLOAT.search(_PACKER.encode(rows)) is not None
    except Exception:  # what msgpack cannot hold, JSON may
        return True


def _has_odd_float(value: Any) -> bool:
    match value:
        case float():
            return not math.isfinite(value)
        case dict():
            return any(map(_has_odd_float, value.values()))
        case list() | tuple() | set() | frozenset():
            return any(map(_has_odd_float, value))
    return False


# --- times ----------------------------------------------------------------------------------------------


def _may_have_time_elsewhere(lines: bytes) -> bool:
    """Whether the text may have a time of another zone than UTC, or of none.

    Such a one ends with ``+02:00"``, ``:00:00"`` or ``:00.000001"``. (An offset below half a minute would be written
    as none. The least one in the time zone database is of 52 seconds.)
    """
    letters = np.frombuffer(lines, np.uint8)
    if len(letters) < _TIME_LETTERS_MIN:
        return False
    quotes = letters[10:] == ord('"')
    minutes = quotes & (letters[7:-3] == ord(":"))
    if minutes.any():
        before = letters[4:-6]
        if (minutes & ((before == ord("+")) | (before == ord("-")) | (before == ord(":")))).any():
            return True
    fractions = quotes & (letters[3:-7] == ord("."))
    return bool(fractions.any() and (fractions & (letters[:-10] == ord(":"))).any())


def _has_time_elsewhere(rows: list[Any]) -> bool:
    """Whether they hold one; true also where that is not seen at once, for what they hold is nested."""
    members = _members(rows)
    if members is None:
        return True
    types = set(map(type, members))
    if not types <= _SCALARS:
        return True
    return datetime in types and any(type(value) is datetime and value.tzinfo is not UTC for value in members)


def _members(rows: list[Any]) -> list[Any] | None:
    """All values of all rows, if these are of one class."""
    if len(set(map(type, rows))) != 1:
        return None
    if type(rows[0]) is dict:
        return list(chain.from_iterable(map(dict.values, rows)))
    names = _names_of(rows[0])
    return None if names is None else [value for name in names for value in map(attrgetter(name), rows)]


def _names_of(row: Any) -> list[str] | None:
    if isinstance(row, msgspec.Struct):
        return list(row.__struct_fields__)
    if is_dataclass(row) and not isinstance(row, type):
        return [field.name for field in fields(row)]
    return None


def _in_utc_within(value: Any) -> Any:
    """``value`` with its times in UTC, wherever in it they are."""
    match value:
        case datetime():
            return in_utc(value)
        case dict():
            return {key: _in_utc_within(member) for key, member in value.items()}
        case list() | tuple():
            return [_in_utc_within(member) for member in value]
        case set() | frozenset():
            return {_in_utc_within(member) for member in value}
    names: Iterable[str] | None = _names_of(value)
    if names is None:
        return value
    is_struct = isinstance(value, msgspec.Struct)
    assign: Callable[[Any, str, Any], None] = (
        msgspec.structs.force_setattr if is_struct else object.__setattr__
    )
    moved = copy(value)
    for name in names:
        if (member := getattr(value, name, None)) is not None:
            assign(moved, name, _in_utc_within(member))
    return moved
