"""Rows from JSON and back, by rows or by columns, and the keys of rows.

msgspec is the one reader of JSON, so a value is judged alike wherever it is read. A value is *bad* unless it is one
JSON object (UTF-8, at most ``NESTING_MAX`` deep) whose columns are of their kinds: types are strict, a whole number
must fit its bits, NaN and infinity are no JSON. A missing or null column is None, and what is no column is not looked
at beyond that it is JSON. Of a doubled key the last counts, as for Spark, but each must be of its column's kind. A
timestamp is ISO 8601 with time (no zone: UTC), or a whole number of seconds since 1970, as for Spark's ``from_json``.

Invariants, each a property of the tests:

- A value is judged by itself. Values are read in one call joined by line ends, and that result counts only where it is
  proven that each row is exactly one value (:func:`_read_together`); else they are read one by one.
- Rows and columns tell the same: ``decode_table(s, v)`` is ``table_of(s, decode_rows(s, v).rows)`` and finds the same
  bad values; ``encode_table(table_of(s, rows))`` is ``encode_rows(rows)`` for rows of ``s.row_type``.
- Equal rows have equal bytes: columns in the order of the class, keys of dictionaries and members of sets sorted,
  times in UTC.
- What is bad does not depend on the depth of the caller's stack, nor its text on the version of msgspec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter, countOf
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.columns import (
    NotOfSchema,
    column_of,
    has_odd_float,
    in_family,
    in_utc,
    json_texts,
    nearest,
    of_seconds,
    settled,
    shown,
    split_lines,
    texts_of,
    values_of,
)
from semel.core.flow.schema import Field, Kind, Schema

__all__ = [
    "NESTING_MAX",
    "Decoded",
    "NotOfSchema",
    "conform",
    "decode_rows",
    "decode_table",
    "encode_rows",
    "encode_table",
    "key_bytes",
    "keys_of_rows",
    "keys_of_table",
    "read_key",
    "rows_of_table",
    "table_of",
]

NESTING_MAX: Final = 128  # objects and arrays in one another; far below where any interpreter gives up
_TOGETHER_BYTES_MAX: Final = 1 << 30  # what Arrow joins into one value
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)
_JSON_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ODD_FLOAT: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)  # infinity or NaN, as msgpack has it
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_PACKER: Final = msgspec.msgpack.Encoder()
_TIME_BYTES_MIN: Final = 11

Int64s = npt.NDArray[np.int64]
Bad = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The good rows in their order, and the bad values by index, with why."""

    rows: list[Any]
    kept: Int64s | None  # the index of each row's value; None: every value is a row
    bad: Bad


# --- decode ---------------------------------------------------------------------------------------------


def decode_rows(schema: Schema, values: pa.Array | pa.ChunkedArray) -> Decoded:
    """The rows of these JSON values (binary or string)."""
    values = in_family(Kind.BINARY, _as_binary(values))
    bad: Bad = []
    places: Int64s | None = None  # of the values that are left
    if values.null_count:
        bad = [(index, "the value is null") for index in np.flatnonzero(values.is_null()).tolist()]
        places = np.flatnonzero(values.is_valid())
        values = values.drop_null()
    rows = _read_together(schema, values)
    if rows is None:
        rows, found = _read_each(schema, values)
        places = _drop(found, places, len(values), bad)
    odd = _settle(schema, rows)
    if odd:
        count = len(rows)
        left = dict(odd)
        rows = [row for index, row in enumerate(rows) if index not in left]
        places = _drop(odd, places, count, bad)
    return Decoded(rows, places, sorted(bad))


def decode_table(schema: Schema, values: pa.Array | pa.ChunkedArray) -> tuple[pa.Table, Bad]:
    """The same as columns."""
    decoded = decode_rows(schema, values)
    return table_of(schema, decoded.rows), decoded.bad


def _as_binary(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    return (
        values.cast(pa.binary() if pa.types.is_string(values.type) else pa.large_binary())
        if is_text
        else values
    )


def _drop(found: Bad, places: Int64s | None, count: int, bad: Bad) -> Int64s | None:
    """Which of ``count`` values are left without the ``found`` ones, which go to ``bad``."""
    if not found:
        return places
    if places is None:
        places = np.arange(count)
    bad.extend((int(places[index]), why) for index, why in found)
    return np.delete(places, [index for index, _ in found])


def _read_together(schema: Schema, values: pa.Array) -> list[Any] | None:
    """The rows in one call, or ``None`` where that proves nothing: a value could hold two objects, or half of one.

    They are read as lines. The proof: each of the n values begins with ``{``, there is no other ``{`` in them, and n
    objects were read. So object i begins where value i does, and value i and its line end are the object and white
    space, no more: an object ends with ``}``, which is no line end, so that it ends in the value.
    """
    count = len(values)
    if not count:
        return []
    starts = _starts(values)
    if starts[-1] - starts[0] + count > _TOGETHER_BYTES_MAX:
        return None
    letters = np.frombuffer(values.buffers()[2], np.uint8)
    within = letters[starts[0] : starts[-1]]
    if np.count_nonzero(within == ord("{")) != count or np.count_nonzero(within == ord("[")) >= NESTING_MAX:
        return None
    if starts[-2] == starts[-1] or not (letters[starts[:-1]] == ord("{")).all():
        return None
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values), b"\n")
    try:
        rows: list[Any] = _decoder(schema).decode_lines(joined[0].as_buffer())
    except _UNREADABLE:
        return None
    return rows if len(rows) == count else None


def _read_each(schema: Schema, values: pa.Array) -> tuple[list[Any], Bad]:
    rows: list[Any] = []
    bad: Bad = [(index, f"it is nested more than {NESTING_MAX} deep") for index in _too_deep(values)]
    deep = {index for index, _ in bad}
    decode = _decoder(schema).decode
    for index, value in enumerate(values.to_pylist()):
        if index in deep:
            continue
        try:
            rows.append(decode(value))
        except _UNREADABLE:
            bad.append((index, _why_bad(schema, value)))
    return rows, sorted(bad)


def _too_deep(values: pa.Array) -> list[int]:
    """The values that are nested too deep; only those with so many brackets are looked at one by one."""
    starts = _starts(values)
    letters = np.frombuffer(values.buffers()[2] or b"", np.uint8)[starts[0] : starts[-1]]
    opening = np.flatnonzero((letters == ord("{")) | (letters == ord("["))) + starts[0]
    counts = np.diff(np.searchsorted(opening, starts))
    return [
        index
        for index in np.flatnonzero(counts > NESTING_MAX).tolist()
        if _depth(values[index].as_py()) > NESTING_MAX
    ]


def _depth(value: bytes) -> int:
    deepest = depth = 0
    for letter in _JSON_TEXT.sub(b"", value):
        if letter in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in b"]}":
            depth -= 1
    return deepest


def _starts(values: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value begins, and where the last one ends."""
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[values.offset : values.offset + len(values) + 1]


@lru_cache(maxsize=256)
def _decoder(schema: Schema) -> Any:
    return msgspec.json.Decoder(schema.row_type)


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY: Final = msgspec.json.Decoder(msgspec.Raw)


def _why_bad(schema: Schema, value: bytes) -> str:
    """In words of our own, which are stored: a newer msgspec must not tell a replay otherwise."""
    try:
        _ANY.decode(value)
    except _UNREADABLE:
        return "it is no JSON"
    try:
        columns = _OBJECT.decode(value)
    except msgspec.ValidationError:
        return "it is no JSON object"
    except _UNREADABLE:
        return "it is no JSON in UTF-8"
    for field in schema:
        text = columns.get(field.name)
        if text is not None:
            try:
                msgspec.json.decode(text, type=field.kind.json | None)
            except _UNREADABLE:
                return f"column {field.name!r} is no {field.kind.value}"
    return "a column stands there twice, and one of the two is not of its type"


def _settle(schema: Schema, rows: list[Any]) -> Bad:
    """Bring times to UTC and numbers to 32 bits, in place, where JSON had them otherwise. The rows that cannot be."""
    bad: dict[int, str] = {}
    for field in schema:
        if field.kind not in (Kind.TIMESTAMP, Kind.FLOAT) or not rows:
            continue
        if field.kind is Kind.TIMESTAMP and _all_in_utc(field.name, rows):
            continue
        for index, value in enumerate(map(attrgetter(field.name), rows)):
            if value is None:
                continue
            try:
                if field.kind is Kind.FLOAT:
                    exact: Any = nearest(Kind.FLOAT, value)
                elif type(value) is int:
                    exact = of_seconds(value)
                elif value.tzinfo is UTC:
                    continue
                else:
                    exact = in_utc(value)
            except NotOfSchema:
                bad.setdefault(index, f"column {field.name!r} is no {field.kind.value}")
            else:
                msgspec.structs.force_setattr(rows[index], field.name, exact)
    return sorted(bad.items())


def _all_in_utc(name: str, rows: list[Any]) -> bool:
    try:
        return countOf(map(attrgetter(f"{name}.tzinfo"), rows), UTC) == len(rows)
    except AttributeError:  # None, or a number of seconds
        return False


# --- rows and columns -----------------------------------------------------------------------------------


def table_of(schema: Schema, rows: Sequence[Any]) -> pa.Table:
    """The rows (of ``schema.row_type``, or any objects or dictionaries that have its columns) as columns.

    A column that a row has not is null. :class:`NotOfSchema` names the first value that is not of its column's kind.
    """
    arrays = []
    for field in schema:
        try:
            arrays.append(column_of(field.kind, _values_in(field.name, rows)))
        except NotOfSchema as error:
            raise NotOfSchema(error.why, index=error.index, column=field.name) from None
    return pa.Table.from_arrays(arrays, schema=schema.arrow)


def _values_in(name: str, rows: Sequence[Any]) -> list[Any]:
    try:
        if rows and isinstance(rows[0], dict):
            return [row[name] for row in rows]
        return list(map(attrgetter(name), rows))
    except (AttributeError, KeyError, TypeError):
        return [row.get(name) if isinstance(row, dict) else getattr(row, name, None) for row in rows]


def conform(schema: Schema, table: pa.Table) -> pa.Table:
    """The schema's columns of ``table`` in its own types; a column that is missing is null. Or :class:`NotOfSchema`."""
    if table.schema == schema.arrow:
        return table
    arrays = []
    for field in schema:
        found = table.schema.get_all_field_indices(field.name)
        if len(found) > 1:
            raise NotOfSchema("the table has it twice", column=field.name)
        if not found:
            arrays.append(pa.nulls(table.num_rows, field.kind.arrow))
            continue
        try:
            arrays.append(in_family(field.kind, table.column(found[0])))
        except NotOfSchema as error:
            raise NotOfSchema(error.why, index=error.index, column=field.name) from None
    return pa.Table.from_arrays(arrays, schema=schema.arrow)


def rows_of_table(schema: Schema, table: pa.Table) -> list[Any]:
    """The table's rows, of ``schema.row_type``; the table is brought to the schema as by :func:`conform`."""
    columns = []
    for field, column in zip(schema, conform(schema, table).columns, strict=True):
        try:
            columns.append(values_of(field.kind, in_family(field.kind, column)))
        except NotOfSchema as error:
            raise NotOfSchema(error.why, column=field.name) from None
    return list(map(schema.row_type, *columns))


# --- encode ---------------------------------------------------------------------------------------------


def encode_rows(rows: Sequence[Any]) -> pa.Array:
    """Each row (dictionary, dataclass or Struct) as a JSON object, binary. :class:`NotOfSchema` if one cannot be."""
    rows = rows if isinstance(rows, list) else list(rows)
    if not rows:
        return pa.array([], pa.binary())
    try:
        lines = _ENCODER.encode_lines(rows)
    except Exception:  # whatever a row's class raises
        return _encode_each(rows)
    if b"null" in lines and _has_odd_float(rows):
        return _encode_each(rows)
    if _has_time_elsewhere(lines):
        return _encode_each(rows)
    values = split_lines(lines)
    starts = np.frombuffer(
        values.buffers()[1], np.int64 if pa.types.is_large_binary(values.type) else np.int32
    )
    data = np.frombuffer(values.buffers()[2], np.uint8)
    if len(values) != len(rows) or not (data[starts[:-1]] == ord("{")).all():
        return _encode_each(rows)  # raw JSON with line ends, or what is no object
    return values


def _encode_each(rows: Sequence[Any]) -> pa.Array:
    values = []
    for index, row in enumerate(rows):
        try:
            if has_odd_float(msgspec.to_builtins(row)):
                raise NotOfSchema("it holds NaN or infinity, which cannot be written as JSON")
            value = _ENCODER.encode(_in_utc_within(row))
        except Exception as error:
            why = (
                error.why
                if isinstance(error, NotOfSchema)
                else f"{shown(row)} cannot be written as JSON: {error}"
            )
            raise NotOfSchema(why, index=index) from error
        if not value.lstrip().startswith(b"{"):
            raise NotOfSchema(
                f"{shown(row)} is no JSON object: a row is a dictionary, a dataclass or a Struct", index=index
            )
        values.append(value)
    return pa.array(values, pa.binary())


def _has_odd_float(rows: list[Any]) -> bool:
    """Whether there may be a NaN or an infinity, which msgspec writes as null: in msgpack it has its own bytes."""
    try:
        return _ODD_FLOAT.search(_PACKER.encode(rows)) is not None
    except Exception:  # what msgpack cannot hold, JSON may
        return True


def _has_time_elsewhere(lines: bytes) -> bool:
    """Whether there may be a time in another zone than UTC, or in none: msgspec would cut an offset's seconds off.

    Such a text ends with ``+02:00"``, ``:00:00"`` or ``:00.000001"``; other texts may, too.
    """
    letters = np.frombuffer(lines, np.uint8)
    if len(letters) < _TIME_BYTES_MIN:
        return False
    quotes = letters[10:] == ord('"')
    minutes = quotes & (letters[7:-3] == ord(":"))
    if minutes.any():
        signs = letters[4:-6]
        if (minutes & ((signs == ord("+")) | (signs == ord("-")) | (signs == ord(":")))).any():
            return True
    fractions = quotes & (letters[3:-7] == ord("."))
    return bool(fractions.any() and (fractions & (letters[:-10] == ord(":"))).any())


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
    if isinstance(value, msgspec.Struct):
        names: Iterable[str] = value.__struct_fields__
        assign: Callable[[Any, str, Any], None] = msgspec.structs.force_setattr
    elif is_dataclass(value) and not isinstance(value, type):
        names, assign = [field.name for field in fields(value)], object.__setattr__
    else:
        return value
    moved = copy(value)
    for name in names:
        if (member := getattr(value, name, None)) is not None:
            assign(moved, name, _in_utc_within(member))
    return moved


def encode_table(table: pa.Table) -> pa.Array:
    """Each row of the table as a JSON object of its columns, binary. :class:`NotOfSchema` if one cannot be."""
    parts: list[Any] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            texts = texts_of(column)
        except NotOfSchema as error:
            raise NotOfSchema(error.why, index=error.index, column=name) from None
        parts += [("," if parts else "{") + _ENCODER.encode(name).decode() + ":", texts.fill_null("null")]
    if not parts:
        return pa.array([b"{}"] * table.num_rows, pa.binary())
    return pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary())


# --- keys -----------------------------------------------------------------------------------------------


def keys_of_table(schema: Schema, columns: Sequence[str], table: pa.Table) -> pa.Array:
    """Each row's key by these columns, binary; null where one of them is.

    One column of text is its UTF-8; another one its JSON text; several are a JSON array.
    """
    keyed = schema.select(columns)
    arrays = [
        in_family(field.kind, column)
        for field, column in zip(keyed, conform(keyed, table).columns, strict=True)
    ]
    if len(keyed) == 1 and keyed.fields[0].kind is Kind.STRING:
        return arrays[0].cast(pa.binary())
    texts = [json_texts(field.kind, array) for field, array in zip(keyed, arrays, strict=True)]
    if len(texts) == 1:
        return texts[0].cast(pa.binary())
    commas = [part for text in texts for part in (",", text)][1:]
    return pc.binary_join_element_wise("[", *commas, "]", "").cast(pa.binary())


def keys_of_rows(schema: Schema, columns: Sequence[str], rows: Sequence[Any]) -> pa.Array:
    """The same of rows."""
    return keys_of_table(schema, columns, table_of(schema.select(columns), rows))


def key_bytes(fields: Sequence[Field], values: Sequence[Any]) -> bytes | None:
    """One key, of a value for each field."""
    exact = [settled(field.kind, value) for field, value in zip(fields, values, strict=True)]
    if None in exact:
        return None
    if any(isinstance(value, float) and not np.isfinite(value) for value in exact):
        raise NotOfSchema("a key of NaN or infinity cannot be written as JSON")
    if len(fields) > 1:
        return _ENCODER.encode(exact)
    return exact[0].encode() if fields[0].kind is Kind.STRING else _ENCODER.encode(exact[0])


def read_key(fields: Sequence[Field], key: bytes | None) -> tuple[Any, ...] | None:
    """A value for each field; ``None`` for no key, and for one that is not of them."""
    if key is None:
        return None
    try:
        if len(fields) == 1 and fields[0].kind is Kind.STRING:
            return (key.decode(),)
        decoded = _key_decoder(tuple(fields)).decode(key)
        values = decoded if len(fields) > 1 else (decoded,)
        return tuple(
            of_seconds(value)
            if field.kind is Kind.TIMESTAMP and type(value) is int
            else settled(field.kind, value)
            for field, value in zip(fields, values, strict=True)
        )
    except (*_UNREADABLE, NotOfSchema):
        return None


@lru_cache(maxsize=256)
def _key_decoder(fields: tuple[Field, ...]) -> Any:
    types = [field.kind.json for field in fields]
    return msgspec.json.Decoder(tuple[*types] if len(types) > 1 else types[0])  # type: ignore[valid-type]
