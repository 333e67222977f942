"""What names rows, of whole columns: the texts that :meth:`IdentityRule.compile` gives of each row by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from semel.audit.identity import (
    BYTES,
    NULL,
    IdentityRule,
    IdentityUnreadable,
    KeyFrom,
    Path,
    field_bytes,
    field_text,
    json_field_as_bytes,
    json_parts,
)
from semel.record.json_columns import too_deep
from semel.record.json_values import SHALLOW_LENGTH, UNREADABLE, NotJson

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
            return _JsonColumns(rule)


def with_lengths(columns: Sequence[pa.Array]) -> pa.Array:
    """Columns of binary as one: :func:`~semel.audit.identity.framed` of each row."""
    parts = [part for column in columns for part in (lengths_of(column), b":", column)]
    return pc.binary_join_element_wise(*parts, b"")


def lengths_of(column: Any) -> Any:
    """How long each value of binary is, as text; null of null."""
    return pc.binary_length(column).cast(pa.string()).cast(pa.binary())


def _whole_rows(keys: pa.Array, values: pa.Array) -> pa.Array:
    lengths, mark = lengths_of(keys), BYTES
    if keys.null_count:
        lengths, keys = pc.fill_null(lengths, NULL), pc.fill_null(keys, b"")
    if values.null_count:
        mark, values = pc.if_else(pc.is_valid(values), BYTES, NULL), pc.fill_null(values, b"")
    return pc.binary_join_element_wise(lengths, b":", keys, mark, values, b"")


class _JsonColumns:
    """Fields of JSON values: all that are asked for in one go, or what is odd by the rule."""

    def __init__(self, rule: IdentityRule) -> None:
        paths = rule.paths()
        self._raws = _reader_of(paths)
        self._as_bytes = rule.as_bytes
        of_value = json_field_as_bytes(paths[0])
        self._exactly = (lambda value: [of_value(value)]) if rule.as_bytes else json_parts(paths)

    def __call__(self, keys: pa.Array, values: pa.Array) -> pa.Array:
        raws, of = self._raws, field_bytes if self._as_bytes else field_text
        is_short = (pc.max(pc.binary_length(values)).as_py() or 0) <= SHALLOW_LENGTH
        deep = set() if is_short else set(too_deep(values))
        rows: list[Sequence[bytes | None]] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                parts = None if raws is None or row in deep else [of(raw) for raw in raws(value)]
            except (*UNREADABLE, NotJson, TypeError):  # TypeError: a value that is null
                parts = None
            rows.append(self._one(row, value) if parts is None else parts)
        columns = [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
        if not columns:
            return pa.array([], pa.binary())
        return columns[0] if self._as_bytes else with_lengths(columns)

    def _one(self, row: int, value: bytes | None) -> Sequence[bytes | None]:
        try:
            return self._exactly(value)
        except IdentityUnreadable as error:
            raise RowUnreadable(row, str(error)) from None


def _shape_of(paths: tuple[Path, ...]) -> dict[str, Any] | None:
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


def _reader_of(paths: tuple[Path, ...]) -> Callable[[bytes], list[bytes]] | None:
    """What stands at the paths; ``None`` where one look cannot tell. A value that lacks one is no value of the type."""
    shape = _shape_of(paths)
    if shape is None:
        return None
    numbers: dict[int, dict[str, int]] = {}

    def struct(tree: dict[str, Any]) -> Any:
        members = [
            (f"f{number}", msgspec.Raw if below is None else struct(below), msgspec.field(name=name))
            for number, (name, below) in enumerate(tree.items())
        ]
        numbers[id(tree)] = {name: number for number, name in enumerate(tree)}
        return msgspec.defstruct("Fields", members)

    try:
        decode = msgspec.json.Decoder(struct(shape)).decode
    except ValueError:  # a name with a quote or the like, which msgspec takes for no field's
        return None
    getters = []
    for path in paths:
        at: dict[str, Any] = shape
        names = []
        for name in path:
            names.append(f"f{numbers[id(at)][name]}")
            at = at[name] or {}
        getters.append(attrgetter(".".join(names)))

    def raws(value: bytes) -> list[bytes]:
        members = decode(value)
        return [bytes(get(members)) for get in getters]

    return raws
