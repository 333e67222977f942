"""SQLite's functions of JSON, over the one reader of JSON: they are registered in place of its own.

Its own take the first of doubled keys, half surrogate pairs, what stands behind a NUL, and with each version other
extensions, paths and bytes for JSON (JSON5 from 3.42 on, JSONB from 3.45 on). What they give here is what SQLite gives
of the same value elsewhere: of a field null, true and false are SQL's null, 1 and 0, objects and arrays their text.

A number that SQL cannot hold, a whole one beyond 64 bits or a fraction beyond a double, is refused where it is asked
for: rounded, it would be another one. ``->`` gives its text. A fraction is the nearest double, as in any such column.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from semel.errors import SemelError
from semel.record.json_values import (
    NO_UTF_8,
    TOO_DEEP,
    Document,
    NotJson,
    Step,
    as_written,
    checked,
    elements_in,
    finder,
    found,
    text_in,
)

Sql = str | bytes | int | float | None

_MEMBER: Final = re.compile(r'\."([^"]*)"|\.([^.\["]+)')
_ELEMENT: Final = re.compile(r"\[(?:(\d{1,18})|#-([1-9]\d{0,17}))\]")
_BITS: Final = 64
_INT_DIGITS_MAX: Final = 20  # with the sign


class _Refused(SemelError):
    """What a function cannot give; says why."""


class JsonSql:
    """The functions of one database, and why one of them failed, which SQLite does not hand on."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._why: str | None = None
        self._plain = sqlite3.connect(":memory:")  # with SQLite's own functions
        for name, (function, counts) in FUNCTIONS.items():
            for count in counts:
                database.create_function(name, count, self._reporting(function), deterministic=True)
        for name, count in _CHANGES.items():
            changed = self._reporting(partial(self._changed, name))
            database.create_function(name, count, changed, deterministic=True)

    def taken_why(self) -> str | None:
        """Why the last call failed, if it was one of these."""
        why, self._why = self._why, None
        return why

    def _changed(self, name: str, value: Sql = None, *others: Sql) -> Sql:
        """What SQLite makes of a value that it is given written in one way: then all its versions read the same."""
        document = _document(value)
        if document is None:
            return None
        values = [_one_way(document), *others]
        if name == "json_patch":
            values[1:] = [None if each is None else _one_way(each) for each in map(_document, others)]
        try:
            (made,) = self._plain.execute(f"SELECT {name}({', '.join('?' * len(values))})", values).fetchone()
        except sqlite3.Error as error:
            raise _Refused(str(error)) from None
        return made  # type: ignore[no-any-return]

    def _reporting(self, function: Callable[..., Sql]) -> Callable[..., Sql]:
        def called(*values: Sql) -> Sql:
            try:
                return function(*values)
            except NotJson as error:
                why = str(error)
                self._why = f"malformed JSON ({why})" if why in (NO_UTF_8, TOO_DEEP) else "malformed JSON"
                raise
            except _Refused as error:
                self._why = str(error)
                raise

        return called


def _json_text(value: Sql, step: Sql) -> Sql:
    raw = _found(value, _steps_of(step))
    return None if raw is None else as_written(raw).decode()


def _sql_value(value: Sql, step: Sql) -> Sql:
    raw = _found(value, _steps_of(step))
    return None if raw is None else _sql(raw)


def _extract(value: Sql = None, *paths: Sql) -> Sql:
    steps = [_path_of(path) for path in paths]
    document = _document(value)
    if document is None or not paths or None in steps:
        return None
    raws = [found(document, each) for each in steps if each is not None]
    if len(raws) == 1:
        return None if raws[0] is None else _sql(raws[0])
    return "[" + ",".join("null" if raw is None else as_written(raw).decode() for raw in raws) + "]"


def _valid(value: Sql, flags: Sql = None) -> Sql:
    if flags is not None:
        raise _Refused("json_valid is of one value: what is JSON is not for a condition to say")
    document = _document(value)
    if document is None:
        return 0
    try:
        checked(document)
    except NotJson:
        return 0
    return 1


_TYPES: Final = {'"': "text", "[": "array", "{": "object", "t": "true", "f": "false", "n": "null"}


def _type(value: Sql, path: Sql = "$") -> Sql:
    raw = _found(value, _path_of(path))
    if raw is None:
        return None
    return _TYPES.get(chr(raw[0])) or ("integer" if _is_whole(raw) else "real")


def _array_length(value: Sql, path: Sql = "$") -> Sql:
    raw = _found(value, _path_of(path))
    if raw is None:
        return None
    return len(elements_in(raw)) if raw[:1] == b"[" else 0


# With the numbers of arguments of SQLite's own, of any version: one of those would be taken where it fits better.
FUNCTIONS: Final[dict[str, tuple[Callable[..., Sql], tuple[int, ...]]]] = {
    "->": (_json_text, (2,)),
    "->>": (_sql_value, (2,)),
    "json_extract": (_extract, (-1,)),
    "json_valid": (_valid, (1, 2)),
    "json_type": (_type, (1, 2)),
    "json_array_length": (_array_length, (1, 2)),
}


_CHANGES: Final = {"json_set": -1, "json_insert": -1, "json_replace": -1, "json_remove": -1, "json_patch": 2}
NAMES: Final = (*FUNCTIONS, *_CHANGES)


def _one_way(document: Document) -> str:
    return as_written(found(document, ()) or b"").decode()


def _document(value: Sql) -> Document | None:
    return value if isinstance(value, str | bytes | None) else str(value)


def _found(value: Sql, path: tuple[Step, ...] | None) -> bytes | None:
    if path is None:
        return None
    if value.__class__ is str:
        return finder(path)(value)
    document = _document(value)
    return None if document is None else found(document, path)


def _sql(raw: bytes) -> Sql:
    if raw.isdigit() and len(raw) < _INT_DIGITS_MAX - 1:
        return int(raw)
    match raw[:1]:
        case b'"':
            return text_in(raw)
        case b"n":
            return None
        case b"t":
            return 1
        case b"f":
            return 0
        case b"[" | b"{":
            return as_written(raw).decode()
    if _is_whole(raw):
        number = int(raw) if len(raw) <= _INT_DIGITS_MAX else None
        if number is None or not -(1 << _BITS - 1) <= number < 1 << _BITS - 1:
            raise _Refused(f"{_shown(raw)} is beyond the {_BITS} bits of SQL's whole numbers{_ADVICE}")
        return number
    real = float(raw)
    if math.isinf(real):
        raise _Refused(f"{_shown(raw)} is beyond a double, as which SQL has fractions{_ADVICE}")
    return real


_ADVICE: Final = ": value -> 'field' gives its text"


def _shown(raw: bytes) -> str:
    text = raw[:40].decode()
    return text if len(raw) <= len(text) else f"{text}…"


def _is_whole(raw: bytes) -> bool:
    return raw.lstrip(b"-").isdigit()


# --- paths --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _steps_of(step: Sql) -> tuple[Step, ...] | None:
    """What stands to the right of ``->``: a member's name, an element's number, or a path."""
    if isinstance(step, int):
        return (step,)
    if isinstance(step, str) and step[:1] not in ("$", "["):
        return (step,)
    return _path_of(f"${step}" if isinstance(step, str) and step[0] == "[" else step)


@lru_cache(maxsize=256)
def _path_of(path: Sql) -> tuple[Step, ...] | None:
    if path is None:
        return None
    if not isinstance(path, str) or path[:1] != "$":
        raise _Refused(f"JSON path error near {path!r}: a path begins with $, as '$.inner.field'")
    return _parsed(path)


def _parsed(path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 1
    while at < len(path):
        if member := _MEMBER.match(path, at):
            steps.append(member[2] if member[1] is None else member[1])
            at = member.end()
        elif element := _ELEMENT.match(path, at):
            steps.append(int(element[1]) if element[1] else -int(element[2]))
            at = element.end()
        else:
            raise _Refused(f"JSON path error near {path[at:]!r}")
    return tuple(steps)
