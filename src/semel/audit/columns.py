"""What names rows, of whole columns: the texts that :meth:`IdentityRule.compile` gives of each row by itself."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from semel.audit.identity import (
    FIELD_SEPARATOR,
    NULL_TEXT,
    IdentityRule,
    IdentityUnreadable,
    KeyFrom,
    json_fields,
)

Columns = Callable[[pa.Array, pa.Array], pa.Array]  # the texts of rows with these keys and values


class RowUnreadable(IdentityUnreadable):
    """The same of a column: ``row`` is which one."""

    def __init__(self, row: int, why: str) -> None:
        self.row = row
        super().__init__(why)


def texts_of(rule: IdentityRule) -> Columns:
    """From columns of binary to texts, null where a record has none.

    The function raises :class:`RowUnreadable` for the first row whose value is not JSON or lacks a field.
    """
    match rule.key_from:
        case KeyFrom.KEY:
            return lambda keys, values: keys
        case KeyFrom.VALUE:
            return lambda keys, values: values
        case KeyFrom.ROW:
            return _whole_rows
        case KeyFrom.VALUE_JSON:
            return _JsonColumns(rule.paths())


def _whole_rows(keys: pa.Array, values: pa.Array) -> pa.Array:
    lengths = pc.binary_length(keys).cast(pa.string()).cast(pa.binary())
    with_length = pc.binary_join_element_wise(lengths, keys, b":")
    return pc.binary_join_element_wise(
        pc.fill_null(with_length, NULL_TEXT), pc.fill_null(values, NULL_TEXT), b""
    )


class _JsonColumns:
    """Fields of JSON values: those that are asked for are found by msgspec, everything odd is left to the rule."""

    def __init__(self, paths: tuple[tuple[str, ...], ...]) -> None:
        self._exactly = json_fields(paths)
        shape = _shape_of(paths)
        self._raw = None if shape is None else _reader_of(shape, paths)

    def __call__(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        try:
            values.cast(pa.string())
        except (
            pa.ArrowInvalid
        ):  # some value is no text, which msgspec does not look for in fields that it skips
            raw = None
        else:
            raw = self._raw
        texts = []
        for row, value in enumerate(values.to_pylist()):
            try:
                texts.append(self._one(row, value) if raw is None else raw(value))
            except (msgspec.DecodeError, _Odd, TypeError):  # TypeError: a value that is null
                texts.append(self._one(row, value))
        return pa.array(texts, pa.binary())

    def _one(self, row: int, value: bytes | None) -> bytes | None:
        try:
            return self._exactly(None, value)
        except IdentityUnreadable as error:
            raise RowUnreadable(row, str(error)) from None


class _Odd(Exception):
    """A field whose text takes more than a look."""


def _shape_of(paths: tuple[tuple[str, ...], ...]) -> dict[str, Any] | None:
    """The paths as a tree; ``None`` where one goes on behind the end of another."""
    tree: dict[str, Any] = {}
    for path in paths:
        at = tree
        for name in path[:-1]:
            at = at.setdefault(name, {})
            if at is None:
                return None
        if at.setdefault(path[-1], None) is not None:
            return None
    return tree


def _reader_of(shape: dict[str, Any], paths: tuple[tuple[str, ...], ...]) -> Callable[[bytes], bytes]:
    numbers: dict[int, dict[str, int]] = {}

    def struct(tree: dict[str, Any]) -> Any:
        members = [
            (f"f{number}", msgspec.Raw if below is None else struct(below), msgspec.field(name=name))
            for number, (name, below) in enumerate(tree.items())
        ]
        numbers[id(tree)] = {name: number for number, name in enumerate(tree)}
        return msgspec.defstruct("Fields", members)

    decode = msgspec.json.Decoder(struct(shape)).decode
    getters = []
    for path in paths:
        at: dict[str, Any] = shape
        names = []
        for name in path:
            names.append(f"f{numbers[id(at)][name]}")
            at = at[name] or {}
        getters.append(attrgetter(".".join(names)))

    def text(value: bytes) -> bytes:
        found = decode(value)
        return FIELD_SEPARATOR.join([_plain(bytes(get(found))) for get in getters])

    return text


def _plain(raw: bytes) -> bytes:
    """The text of a field as it stands in the JSON, where that is what :func:`text_of` would give."""
    if raw[:1] == b'"':
        if b"\\" not in raw:
            return raw[1:-1]
    elif raw.isdigit():
        return raw
    raise _Odd
