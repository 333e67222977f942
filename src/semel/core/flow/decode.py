"""JSON values to rows.

What is JSON is said in :mod:`semel.record.json_values`, also for conditions and audits. A value is *bad* unless it is
one JSON object, at most ``NESTING_MAX`` deep, whose columns are of their kinds: types are strict (``1.0`` is no
integer), a whole number must fit its bits, NaN and infinity are no JSON, a text is UTF-8 without half surrogate pairs.
A missing or null column is None, and what is no column is not looked at beyond that it is JSON. Of a doubled key the
last counts, as for Spark's ``from_json``, but each must be of its column's kind. A timestamp is ISO 8601 with date and
time to the second at least, rounded to microseconds, in UTC if it has no zone; or a whole number of seconds since 1970,
as for Spark's ``from_json``.

Invariants: a value is judged by itself; the values are read in one call, joined by line ends, but that result counts
only where it is proven that each row is exactly one value (:func:`_read_together`), else they are read one by one. What
is bad does not depend on the depth of the caller's stack, nor its text on the version of msgspec: both would make a
replay differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from functools import lru_cache
from operator import attrgetter, countOf
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.columns import NotOfSchema, in_family, in_utc, nearest, of_seconds
from semel.core.flow.schema import Kind, Schema
from semel.core.flow.tables import table_of
from semel.record.json_columns import starts_of, too_deep
from semel.record.json_values import NESTING_MAX, TOO_DEEP, UNREADABLE

_TOGETHER_BYTES_MAX: Final = 1 << 30  # what Arrow joins into one value

Int64s = npt.NDArray[np.int64]
Bad = list[tuple[int, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The good rows in their order, and the bad values by index, with why."""

    rows: list[Any]
    kept: Int64s | None  # the index of each row's value; None: every value is a row
    bad: Bad


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
    return table_of(schema, decoded.rows, is_settled=True), decoded.bad


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
    starts = starts_of(values)
    if starts[-1] - starts[0] + count > _TOGETHER_BYTES_MAX:
        return None
    if (starts[1:] == starts[:-1]).any():
        return None
    letters = np.frombuffer(values.buffers()[2], np.uint8)
    within = letters[starts[0] : starts[-1]]
    if np.count_nonzero(within == ord("{")) != count or not (letters[starts[:-1]] == ord("{")).all():
        return None
    if np.count_nonzero(within == ord("[")) >= NESTING_MAX:
        return None
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values), b"\n")
    try:
        rows: list[Any] = _decoder(schema).decode_lines(joined[0].as_buffer())
    except UNREADABLE:
        return None
    return rows if len(rows) == count else None


def _read_each(schema: Schema, values: pa.Array) -> tuple[list[Any], Bad]:
    rows: list[Any] = []
    bad: Bad = [(index, TOO_DEEP) for index in too_deep(values)]
    deep = {index for index, _ in bad}
    decode = _decoder(schema).decode
    for index, value in enumerate(values.to_pylist()):
        if index in deep:
            continue
        try:
            rows.append(decode(value))
        except UNREADABLE:
            bad.append((index, _why_bad(schema, value)))
    return rows, sorted(bad)


@lru_cache(maxsize=256)
def _decoder(schema: Schema) -> Any:
    return msgspec.json.Decoder(schema.row_type)


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY: Final = msgspec.json.Decoder(msgspec.Raw)


def _why_bad(schema: Schema, value: bytes) -> str:
    """In words of our own, which are stored: a newer msgspec must not tell a replay otherwise."""
    try:
        _ANY.decode(value)
    except UNREADABLE:
        return "it is no JSON"
    try:
        columns = _OBJECT.decode(value)
    except msgspec.ValidationError:
        return "it is no JSON object"
    except UNREADABLE:
        return "it is no JSON in UTF-8"
    for field in schema:
        text = columns.get(field.name)
        if text is not None:
            try:
                msgspec.json.decode(text, type=field.kind.json | None)
            except UNREADABLE:
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
