"""Each row of a stream with the row that a table has for its key, as of the recorded order.

Invariants
    A row is joined with the table as it was where the row stands in the recorded order: with all table rows in front
    of it, and none behind it. Nothing is looked up anywhere else, so a replay joins as the first run did.
    A table row replaces the one of its key, a tombstone deletes it. Neither emits anything, unless ``repair`` is
    asked for: then the rows of the stream that met another table row, or none, are emitted again, joined with the
    new one, in their order, where the table row stands. (Rows that were emitted are never taken back: what reads
    them takes the last one.) For each key the last :data:`REPAIR_ROWS_MAX` rows of the stream are kept for that;
    older ones stay as they were joined.
    A table row that is the same as before changes nothing and repairs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from semel.core.flow.codec import decode_table, encode_table
from semel.core.flow.folds import KEYS_CACHED_MAX
from semel.core.flow.pieces import (
    STATE_ROW_BYTES_MAX,
    Entry,
    Piece,
    StateView,
    Step,
    bytes_of,
    fitting,
    keyed,
    keyed_for_state,
)
from semel.core.flow.schema import Field, Schema
from semel.errors import ConfigError

REPAIR_ROWS_MAX: Final = 100  # rows of the stream that are kept for each key
INNER: Final = "inner"
LEFT: Final = "left"
_TABLE, _ROW, _COUNTS = b"t", b"r", b"c"  # what a key of the state is of
_TIMES_LONGER_MAX: Final = (
    8  # a row that was read, when it is written again: an escape for each letter, and names
)
_PACK: Final = msgspec.msgpack.Encoder().encode
_UNPACK: Final = msgspec.msgpack.Decoder(tuple[int, int]).decode


def joined_schema(left: Schema, table: Schema, key: Sequence[str]) -> Schema:
    """The stream's columns, then the table's; the key's columns are there once.

    ``ConfigError`` where another column is in both: its two values would have one name.
    """
    added = _added(left, table, key)
    clashes = [field.name for field in added if field.name in left]
    if clashes:
        raise ConfigError(
            f"{'column' if len(clashes) == 1 else 'columns'} {', '.join(map(repr, clashes))} "
            f"{'is' if len(clashes) == 1 else 'are'} in the stream ({left.ddl}) and in the table ({table.ddl}), and a "
            f"joined row has both"
        )
    return Schema((*left.fields, *added))


def _added(left: Schema, table: Schema, key: Sequence[str]) -> tuple[Field, ...]:
    """The table's columns without those of the key that the stream has, too."""
    return tuple(field for field in table if field.name not in key or field.name not in left)


@dataclass(frozen=True)
class Join:
    """Rows of ``stream_inputs`` with the row of ``table_input`` of the same record key; other inputs pass by.

    ``inner`` leaves out rows that have none, ``left`` gives them nulls. ``stream`` and ``table`` are the columns of
    both sides, ``key`` those of the table that its record key is made of.
    """

    table_input: int
    stream: Schema
    table: Schema
    key: tuple[Field, ...]
    how: str = INNER
    repair: bool = False
    stream_inputs: tuple[int, ...] = (0,)
    name: str = "join"

    is_stateful = True
    wants_columns = True

    def __post_init__(self) -> None:
        if self.how not in (INNER, LEFT):
            raise ValueError(f"how={self.how!r} is no join: write {INNER!r} or {LEFT!r}")

    def start(self) -> Step:
        return _Join(self)

    def output_schema(self, schema: Schema | None = None) -> Schema:
        return joined_schema(schema or self.stream, self.table, [field.name for field in self.key])

    def plan_parts(self) -> Mapping[str, Any]:
        return {**self.state_parts(), "how": self.how, "repair": self.repair, "stream": self.stream.ddl}

    def state_parts(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {"step": "join", "key": Schema(self.key).ddl, "table": self.table.ddl}
        return {**parts, "rows": [self.stream.ddl, REPAIR_ROWS_MAX]} if self.repair else parts


class _Join:
    def __init__(self, spec: Join) -> None:
        self._spec = spec
        self._schema = spec.output_schema()
        self._added = [
            field.name for field in _added(spec.stream, spec.table, [field.name for field in spec.key])
        ]
        self._table: dict[bytes, bytes | None] = {}  # rows that were read or written in this attempt

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        spec, state, out = self._spec, entry.own_state(), list[Piece]()
        for piece in pieces:
            if piece.input == spec.table_input:
                repaired = self._change(self._row_that_fits(piece, entry), state)
                out += [] if repaired is None else [repaired]
            elif piece.input in spec.stream_inputs:
                row = self._row_that_fits(piece, entry) if spec.repair else keyed(piece, entry, spec.name)
                out.append(self._join(row, state))
            else:
                out.append(piece)
        if len(self._table) > KEYS_CACHED_MAX:
            self._table.clear()
        return out

    def _row_that_fits(self, piece: Piece, entry: Entry) -> Piece:
        """The rows that the state can keep; those that are larger are bad."""
        piece = keyed_for_state(piece, entry, self._spec.name)
        if piece.is_tombstones or not len(piece):
            return piece
        if (
            piece.raw is not None
            and int(bytes_of(piece.raw).max()) * _TIMES_LONGER_MAX <= STATE_ROW_BYTES_MAX
        ):
            return piece
        why = "it is a row of {} bytes, and a table, or repair, keeps rows of up to {}"
        sizes = bytes_of(encode_table(piece.as_table()))
        return fitting(piece, entry, self._spec.name, sizes, STATE_ROW_BYTES_MAX, why)

    # --- rows of the stream -------------------------------------------------------------------------------

    def _join(self, piece: Piece, state: StateView) -> Piece:
        assert piece.keys is not None
        encoded = piece.keys.dictionary_encode()
        keys: list[bytes] = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if self._spec.repair:
            self._remember(piece, keys, codes, state)
        self._look_up(keys, state)
        found = [self._table[key] for key in keys]
        return self._joined(piece, piece.as_table(), found, codes)

    def _joined(
        self, piece: Piece, left: pa.Table, found: Sequence[bytes | None], codes: Any, of: Any = None
    ) -> Piece:
        """``left``'s rows with the table rows ``found[codes]``; ``of``: the row of ``piece`` that each came of."""
        place = np.cumsum([row is not None for row in found], dtype=np.int64) - 1
        is_there = np.array([row is not None for row in found], dtype=np.bool_)
        right = self._read(self._spec.table, [row for row in found if row is not None])
        is_met = is_there[codes]
        if self._spec.how == INNER and not is_met.all():
            kept = np.flatnonzero(is_met)
            left, codes, is_met = left.take(pa.array(kept)), codes[kept], is_met[kept]
            of = kept if of is None else of[kept]
        places = pa.array(place[codes], mask=~is_met)
        columns = [right.column(name).take(places) for name in self._added]
        table = pa.Table.from_arrays([*left.columns, *columns], schema=self._schema.arrow)
        return replace(piece.made(of, self._schema, table=table), headers=None)

    def _look_up(self, keys: Sequence[bytes], state: StateView) -> None:
        unknown = [key for key in keys if key not in self._table]
        stored = state.get_many([_TABLE + key for key in unknown])
        self._table.update(zip(unknown, stored, strict=True))

    @staticmethod
    def _read(schema: Schema, rows: Sequence[bytes]) -> pa.Table:
        table, bad = decode_table(schema, pa.array(rows, pa.binary()))
        assert not bad, "state has what was encoded by the same schema"
        return table

    # --- rows of the table --------------------------------------------------------------------------------

    def _change(self, piece: Piece, state: StateView) -> Piece | None:
        if not len(piece):
            return None
        assert piece.keys is not None
        keys: list[bytes] = piece.keys.to_pylist()
        rows: list[bytes | None] = (
            [None] * len(piece) if piece.is_tombstones else encode_table(piece.as_table()).to_pylist()
        )
        self._look_up(list(dict.fromkeys(keys)), state)
        first = {key: self._table[key] for key in dict.fromkeys(keys)}
        changed: list[int] = []
        for number, (key, row) in enumerate(zip(keys, rows, strict=True)):
            if row != self._table[key]:
                changed.append(number)
                self._table[key] = row
        for key, before in first.items():
            after = self._table[key]
            if after is None and before is not None:
                state.delete(_TABLE + key)
            elif after is not None and after != before:
                state.put(_TABLE + key, after)
        return self._repair(piece, keys, rows, changed, state) if self._spec.repair and changed else None

    # --- repair -------------------------------------------------------------------------------------------

    def _repair(
        self,
        piece: Piece,
        keys: Sequence[bytes],
        rows: Sequence[bytes | None],
        changed: Sequence[int],
        state: StateView,
    ) -> Piece | None:
        lefts: list[bytes] = []
        of: list[int] = []
        kept: dict[bytes, list[bytes]] = {}
        for number in changed:
            key = keys[number]
            if key not in kept:
                first, end = _kept_numbers(key, state)
                found = state.get_many([_row_key(key, row) for row in range(first, end)])
                kept[key] = [row for row in found if row is not None]
            lefts += kept[key]
            of += [number] * len(kept[key])
        if not lefts:
            return None
        places = np.array(of, dtype=np.int64)
        left = self._read(self._spec.stream, lefts)
        made = self._joined(piece, left, rows, places, places)
        return replace(made, input=self._spec.stream_inputs[0])

    def _remember(self, piece: Piece, keys: Sequence[bytes], codes: Any, state: StateView) -> None:
        """The last rows of each key, as a ring of numbers."""
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
        values = encode_table(piece.as_table())
        for key, begin, stop in zip(keys, [0, *ends.tolist()], ends.tolist(), strict=False):
            first, end = _kept_numbers(key, state)
            new_end = end + stop - begin
            new_first = max(first, new_end - REPAIR_ROWS_MAX)
            for number in range(first, min(new_first, end)):
                state.delete(_row_key(key, number))
            for number in range(max(new_first, end), new_end):
                state.put(_row_key(key, number), values[int(order[begin + number - end])].as_py())
            state.put(_COUNTS + key, _PACK((new_first, new_end)))


def _kept_numbers(key: bytes, state: StateView) -> tuple[int, int]:
    stored = state.get(_COUNTS + key)
    return (0, 0) if stored is None else _UNPACK(stored)


def _row_key(key: bytes, number: int) -> bytes:
    return _ROW + len(key).to_bytes(4, "big") + key + number.to_bytes(8, "big")
