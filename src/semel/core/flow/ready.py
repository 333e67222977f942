"""The ready folds: count, sum, min, max and last for each key, over whole columns.

A ready fold runs once for each entry, over all its rows together, and emits one row for each key that is among them,
in the order of the keys' first appearance: the key's columns, then the total as of the entry's end. (A typed fold
emits with each row; what both have for a key at the end of an entry is the same.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from semel.core.flow.folds import KEYS_CACHED_MAX, key_text
from semel.core.flow.grouped import Grouped, KeyColumns, group
from semel.core.flow.pieces import Entry, Piece, StateView, Step, columns_for_state
from semel.core.flow.schema import Field, Kind, Schema
from semel.core.flow.totals import (
    SUMMED,
    CountTotal,
    ExtremeTotal,
    LastTotal,
    SumTotal,
    TooLarge,
    Total,
)
from semel.errors import StepFailed


@dataclass(frozen=True)
class ReadyFold:
    """What the ready folds have in common. ``key`` is the columns of the key that the rows come under."""

    key: tuple[Field, ...]

    is_stateful: ClassVar[bool] = True
    wants_columns: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    kind_name: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return self.kind_name

    def needs(self, schema: Schema | None) -> tuple[str, ...]:
        """The columns that it reads."""
        of = getattr(self, "of", "")
        return (of,) if of else ()

    def total(self, schema: Schema | None) -> Total:
        """Over rows of ``schema``; ``ConfigError`` or ``ValueError`` where there is no such total of them."""
        raise NotImplementedError

    def start(self) -> Step:
        return _Ready(self)

    def output_schema(self, schema: Schema | None) -> Schema:
        """The key's columns, then what the total says."""
        return Schema((*self.key, *self.total(schema).fields))

    def plan_parts(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {"step": self.kind_name, "key": Schema(self.key).ddl}
        parts |= {
            name: getattr(self, name) for name in ("of", "column") if getattr(self, name, None) is not None
        }
        return parts

    def state_parts(self) -> Mapping[str, Any] | None:
        parts = dict(self.plan_parts())
        parts.pop("column", None)  # another name for it is no other state
        return parts


@dataclass(frozen=True)
class Count(ReadyFold):
    """How many rows."""

    column: str = "count"

    kind_name: ClassVar[str] = "count"

    def total(self, schema: Schema | None) -> Total:
        return CountTotal(self.column)


@dataclass(frozen=True)
class Sum(ReadyFold):
    """The sum of a column of numbers: a whole number as ``bigint``, others as ``double``."""

    of: str = ""
    column: str = ""

    kind_name: ClassVar[str] = "sum"

    def total(self, schema: Schema | None) -> Total:
        kind = _kind_of(self.of, schema)
        if kind not in SUMMED:
            raise ValueError(f"column {self.of!r} is {kind.value}, and only numbers have a sum")
        return SumTotal(self.of, kind, self.column or f"sum_{self.of}")


@dataclass(frozen=True)
class Min(ReadyFold):
    """The least value of a column."""

    of: str = ""
    column: str = ""

    kind_name: ClassVar[str] = "min"

    def total(self, schema: Schema | None) -> Total:
        return ExtremeTotal(self.of, _kind_of(self.of, schema), self.column or f"min_{self.of}", is_max=False)


@dataclass(frozen=True)
class Max(ReadyFold):
    """The greatest value of a column."""

    of: str = ""
    column: str = ""

    kind_name: ClassVar[str] = "max"

    def total(self, schema: Schema | None) -> Total:
        return ExtremeTotal(self.of, _kind_of(self.of, schema), self.column or f"max_{self.of}", is_max=True)


@dataclass(frozen=True)
class Last(ReadyFold):
    """The last row: all its columns."""

    kind_name: ClassVar[str] = "last"
    keeps_state: ClassVar[bool] = False  # of an entry's last row, nothing has to be known from the one before

    def total(self, schema: Schema | None) -> Total:
        if schema is None:
            raise ValueError("the rows have no columns")
        named = {field.name for field in self.key}
        return LastTotal(tuple(field for field in schema if field.name not in named))

    def needs(self, schema: Schema | None) -> tuple[str, ...]:
        return tuple(field.name for field in self.total(schema).fields)


def _kind_of(of: str, schema: Schema | None) -> Kind:
    if schema is None:
        raise ValueError("the rows have no columns")
    return schema[of].kind


class _Ready:
    def __init__(self, spec: ReadyFold) -> None:
        self._spec = spec
        self._key = KeyColumns(spec.key)
        self._states: dict[bytes, Any] = {}
        self._encode = msgspec.msgpack.Encoder().encode
        self._of: tuple[Schema | None, Total] | None = None
        self._decode: Any = None

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        if self._spec.keeps_state:
            pieces = [self._kept(piece, entry) for piece in pieces]
        grouped = group(pieces, entry, self._spec.name, self._key)
        if grouped is None:
            return []
        total = self._total(grouped.schema)
        state = entry.own_state() if self._spec.keeps_state else None
        keys = grouped.keys.to_pylist()
        before = [None] * len(keys) if state is None else self._load(keys, state)
        try:
            after = total.add(
                grouped.codes, len(keys), grouped.table(self._spec.needs(grouped.schema)), before
            )
        except TooLarge as error:
            raise StepFailed(self._spec.name, key_text(keys[error.group]), error) from error
        if state is not None:
            self._keep(keys, before, after, state)
        return [self._emitted(grouped, total, after)]

    def _kept(self, piece: Piece, entry: Entry) -> Piece:
        return columns_for_state(piece, entry, self._spec.name, self._spec.needs(piece.schema))

    def _total(self, schema: Schema | None) -> Total:
        if self._of is None or self._of[0] != schema:
            self._of = schema, self._spec.total(schema)
            self._decode = msgspec.msgpack.Decoder(self._of[1].state_type).decode
        return self._of[1]

    def _load(self, keys: list[bytes], state: StateView) -> list[Any]:
        states = self._states
        unknown = [key for key in keys if key not in states]
        for key, stored in zip(unknown, state.get_many(unknown), strict=True):
            states[key] = None if stored is None else self._decode(stored)
        return [states[key] for key in keys]

    def _keep(self, keys: list[bytes], before: Sequence[Any], after: Sequence[Any], state: StateView) -> None:
        states = self._states
        is_changed = [new is not None and new != old for old, new in zip(before, after, strict=True)]
        keys, changed = list(compress(keys, is_changed)), list(compress(after, is_changed))
        state.put_many(keys, list(map(self._encode, changed)))
        states.update(zip(keys, changed, strict=True))
        if len(states) > KEYS_CACHED_MAX:
            states.clear()

    def _emitted(self, grouped: Grouped, total: Total, states: Sequence[Any]) -> Piece:
        schema = Schema((*self._spec.key, *total.fields))
        table = pa.Table.from_arrays([*grouped.key_columns, *total.columns(states)], schema=schema.arrow)
        return Piece(keys=grouped.keys, schema=schema, table=table)
