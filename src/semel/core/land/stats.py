"""What Delta's log says of a file's columns: readers skip files by it.

Delta's log holds the smallest and the largest value of each column, and how many of its values are null. The dataset of
deltalake takes a column without bounds, in a file that has bounds of others, for one that no comparison is true of, and
skips the file. So it is all or nothing: each column that may have bounds has them, or the file is given by its count of
rows alone, and is skipped by nobody.

A text's bounds are cut at ``TEXT_MAX`` characters, as Delta's protocol permits and Spark does: a prefix is not larger
than its text, and one whose last character is raised is not smaller. Texts are in the order of their code points, which
is that of their UTF-8. No bound that JSON can hold is right for NaN, which some readers take for the largest number and
others for none, for infinities, and for a year that has not four digits: such a file has its count of rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

TEXT_MAX: Final = 32
_RAISED_MAX: Final = 1_024  # characters of a text that cannot be cut, for it begins with the largest one
_LAST_CHARACTER: Final = 0x10FFFF
_BEFORE_SURROGATES: Final = 0xD7FF
_AFTER_SURROGATES: Final = 0xE000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_1: Final = date(1970, 1, 1).toordinal()
_Bound: TypeAlias = Callable[[pa.Scalar, bool], Any]  # a value, and whether it is the smallest
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


class _NoBound(Exception):
    """Delta's log has no text for a value."""


class FileStats:
    """Of one file, gathered from its rows as they are written."""

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = 0
        self._is_told = True
        self._structs = [field.name for field in schema if pa.types.is_struct(field.type)]
        bounds = {field.name: _bound_of(field.type) for field in schema}
        self._bounds = {name: bound for name, bound in bounds.items() if bound is not None}
        self._nulls = dict.fromkeys(self._bounds, 0)
        self._smallest: dict[str, Any] = {}
        self._largest: dict[str, Any] = {}

    def add(self, rows: pa.Table) -> None:
        """Take rows of the file."""
        self._rows += rows.num_rows
        for name in self._nulls:
            column = rows.column(name)
            self._nulls[name] += column.null_count
            if self._is_told and column.null_count < len(column):
                try:
                    self._widen(name, column)
                except (_NoBound, UnicodeDecodeError):
                    self._is_told = False

    def text(self) -> str:
        """An ``add`` action's ``stats``."""
        said: dict[str, Any] = {"numRecords": self._rows}
        if self._is_told:
            # A struct without bounds has to be there, or it would be one that nothing is true of.
            structs: dict[str, Any] = {name: {} for name in self._structs}
            said["minValues"] = structs | {name: _plain(each) for name, each in self._smallest.items()}
            said["maxValues"] = structs | {name: _plain(each) for name, each in self._largest.items()}
            said["nullCount"] = self._nulls
        return _JSON.encode(said).decode()

    def _widen(self, name: str, column: pa.ChunkedArray) -> None:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise _NoBound
        found, bound = pc.min_max(column), self._bounds[name]
        smallest, largest = bound(found["min"], True), bound(found["max"], False)
        self._smallest[name] = min(self._smallest.get(name, smallest), smallest)
        self._largest[name] = max(self._largest.get(name, largest), largest)


def _bound_of(type_: pa.DataType) -> _Bound | None:
    """What makes a bound of a value; ``None``: Delta's log has no bounds of such columns."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return lambda value, is_smallest: _cut(value.as_py(), is_smallest)
    if pa.types.is_floating(type_):
        return _of_float
    if pa.types.is_timestamp(type_):
        return _of_instant if type_.tz else _of_local_time
    if pa.types.is_date32(type_):
        return _of_day
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_decimal(type_):
        return lambda value, _: value.as_py()
    return None


def _cut(text: str, is_smallest: bool) -> str:
    if len(text) <= TEXT_MAX:
        return text
    return text[:TEXT_MAX] if is_smallest else _raised(text)


def _raised(text: str) -> str:
    """A short text that is larger than this long one: the last character that has a next one is raised."""
    length = next((n for n in range(TEXT_MAX, 0, -1) if ord(text[n - 1]) != _LAST_CHARACTER), None)
    if length is None:
        length = next(
            (n for n in range(TEXT_MAX, min(len(text), _RAISED_MAX)) if ord(text[n]) != _LAST_CHARACTER), None
        )
        if length is None:
            raise _NoBound
        length += 1
    last = ord(text[length - 1])
    return text[: length - 1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)


def _of_float(value: pa.Scalar, is_smallest: bool) -> float:
    number: float = value.as_py()
    if number - number != 0:  # infinite, or none
        raise _NoBound
    return number or (-0.0 if is_smallest else 0.0)  # some readers hold -0.0 for smaller than 0.0


def _of_instant(value: pa.Scalar, _: bool) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=value.value)
    except OverflowError:
        raise _NoBound from None


def _of_local_time(value: pa.Scalar, _: bool) -> datetime:
    return _of_instant(value, _).replace(tzinfo=None)


def _of_day(value: pa.Scalar, _: bool) -> date:
    try:
        return date.fromordinal(_DAY_1 + value.value)
    except (OverflowError, ValueError):
        raise _NoBound from None


def _plain(value: Any) -> str | int | float | Decimal:
    """As it is in Delta's log."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, date):
        return value.isoformat()
    number: str | int | float | Decimal = value
    return number
