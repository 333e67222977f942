"""What makes two rows the same row: the part of a record that input and output share.

A row's identity is a text: its record key, its value, the whole record, or some fields of a JSON value. Input and
output may name it differently, as long as both sides come to the same text: the record key ``UA1545`` equals the
JSON field ``"UA1545"``, and several fields compare in the order they are named in. What is kept of the text is a
number of 128 bits (:mod:`~semel.audit.store`).

:meth:`IdentityRule.compile` says what the text of one record is; :mod:`~semel.audit.columns` gives the same of whole
columns, and a property test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from semel.errors import ConfigError, SemelError

FIELD_SEPARATOR: Final = b"\x1f"  # ASCII's unit separator: does not occur in names and numbers
NULL_TEXT: Final = b"\x00null"
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


@dataclass(frozen=True, slots=True)
class IdentityRule:
    """How the identity of a record is read; ``fields`` are dotted paths into the JSON value."""

    key_from: KeyFrom = KeyFrom.ROW
    fields: tuple[str, ...] = ()

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
                text = self.compile()(key, value) or b""
                return ", ".join(
                    _shown(None if part == NULL_TEXT else part) for part in text.split(FIELD_SEPARATOR)
                )

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
                    (NULL_TEXT if key is None else b"%d:" % len(key) + key)
                    + (NULL_TEXT if value is None else value)
                )
            case KeyFrom.VALUE_JSON:
                return json_fields(self.paths())

    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The fields' names, each from the document inwards."""
        return tuple(tuple(name.split(".")) for name in self.fields)


def json_fields(paths: tuple[tuple[str, ...], ...]) -> Text:
    loads = json.loads
    plain = tuple(path[0] for path in paths) if all(len(path) == 1 for path in paths) else None

    def text(key: bytes | None, value: bytes | None) -> bytes:
        if value is None:
            raise IdentityUnreadable("its value is null, not JSON")
        try:
            document = loads(value.decode() if value[:1] == b"{" else value)  # else it guesses the encoding
        except ValueError as error:
            raise IdentityUnreadable(f"its value is not JSON ({error})") from None
        try:
            found = [document[name] for name in plain] if plain else [_dig(document, path) for path in paths]
        except (KeyError, TypeError):
            missing = next(".".join(path) for path in paths if not _has(document, path))
            raise IdentityUnreadable(f"its value has no field {missing!r}") from None
        return FIELD_SEPARATOR.join([text_of(item) for item in found])

    return text


def _shown(data: bytes | None) -> str:
    """Text as it is; in quotes where it would be taken for another one, or break the line."""
    if data is None:
        return "null"
    text = data[:_SHOWN_BYTES_MAX].decode(errors="backslashreplace")
    text = text if text.isprintable() and text not in ("", "null") else json.dumps(text, ensure_ascii=False)
    return text + "…" * (len(data) > _SHOWN_BYTES_MAX)


def _dig(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document[name]
    return document


def _has(document: Any, path: tuple[str, ...]) -> bool:
    try:
        _dig(document, path)
    except (KeyError, TypeError):
        return False
    return True


def text_of(item: Any) -> bytes:
    """The text of a JSON value: that of a string is what it says, and null is no string."""
    if isinstance(item, str):
        return item.encode(errors="surrogatepass")
    if type(item) is int:  # not a bool
        return b"%d" % item
    if item is None:
        return NULL_TEXT
    return json.dumps(item, sort_keys=True, separators=(",", ":")).encode()
