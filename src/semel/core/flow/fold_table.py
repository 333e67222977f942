"""Folds over Arrow tables: once for each entry, all its rows and the states of their keys together.

Invariants
    ``f`` is called once an entry, so nothing of it depends on how an entry's rows were fetched. (Entries are recorded,
    and a replay has the same.) It has to give the same for the same tables: no clock, no random numbers, and no
    operation that spreads over threads and adds up floats in their order (``use_threads=False``).
    The state table has one row for each key of the entry that has a state, in the order of the keys' first appearance.
    What ``f`` returns is the state of all keys of the entry: one that it leaves out has none any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from semel.core.flow.codec import decode_table, encode_table
from semel.core.flow.functions import name_of, shown
from semel.core.flow.grouped import Grouped, KeyColumns, group
from semel.core.flow.pieces import Entry, Piece, StateView, Step
from semel.core.flow.schema import Schema
from semel.core.flow.steps import function_parts, table_of_schema
from semel.errors import ConfigError, StepFailed

KEY_COLUMN: Final = "_key"  # binary, the record's key, in each table


@dataclass(frozen=True)
class FoldTable:
    """``f(state table, rows table) -> (state table, rows table)``, all with the column ``_key`` first."""

    f: Callable[[pa.Table, pa.Table], Any]
    rows: Schema  # that come
    state: Schema
    schema: Schema  # that it emits
    name: str = ""
    version: str = ""

    is_stateful = True
    wants_columns = True

    def __post_init__(self) -> None:
        for what, schema in (
            ("the rows", self.rows),
            ("the state", self.state),
            ("what it emits", self.schema),
        ):
            if KEY_COLUMN in schema:
                raise ConfigError(
                    f"{self.name}: column {KEY_COLUMN!r} is the key's own, and {what} has it, too"
                )

    @classmethod
    def of(
        cls,
        f: Callable[..., Any],
        rows: Schema,
        state: Schema,
        schema: Schema,
        *,
        name: str = "",
        version: str = "",
    ) -> FoldTable:
        """With ``f``'s own name."""
        return cls(f, rows, state, schema, name or f"fold {name_of(f)}", version)

    def start(self) -> Step:
        return _FoldTable(self)

    def output_schema(self, schema: Schema | None) -> Schema:
        return self.schema

    def plan_parts(self) -> Mapping[str, Any]:
        parts = function_parts("fold", self.name, self.version, self.schema, is_columnar=True)
        return {**parts, "state": self.state.ddl, "rows": self.rows.ddl}

    def state_parts(self) -> Mapping[str, Any]:
        return {"step": "fold tables", "state": self.state.ddl}


class _FoldTable:
    def __init__(self, spec: FoldTable) -> None:
        self._spec, self._key = spec, KeyColumns(())

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        grouped = group(pieces, entry, self._spec.name, self._key)
        if grouped is None:
            return []
        state = entry.own_state()
        keys: list[bytes] = grouped.keys.to_pylist()
        stored = state.get_many(keys)
        state_table = self._state_table(keys, stored)
        returned = self._called(state_table, self._rows_table(grouped), grouped)
        self._keep(keys, stored, returned[0], grouped, state)
        made, made_keys = self._checked(returned[1], self._spec.schema, grouped)
        return [Piece(made_keys, self._spec.schema, table=made, input=grouped.pieces[0].input)]

    def _state_table(self, keys: list[bytes], stored: list[bytes | None]) -> pa.Table:
        held = [(key, value) for key, value in zip(keys, stored, strict=True) if value is not None]
        table, bad = decode_table(self._spec.state, pa.array([value for _, value in held], pa.binary()))
        assert not bad, "a state has what was encoded by the same schema"
        return table.add_column(0, KEY_COLUMN, pa.array([key for key, _ in held], pa.binary()))

    def _rows_table(self, grouped: Grouped) -> pa.Table:
        names = self._spec.rows.names
        table = grouped.table(names)
        assert table is not None
        return table.add_column(0, KEY_COLUMN, grouped.keys.take(pa.array(grouped.codes)))

    def _called(self, state: pa.Table, rows: pa.Table, grouped: Grouped) -> tuple[Any, Any]:
        try:
            returned = self._spec.f(state, rows)
        except Exception as error:
            raise StepFailed(self._spec.name, self._where(grouped), error) from error
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise StepFailed(
                self._spec.name,
                self._where(grouped),
                f"it returned {shown(returned)}, and a fold returns (state table, rows table)",
            )
        return returned

    def _keep(
        self, keys: list[bytes], stored: list[bytes | None], made: Any, grouped: Grouped, state: StateView
    ) -> None:
        table, made_keys = self._checked(made, self._spec.state, grouped)
        new_keys: list[bytes] = made_keys.to_pylist()
        after = dict(zip(new_keys, encode_table(table).to_pylist(), strict=True))
        if len(after) < len(new_keys):
            raise StepFailed(
                self._spec.name, self._where(grouped), "it returned the state of one key in several rows"
            )
        before = dict(zip(keys, stored, strict=True))
        for key, old in before.items():
            new = after.get(key)
            if new is None and old is not None:
                state.delete(key)
            elif new is not None and new != old:
                state.put(key, new)
        unknown = after.keys() - before.keys()
        if unknown:
            raise StepFailed(
                self._spec.name,
                self._where(grouped),
                f"it returned the state of {shown(min(unknown))}, which is no key of these rows",
            )

    def _checked(self, made: Any, schema: Schema, grouped: Grouped) -> tuple[pa.Table, pa.Array]:
        if isinstance(made, pa.RecordBatch):
            made = pa.Table.from_batches([made])
        if not isinstance(made, pa.Table) or KEY_COLUMN not in made.column_names:
            raise StepFailed(
                self._spec.name,
                self._where(grouped),
                f"it returned {shown(made)}, and not a table with the column {KEY_COLUMN!r}",
            )
        try:
            keys = made.column(KEY_COLUMN).cast(pa.binary()).combine_chunks()
        except pa.ArrowInvalid as error:
            raise StepFailed(self._spec.name, self._where(grouped), error) from error
        if keys.null_count:
            raise StepFailed(
                self._spec.name, self._where(grouped), f"it returned a row whose {KEY_COLUMN!r} is null"
            )
        return table_of_schema(made.drop_columns(KEY_COLUMN), schema, None, self._spec.name), keys

    @staticmethod
    def _where(grouped: Grouped) -> str:
        last = int(np.sum([len(piece) for piece in grouped.pieces])) - 1
        return f"one of {last + 1} rows from {grouped.place(0)} to {grouped.place(last)}"
