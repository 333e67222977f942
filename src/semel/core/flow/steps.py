"""Steps of a task that keep nothing: map, filter, flat_map, and the key that rows go on under.

Each row is answered for itself, in order, so no cut of the rows can be told from what comes out. A function that
takes Arrow tables is trusted to do the same: it is given rows in pieces whose ends mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from semel.core.flow.codec import keys_of_rows, keys_of_table
from semel.core.flow.functions import Capture, Conform, given_rows, name_of, shown, takes_tables
from semel.core.flow.pieces import Entry, Indices, Piece, Step, StepSpec, keyed, rows_text
from semel.core.flow.record import records_of
from semel.core.flow.schema import Schema
from semel.errors import StepFailed


@dataclass(frozen=True)
class Map:
    """One row for each row. Without ``schema`` the rows that ``f`` returns are of no declared type."""

    f: Callable[..., Any]
    schema: Schema | None = None
    name: str = ""
    version: str = ""  # of the source text of ``f``
    is_columnar: bool = False  # ``f`` takes an Arrow table and returns one of as many rows
    takes_record: bool = False  # ``f`` takes a row and its record

    is_stateful = False

    @classmethod
    def of(
        cls,
        f: Callable[..., Any],
        schema: Schema | None = None,
        *,
        name: str = "",
        version: str = "",
        takes_record: bool = False,
    ) -> Map:
        """With its name, and rows or columns, as ``f`` itself says."""
        return cls(f, schema, name or f"map {name_of(f)}", version, takes_tables(f), takes_record)

    @property
    def wants_columns(self) -> bool:
        return self.is_columnar

    def start(self) -> Step:
        return _Map(self)

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return self.schema or (schema if self.is_columnar else None)

    def plan_parts(self) -> Mapping[str, Any]:
        return _parts("map", self, self.schema)

    def state_parts(self) -> None:
        return None


class _Map:
    def __init__(self, spec: Map) -> None:
        self._spec = spec
        self._capture, self._conform = Capture(spec.schema), Conform(spec.name, spec.schema)

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        return [self._columns(piece) if self._spec.is_columnar else self._rows(piece) for piece in pieces]

    def _rows(self, piece: Piece) -> Piece:
        capture, is_flat = self._capture, self._spec.schema is not None
        f, rows = call_and_rows(self._spec, piece)
        made: list[Any] = []
        keep = made.append
        try:
            for row in rows:
                returned = f(row)
                if returned is None:
                    raise TypeError(
                        "it returned None, and a map makes one row of each: filter or flat_map leave some out"
                    )
                kind: type = type(returned)
                keep(returned.copy() if kind is dict and is_flat else capture(returned))  # most maps
        except Exception as error:
            raise StepFailed(self._spec.name, piece.place(len(made)), error) from error
        return piece.made(None, self._spec.schema, rows=self._conform.rows(made, piece.place))

    def _columns(self, piece: Piece) -> Piece:
        spec = self._spec
        schema = spec.schema or piece.schema
        assert schema is not None
        if not len(piece):  # whether there are such pieces depends on cuts
            return piece.made(None, schema, table=schema.arrow.empty_table())
        table = piece.as_table()
        made = call_on_table(spec.f, table, piece, spec.name)
        table_made = table_of_schema(made, schema, piece, spec.name)
        if table_made.num_rows != table.num_rows:
            raise StepFailed(
                spec.name,
                rows_text(piece),
                f"it was given {table.num_rows} rows and returned {table_made.num_rows}, and a map makes one of each",
            )
        return piece.made(None, schema, table=table_made)


@dataclass(frozen=True)
class Filter:
    """The rows for which ``f`` is true, as they came; ``None`` is not true."""

    f: Callable[..., Any]
    name: str = ""
    version: str = ""
    is_columnar: bool = False  # ``f`` takes an Arrow table and returns a boolean for each row
    takes_record: bool = False

    is_stateful = False

    @classmethod
    def of(
        cls, f: Callable[..., Any], *, name: str = "", version: str = "", takes_record: bool = False
    ) -> Filter:
        """With its name, and rows or columns, as ``f`` itself says."""
        return cls(f, name or f"filter {name_of(f)}", version, takes_tables(f), takes_record)

    @property
    def wants_columns(self) -> bool:
        return self.is_columnar

    def start(self) -> Step:
        return _Filter(self)

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return schema

    def plan_parts(self) -> Mapping[str, Any]:
        return _parts("filter", self, None)

    def state_parts(self) -> None:
        return None


class _Filter:
    def __init__(self, spec: Filter) -> None:
        self._spec = spec

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        return [
            piece.take(self._columns(piece) if self._spec.is_columnar else self._rows(piece))
            for piece in pieces
        ]

    def _rows(self, piece: Piece) -> Indices:
        said = list[bool]()
        f, rows = call_and_rows(self._spec, piece)
        keep = said.append
        try:
            for row in rows:
                keep(True if f(row) else False)  # noqa: SIM210 (a call of bool() for each row is slower)
        except Exception as error:
            raise StepFailed(self._spec.name, piece.place(len(said)), error) from error
        return np.flatnonzero(np.array(said, dtype=np.bool_))

    def _columns(self, piece: Piece) -> Indices:
        if not len(piece):
            return np.zeros(0, dtype=np.int64)
        said = call_on_table(self._spec.f, piece.as_table(), piece, self._spec.name)
        try:
            if isinstance(said, (pa.Array, pa.ChunkedArray)):
                if not pa.types.is_boolean(said.type):
                    raise TypeError(f"it returned {said.type} and not a boolean for each row")
                mask = np.asarray(said.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
            else:
                mask = np.asarray(said)
                if mask.dtype != np.bool_:
                    raise TypeError(f"it returned {shown(said)} and not a boolean for each row")
            if mask.shape != (len(piece),):
                raise TypeError(f"it was given {len(piece)} rows and returned {mask.shape} booleans")
        except TypeError as error:
            raise StepFailed(self._spec.name, rows_text(piece), error) from error
        return np.flatnonzero(mask)


@dataclass(frozen=True)
class FlatMap:
    """Any number of rows for each row: a list, a tuple, an iterator, one row, or ``None``.

    With Arrow tables ``f`` returns ``(table, of)``: ``of[i]``, ascending, is the number of the row that row ``i`` of
    the table was made of. Without it nobody could say under which key a row goes on.
    """

    f: Callable[..., Any]
    schema: Schema | None = None
    name: str = ""
    version: str = ""
    is_columnar: bool = False
    takes_record: bool = False

    is_stateful = False

    @classmethod
    def of(
        cls,
        f: Callable[..., Any],
        schema: Schema | None = None,
        *,
        name: str = "",
        version: str = "",
        takes_record: bool = False,
    ) -> FlatMap:
        """With its name, and rows or columns, as ``f`` itself says."""
        return cls(f, schema, name or f"flat_map {name_of(f)}", version, takes_tables(f), takes_record)

    @property
    def wants_columns(self) -> bool:
        return self.is_columnar

    def start(self) -> Step:
        return _FlatMap(self)

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return self.schema or (schema if self.is_columnar else None)

    def plan_parts(self) -> Mapping[str, Any]:
        return _parts("flat_map", self, self.schema)

    def state_parts(self) -> None:
        return None


class _FlatMap:
    def __init__(self, spec: FlatMap) -> None:
        self._spec = spec
        self._capture, self._conform = Capture(spec.schema), Conform(spec.name, spec.schema)

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        return [self._columns(piece) if self._spec.is_columnar else self._rows(piece) for piece in pieces]

    def _rows(self, piece: Piece) -> Piece:
        capture = self._capture
        f, given = call_and_rows(self._spec, piece)
        made: list[Any] = []
        of: list[int] = []
        number = 0
        try:
            for number, row in enumerate(given):
                for one in given_rows(f(row)):
                    made.append(capture(one))
                    of.append(number)
        except Exception as error:
            raise StepFailed(self._spec.name, piece.place(number), error) from error
        rows = self._conform.rows(made, lambda row: piece.place(of[row]))
        return piece.made(np.array(of, dtype=np.int64), self._spec.schema, rows=rows)

    def _columns(self, piece: Piece) -> Piece:
        spec = self._spec
        schema = spec.schema or piece.schema
        assert schema is not None
        if not len(piece):
            return piece.made(None, schema, table=schema.arrow.empty_table())
        returned = call_on_table(spec.f, piece.as_table(), piece, spec.name)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise StepFailed(
                spec.name,
                rows_text(piece),
                "it returned no (table, of): of[i] is the number of the row that row i was made of",
            )
        table = table_of_schema(returned[0], schema, piece, spec.name)
        of = np.asarray(returned[1])
        if len(of) == 0:
            of = of.astype(np.int64)
        is_ascending = (
            of.shape == (table.num_rows,)
            and np.issubdtype(of.dtype, np.integer)
            and (not len(of) or (of[0] >= 0 and of[-1] < len(piece) and bool((of[1:] >= of[:-1]).all())))
        )
        if not is_ascending:
            raise StepFailed(
                spec.name,
                rows_text(piece),
                f"of is not the ascending number, below {len(piece)}, of a row that came in, for each of the "
                f"{table.num_rows} rows that it returned",
            )
        return piece.made(of.astype(np.int64), schema, table=table)


@dataclass(frozen=True)
class KeyBy:
    """Sets the record key to that of these columns. A row with a null in one of them has no key, and is bad."""

    columns: tuple[str, ...]
    name: str = "key_by"

    is_stateful = False
    wants_columns = False

    def start(self) -> Step:
        return _KeyBy(self)

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return schema

    def plan_parts(self) -> Mapping[str, Any]:
        return {"step": "key_by", "columns": list(self.columns)}

    def state_parts(self) -> None:
        return None


class _KeyBy:
    def __init__(self, spec: KeyBy) -> None:
        self._columns, self._name = spec.columns, spec.name

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        return [keyed(replace(piece, keys=self._keys(piece)), entry, self._name) for piece in pieces]

    def _keys(self, piece: Piece) -> pa.Array:
        assert piece.schema is not None, "rows without columns have no key columns"
        if piece.table is not None:
            return keys_of_table(piece.schema, self._columns, piece.table)
        return keys_of_rows(piece.schema, self._columns, piece.as_rows())


@dataclass(frozen=True)
class OnInputs:
    """A step without state that sees the rows of some inputs of the stage; those of the others pass by it."""

    step: StepSpec
    inputs: tuple[int, ...]

    is_stateful = False

    def __post_init__(self) -> None:
        if self.step.is_stateful:
            raise ValueError(f"step {self.step.name!r} has state, and says itself which inputs it reads")

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def wants_columns(self) -> bool:
        return bool(getattr(self.step, "wants_columns", False))

    def start(self) -> Step:
        return _OnInputs(self.step.start(), frozenset(self.inputs))

    def output_schema(self, schema: Schema | None) -> Schema | None:
        return self.step.output_schema(schema)

    def plan_parts(self) -> Mapping[str, Any]:
        return {**self.step.plan_parts(), "inputs": list(self.inputs)}

    def state_parts(self) -> None:
        return None


class _OnInputs:
    def __init__(self, step: Step, inputs: frozenset[int]) -> None:
        self._step, self._inputs = step, inputs

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        out: list[Piece] = []
        for piece in pieces:
            out += self._step.process([piece], entry) if piece.input in self._inputs else [piece]
        return out


def _parts(step: str, spec: Map | Filter | FlatMap, schema: Schema | None) -> dict[str, Any]:
    parts = function_parts(step, spec.name, spec.version, schema, is_columnar=spec.is_columnar)
    return parts | ({"record": True} if spec.takes_record else {})


def call_and_rows(spec: Map | Filter | FlatMap, piece: Piece) -> tuple[Callable[[Any], Any], Sequence[Any]]:
    """The function of a step, and what it is to be called with, one after the other."""
    if not spec.takes_record:
        return spec.f, piece.as_rows()
    f = spec.f
    return (lambda both: f(*both)), list(zip(piece.as_rows(), records_of(piece), strict=True))


def function_parts(
    step: str, name: str, version: str, schema: Schema | None, *, is_columnar: bool = False
) -> dict[str, Any]:
    """What a plan says of a step with a function."""
    parts: dict[str, Any] = {"step": step, "name": name, "code": version}
    if schema is not None:
        parts["schema"] = schema.ddl
    if is_columnar:
        parts["tables"] = True
    return parts


def call_on_table(f: Callable[[Any], Any], table: pa.Table, piece: Piece, step: str) -> Any:
    """``f`` of a table; its exception is the step's."""
    try:
        return f(table)
    except Exception as error:
        raise StepFailed(step, rows_text(piece), error) from error


def table_of_schema(made: Any, schema: Schema, piece: Piece | None, step: str) -> pa.Table:
    """What a function returned as a table of exactly these columns, without loss."""
    where = "the rows of an entry" if piece is None else rows_text(piece)
    if isinstance(made, pa.RecordBatch):
        made = pa.Table.from_batches([made])
    if not isinstance(made, pa.Table):
        raise StepFailed(step, where, f"it returned {shown(made)} and not a pyarrow Table")
    missing = [name for name in schema.names if name not in made.column_names]
    unknown = [name for name in made.column_names if name not in schema.names]
    if missing or unknown or len(made.column_names) != len(schema.names):
        raise StepFailed(
            step, where, f"it returned columns {made.column_names}, and its schema is {schema.ddl}"
        )
    try:
        return made.select(list(schema.names)).cast(schema.arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise StepFailed(
            step, where, f"what it returned does not fit its schema ({schema.ddl}): {error}"
        ) from error
