"""What runs through the steps of a task: pieces of rows, in the order in which they were recorded.

Invariants
    Nothing depends on cuts: rows that come in one piece or in several give the same, for what a step emits belongs
    to a row, or to a whole entry of the merge log. An entry is recorded; pieces, fetches and micro-batches are not.
    The order of rows within a piece, and of pieces within an entry, is the recorded order.
    A row that a step cannot take is emitted to a named output with the reason in its headers, never dropped.

A piece has its rows in one of three forms and makes the others on demand: ``raw`` (as they came, not decoded),
``rows`` (typed Python), ``table`` (Arrow's columns). ``raw`` stays beside the others as long as a row is still what
came in, so that what is passed on, or told of as bad, is the original to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.dead_letter import AT_HEADER, WHY_HEADER
from semel.core.flow.codec import NotOfSchema, encode_rows, encode_table, rows_of_table, table_of
from semel.core.flow.schema import Kind, Schema
from semel.errors import StepFailed

Indices = npt.NDArray[np.int64]

BAD: Final = "bad"  # the output of rows that a step cannot take
WRITE: Final = "write"  # the step that errors name where a row cannot be written
STATE_KEY_BYTES_MAX: Final = 64 * 1024 - 64  # of a row's key; what a step puts in front of it is shorter
STATE_ROW_BYTES_MAX: Final = 700 * 1024  # of what is kept of one row
LATE: Final = "late"  # the output of rows that came after their window was closed

STEP_HEADER: Final = "semel-step"  # which step would not take it
HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TIME_TYPE: Final = pa.timestamp("us", "UTC")


class StateView(Protocol):
    """The state of one step: the decided one under what this attempt has changed."""

    def get(self, key: bytes) -> bytes | None: ...
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...
    def put(self, key: bytes, value: bytes) -> None: ...
    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...
    def of(self, prefix: bytes) -> StateView: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """Which row of the input each row of a piece came of; ``indices`` counts those that came of one."""

    topic: str
    partition: int
    offsets: Indices
    indices: Indices | None = None  # None: one of each

    def take(self, rows: Indices) -> Origin:
        """Of the rows that stay, in their order."""
        indices = None if self.indices is None else self.indices[rows]
        return Origin(self.topic, self.partition, self.offsets[rows], indices)

    def spread(self, rows: Indices) -> Origin:
        """Where ``rows[i]``, ascending, is the row that the new row ``i`` was made of."""
        taken = self.take(rows)
        if len(rows) == 0:
            return taken
        numbers = np.arange(len(rows), dtype=np.int64)
        is_first = np.ones(len(rows), dtype=np.bool_)
        is_first[1:] = taken.offsets[1:] != taken.offsets[:-1]
        firsts = np.maximum.accumulate(np.where(is_first, numbers, 0))
        return Origin(self.topic, self.partition, taken.offsets, numbers - firsts)

    def text(self, row: int) -> str:
        """As an error names it."""
        return f"topic {self.topic!r}, partition {self.partition}, offset {int(self.offsets[row])}"


@dataclass(slots=True)
class Piece:
    """Rows of one input, or those that a step emitted, in order."""

    keys: pa.Array | None  # binary, one for each row; None: no row has one
    schema: Schema | None  # None: values are bytes, or rows of no declared type
    rows: list[Any] | None = None
    table: pa.Table | None = None
    raw: pa.Array | None = None  # binary
    input: int = 0  # which input of the stage
    headers: pa.Array | None = None  # of the record that each row is, or came of
    origin: Origin | None = None
    is_tombstones: bool = False  # of a table's input: keys without values, each deletes the row of its key
    timestamps: pa.Array | None = None  # likewise; null where a column of microseconds cannot hold the time

    def __len__(self) -> int:
        if self.rows is not None:
            return len(self.rows)
        if self.table is not None:
            return int(self.table.num_rows)
        return 0 if self.raw is None else len(self.raw)

    def as_rows(self) -> list[Any]:
        """Typed rows; bytes, where the piece has no schema and nothing was made of them yet."""
        if self.rows is None:
            if self.table is not None:
                assert self.schema is not None, "columns have a schema"
                self.rows = rows_of_table(self.schema, self.table)
            elif self.schema is None:
                self.rows = [] if self.raw is None else self.raw.to_pylist()
            else:
                raise AssertionError("rows with a schema are decoded before the first step")
        return self.rows

    def as_table(self) -> pa.Table:
        """Columns; only of a piece with a schema."""
        if self.table is None:
            assert self.schema is not None, "rows without a schema have no columns"
            assert self.rows is not None, "rows with a schema are decoded before the first step"
            self.table = table_of(self.schema, self.rows)
        return self.table

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some of the columns; only of a piece with a schema."""
        if self.table is None and self.rows is not None and self.schema is not None:
            return table_of(self.schema.select(names), self.rows)
        return self.as_table().select(list(names))

    def values(self) -> pa.Array:
        """As they are written: what came in to the byte where no step has made anything of it.

        :class:`~semel.errors.StepFailed` names the first row that cannot be written.
        """
        if self.raw is not None:
            return self.raw
        try:
            if self.rows is None and self.table is not None:
                return encode_table(self.table)
            rows = self.as_rows()
            if self.schema is None and any(isinstance(row, (bytes, str, type(None))) for row in rows):
                return self._values_of_any(rows)
            return encode_rows(rows)
        except NotOfSchema as error:
            place = rows_text(self) if error.index is None else self.place(error.index)
            raise StepFailed(WRITE, place, error.why) from error

    @staticmethod
    def _values_of_any(rows: list[Any]) -> pa.Array:
        """Bytes and text as they are, other things as JSON."""
        values: list[bytes | None] = []
        for index, row in enumerate(rows):
            try:
                values.append(value_bytes(row))
            except NotOfSchema as error:
                raise NotOfSchema(error.why, index=index) from error
        return pa.array(values, type=pa.binary())

    def take(self, rows: Indices) -> Piece:
        """The rows at these places."""
        if len(rows) == len(self) and (len(rows) == 0 or bool((rows == np.arange(len(rows))).all())):
            return self
        places = pa.array(rows)
        return Piece(
            keys=None if self.keys is None else self.keys.take(places),
            schema=self.schema,
            rows=None if self.rows is None else [self.rows[row] for row in rows.tolist()],
            table=None if self.table is None else self.table.take(places),
            raw=None if self.raw is None else self.raw.take(places),
            input=self.input,
            headers=None if self.headers is None else self.headers.take(places),
            origin=None if self.origin is None else self.origin.take(rows),
            is_tombstones=self.is_tombstones,
            timestamps=None if self.timestamps is None else self.timestamps.take(places),
        )

    def made(
        self,
        of: Indices | None,
        schema: Schema | None,
        *,
        rows: list[Any] | None = None,
        table: pa.Table | None = None,
    ) -> Piece:
        """New rows made of these: ``of[i]`` is the one that new row ``i`` was made of; ``None``: one of each."""
        if of is None:
            return replace(self, schema=schema, rows=rows, table=table, raw=None, is_tombstones=False)
        places = pa.array(of)
        return Piece(
            keys=None if self.keys is None else self.keys.take(places),
            schema=schema,
            rows=rows,
            table=table,
            input=self.input,
            headers=None if self.headers is None else self.headers.take(places),
            origin=None if self.origin is None else self.origin.spread(of),
            timestamps=None if self.timestamps is None else self.timestamps.take(places),
        )

    def place(self, row: int) -> str:
        """Which row of the input this one is, or came of, as an error names it."""
        return (
            self.origin.text(row) if self.origin is not None else f"row {row + 1} of {len(self)} of a piece"
        )


def rows_text(piece: Piece) -> str:
    """Where a function of a whole piece failed."""
    if len(piece) < 2:
        return piece.place(0) if len(piece) else "a piece without rows"
    return f"one of {len(piece)} rows from {piece.place(0)} to {piece.place(len(piece) - 1)}"


def value_bytes(row: Any) -> bytes | None:
    """One row of no declared type as a record's value: bytes and text as they are, other things as JSON."""
    if row is None or isinstance(row, bytes):
        return row
    if isinstance(row, str):
        return row.encode()
    encoded: bytes = encode_rows([row])[0].as_py()
    return encoded


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows for a named output, in order."""

    output: str
    keys: pa.Array
    values: pa.Array
    headers: pa.Array
    input: int = 0  # which input of the stage they are of, or came of
    offsets: Indices | None = None  # of the input's rows that they are, or came of, where they are known

    def __len__(self) -> int:
        return len(self.values)


@dataclass(slots=True)
class Entry:
    """What the steps see of an entry of the merge log; a stateless stage has one for each piece, without state."""

    offset: int = -1  # of the merge log; -1: a stateless stage
    tick_ms: int | None = None  # for how long nothing came, where this entry tells that
    state: StateView | None = None
    side: list[SideRows] = field(default_factory=list)  # in the order in which they were emitted
    state_of_step: StateView | None = None

    def emit(
        self,
        output: str,
        keys: pa.Array | None,
        values: pa.Array,
        headers: pa.Array,
        input: int = 0,
        offsets: Indices | None = None,
    ) -> None:
        """Rows for a named output."""
        if len(values):
            keys = pa.nulls(len(values), pa.binary()) if keys is None else keys
            self.side.append(SideRows(output, keys, values, headers, input, offsets))

    def emit_rows(
        self, output: str, step: str, piece: Piece, rows: Indices, why: str | Sequence[str]
    ) -> None:
        """Rows of a piece that ``step`` would not take, as they came, with the reason in their headers."""
        if not len(rows):
            return
        left = piece.take(rows)
        whys = [why] * len(rows) if isinstance(why, str) else why
        headers = [
            [
                {"key": WHY_HEADER, "value": text.encode()},
                {"key": STEP_HEADER, "value": step.encode()},
                *([] if left.origin is None else [{"key": AT_HEADER, "value": _at(left.origin, row)}]),
            ]
            for row, text in enumerate(whys)
        ]
        offsets = None if left.origin is None else left.origin.offsets
        self.emit(output, left.keys, left.values(), pa.array(headers, type=HEADERS_TYPE), left.input, offsets)

    def own_state(self) -> StateView:
        """Of the step that is running; only stateful ones ask."""
        assert self.state_of_step is not None, "a stateful step runs in a stage with state"
        return self.state_of_step


class Step(Protocol):
    """A step at work within one attempt. Whatever it keeps from entry to entry is in the entry's state, too."""

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]: ...


@runtime_checkable
class StepSpec(Protocol):
    """A step as a value of the plan: frozen, and cheap to send."""

    @property
    def name(self) -> str: ...

    @property
    def is_stateful(self) -> bool: ...

    def start(self) -> Step:
        """A fresh one for an attempt."""
        ...

    def output_schema(self, schema: Schema | None) -> Schema | None:
        """Of the rows that it emits, where it is given rows of ``schema``."""
        ...

    def plan_parts(self) -> Mapping[str, Any]:
        """What a replay has to find the same, as JSON values."""
        ...

    def state_parts(self) -> Mapping[str, Any] | None:
        """What its state means: other parts cannot read it. ``None``: it has none."""
        ...


def keyed(piece: Piece, entry: Entry, step: str) -> Piece:
    """The rows that have a key; a row without one belongs to no state and is bad."""
    if piece.keys is not None and piece.keys.null_count == 0:
        return piece
    if piece.keys is None:
        without, has = np.arange(len(piece), dtype=np.int64), np.zeros(0, dtype=np.int64)
    else:
        is_null = np.asarray(pc.is_null(piece.keys))
        without, has = np.flatnonzero(is_null), np.flatnonzero(~is_null)
    why = (
        "it has neither a key nor a value"
        if piece.is_tombstones
        else "it has no key: a column of the key is null"
    )
    entry.emit_rows(BAD, step, piece, without, why)
    kept = piece.take(has)
    if kept.keys is None:
        kept.keys = pa.nulls(0, pa.binary())
    return kept


def keyed_for_state(piece: Piece, entry: Entry, step: str) -> Piece:
    """The rows whose key can be that of a state; one without a key, or whose key is too large, is bad."""
    piece = keyed(piece, entry, step)
    why = "its key is of {} bytes, and a step with state takes keys of up to {}"
    return fitting(piece, entry, step, bytes_of(piece.keys), STATE_KEY_BYTES_MAX, why)


def columns_for_state(piece: Piece, entry: Entry, step: str, names: Sequence[str]) -> Piece:
    """The rows whose columns, of which a state keeps a value, are not too large for that."""
    if not len(piece) or piece.schema is None:
        return piece
    text = [name for name in names if piece.schema[name].kind in (Kind.STRING, Kind.BINARY)]
    if not text:
        return piece
    sizes = np.sum([bytes_of(column) for column in piece.columns(text).columns], axis=0)
    why = f"its {', '.join(text)} is of {{}} bytes, and a state keeps up to {{}} of a row"
    return fitting(piece, entry, step, sizes, STATE_ROW_BYTES_MAX, why)


def fitting(piece: Piece, entry: Entry, step: str, sizes: Indices, bytes_max: int, why: str) -> Piece:
    """The rows that are no larger; the others are bad. ``why`` has room for both numbers."""
    large = np.flatnonzero(sizes > bytes_max)
    if not len(large):
        return piece
    entry.emit_rows(BAD, step, piece, large, [why.format(size, bytes_max) for size in sizes[large].tolist()])
    return piece.take(np.flatnonzero(sizes <= bytes_max))


def bytes_of(column: pa.Array | pa.ChunkedArray | None) -> Indices:
    """How long each value of a column of text or bytes is; a null has none."""
    lengths = pa.array([], pa.int64()) if column is None else pc.fill_null(pc.binary_length(column), 0)
    return np.asarray(lengths, dtype=np.int64)


def header_bytes_of(headers: pa.Array) -> Indices:
    """How long the headers of each row are, keys and values; a null has none."""
    pairs = headers.flatten()
    sizes = np.zeros(len(headers), dtype=np.int64)
    pair_bytes = bytes_of(pairs.field("key")) + bytes_of(pairs.field("value"))
    np.add.at(sizes, np.asarray(headers.value_parent_indices()), pair_bytes)
    return sizes


def _at(origin: Origin, row: int) -> bytes:
    return f"{origin.topic}/{origin.partition}/{int(origin.offsets[row])}".encode()
