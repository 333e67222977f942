"""What makes two rows the same row: the part of a record that input and output share.

A row's identity is its record key, its value, the whole record, or some fields of its JSON value. Input and output may
name it differently: the record key ``UA1545`` stands for the JSON field ``"UA1545"``, and several fields compare in the
order they are named in. It is written as a text, of which a number of 128 bits is kept (:mod:`~semel.audit.store`).

Invariant: two rows have one text only if they have one identity. Null is apart from any bytes. A field's text begins
with what it is (a quote, a digit or a minus, ``t``, ``f``, ``n``, ``[``, ``{``), and before each of several stands its
length. Numbers are one where they are the same number, however they are written, and nothing is rounded.

A record key and a value have no kinds: they are bytes. A field that is held against one of them
(:meth:`IdentityRule.held_against`) is what its text says, a number as it is written: then ``1`` and ``"1"`` are one.

:meth:`IdentityRule.compile` says what the text of one record is; :mod:`~semel.audit.columns` gives the same of whole
columns, and a property test holds the two together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from semel.errors import ConfigError, SemelError
from semel.record.json_values import NotJson, as_written, checked, exact, exact_number, found, text_in

NULL: Final = b"n"  # in place of bytes, or of their length
BYTES: Final = b"b"  # before bytes that could be null
NULL_FIELD: Final = b"null"
_SHOWN_BYTES_MAX: Final = 200


class KeyFrom(StrEnum):
    """Where a row's identity stands."""

    ROW = "row"
    KEY = "key"
    VALUE = "value"
    VALUE_JSON = "value-json"


class By(StrEnum):
    """What a row is known by."""

    CONTENT = "content"  # by what it holds, as its identity says
    PLACE = "place"  # by the partition and offset of the input row, which the output has in columns
    LINEAGE = "lineage"  # by the same, which the output has in headers


class IdentityUnreadable(SemelError):
    """A record does not have the identity that was asked for; says which record and why."""


Text = Callable[[bytes | None, bytes | None], bytes | None]
Path = tuple[str, ...]  # of a field, from the document inwards
FieldOf = TypeVar("FieldOf")


@dataclass(frozen=True, slots=True)
class IdentityRule:
    """How the identity of a record is read; ``fields`` are dotted paths into the JSON value.

    ``as_bytes``: the one field is held against bytes, which have no kinds.
    """

    key_from: KeyFrom = KeyFrom.ROW
    fields: tuple[str, ...] = ()
    as_bytes: bool = False

    def __post_init__(self) -> None:
        if (self.key_from is KeyFrom.VALUE_JSON) != bool(self.fields):
            raise ConfigError("fields go with value-json, and only with it: --key FIELD[,FIELD]")

    def __str__(self) -> str:
        return ",".join(self.fields) if self.fields else str(self.key_from)

    @classmethod
    def of(cls, fields: str | None, key_from: KeyFrom | None) -> IdentityRule:
        """The rule that ``--key`` and ``--key-from`` mean together."""
        names = tuple(name.strip() for name in fields.split(",")) if fields else ()
        if any(not name for name in names):
            raise ConfigError(f"{fields!r} names an empty field: write --key FIELD[,FIELD]")
        return cls(key_from or (KeyFrom.VALUE_JSON if names else KeyFrom.ROW), names)

    def held_against(self, other: IdentityRule) -> IdentityRule:
        """This rule where rows are held against those of ``other``; ``ConfigError`` where nothing could be equal."""
        if self.key_from is other.key_from:
            if len(self.fields) != len(other.fields):
                raise ConfigError("input and output must name a row by the same number of fields")
            return self
        if KeyFrom.ROW in (self.key_from, other.key_from):
            raise ConfigError(
                "the whole record is a key and a value: it is held against the whole record, so say with --key-from "
                "and --input-key-from what names a row on both sides"
            )
        if len(self.fields) > 1 or len(other.fields) > 1:
            raise ConfigError(
                f"a record's {KeyFrom.KEY if KeyFrom.KEY in (self.key_from, other.key_from) else KeyFrom.VALUE} is "
                "held against one field, not against several: name that one with --key"
            )
        return replace(self, as_bytes=bool(self.fields))

    def readable(self, key: bytes | None, value: bytes | None) -> str:
        """What names the record, for a person; the whole record where that is its identity."""
        match self.key_from:
            case KeyFrom.ROW:
                return f"key {_shown(key)}, value {_shown(value)}"
            case KeyFrom.KEY:
                return f"key {_shown(key)}"
            case KeyFrom.VALUE:
                return f"value {_shown(value)}"
            case KeyFrom.VALUE_JSON:
                if value is None:
                    return "null"
                return ", ".join(_field(value, path, _shown_field) for path in self.paths())

    def compile(self) -> Text:
        """A function from (key, value) to the identity's text; None when the record has none (a null key).

        It raises :class:`IdentityUnreadable` for a value that is not JSON or lacks a field.
        """
        match self.key_from:
            case KeyFrom.KEY:
                return lambda key, value: key
            case KeyFrom.VALUE:
                return lambda key, value: value
            case KeyFrom.ROW:
                return lambda key, value: (
                    (NULL + b":" if key is None else framed([key]))
                    + (NULL if value is None else BYTES + value)
                )
            case KeyFrom.VALUE_JSON:
                if not self.as_bytes:
                    return json_fields(self.paths())
                of_value = json_field_as_bytes(self.paths()[0])
                return lambda key, value: of_value(value)

    def paths(self) -> tuple[Path, ...]:
        """The fields' names, each from the document inwards."""
        return tuple(tuple(name.split(".")) for name in self.fields)


def json_parts(paths: tuple[Path, ...]) -> Callable[[bytes | None], list[bytes]]:
    """The texts of fields."""
    return lambda value: [_field(value, path, field_text) for path in paths]


def json_fields(paths: tuple[Path, ...]) -> Text:
    """The same as one text."""
    parts = json_parts(paths)
    return lambda key, value: framed(parts(value))


def json_field_as_bytes(path: Path) -> Callable[[bytes | None], bytes | None]:
    """What a record key would have of one field: what a text says, else how it is written; of null nothing."""
    return lambda value: _field(value, path, field_bytes)


def framed(texts: list[bytes]) -> bytes:
    """Texts as one: what follows a length is as long, so each can be taken out again."""
    return b"".join([b"%d:%b" % (len(text), text) for text in texts])


def field_text(raw: bytes) -> bytes:
    """The text of a field, of its JSON; equal for equal values, and for no others."""
    first = raw[0]
    if first == 0x22:  # a quote
        if b"\\" not in raw and raw.isascii():
            return raw[:-1]
        return b'"' + text_in(raw).encode()
    return exact_number(raw) if raw.isdigit() else exact(raw)


def field_bytes(raw: bytes) -> bytes | None:
    """The same where it is held against bytes."""
    if raw[0] == 0x22:
        return raw[1:-1] if b"\\" not in raw and raw.isascii() else text_in(raw).encode()
    return None if raw == NULL_FIELD else as_written(raw, sort=True)


def float_text(number: float) -> bytes:
    """The text of a float, which JSON has none of where it is not finite: the shortest one that gives it."""
    return exact_number(json.dumps(number).encode()) if math.isfinite(number) else json.dumps(number).encode()


def _field(value: bytes | None, path: Path, of: Callable[[bytes], FieldOf]) -> FieldOf:
    if value is None:
        raise IdentityUnreadable("its value is null, not JSON")
    try:
        raw = found(value, path)
        if raw is not None:
            return of(raw)
    except NotJson as error:
        raise IdentityUnreadable(f"its value is not JSON ({error})") from None
    raise IdentityUnreadable(f"its value has no field {'.'.join(path)!r}")


def _shown(data: bytes | None) -> str:
    """Text as it is; in quotes where it would be taken for another one, or break the line."""
    if data is None:
        return "null"
    text = data[:_SHOWN_BYTES_MAX].decode(errors="backslashreplace")
    text = text if text.isprintable() and text not in ("", "null") else json.dumps(text, ensure_ascii=False)
    return text + "…" * (len(data) > _SHOWN_BYTES_MAX)


def _shown_field(raw: bytes) -> str:
    """A text without its quotes, unless it would be taken for something else of JSON."""
    if raw[:1] != b'"':
        return _shown(None if raw == NULL_FIELD else as_written(raw))
    text = text_in(raw)
    try:
        checked(text)
    except NotJson:
        return _shown(text.encode())
    return _shown(msgspec.json.encode(text))
