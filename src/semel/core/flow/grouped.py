"""The rows of an entry by their key: a number for each key, in the order of first appearance.

The rows of all pieces are taken together, so that where a piece ends cannot be told. Rows without a key, rows whose
key is too large for a state, and rows whose key is not of the key's columns, are bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.codec import read_key
from semel.core.flow.columns import column_of
from semel.core.flow.pieces import BAD, Entry, Indices, Piece, keyed_for_state
from semel.core.flow.schema import Field, Kind, Schema

KEYS_READ_MAX: Final = 100_000  # keys whose columns are remembered; beyond them all are read again


class KeyColumns:
    """Keys as the columns that they were made of."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self._read: dict[bytes, tuple[Any, ...] | None] = {}

    def of(self, keys: pa.Array) -> list[pa.Array] | Indices:
        """A column for each field; or which of the keys are not of them."""
        if not self.fields:
            return []
        if len(self.fields) == 1 and self.fields[0].kind is Kind.STRING:
            try:
                return [keys.cast(pa.string())]
            except pa.ArrowInvalid:
                pass  # some key is no text: below, one by one
        read, known = [], self._read
        if len(known) > KEYS_READ_MAX:
            known.clear()
        for key in keys.to_pylist():
            if key not in known:
                known[key] = read_key(self.fields, key)
            read.append(known[key])
        unreadable = [number for number, values in enumerate(read) if values is None]
        if unreadable:
            return np.array(unreadable, dtype=np.int64)
        return [
            column_of(field.kind, [values[place] for values in read if values is not None])
            for place, field in enumerate(self.fields)
        ]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows with a key of the right columns, in recorded order."""

    pieces: list[Piece]
    codes: Indices  # the number of each row's key, over all pieces
    keys: pa.Array  # the keys by number
    key_columns: list[pa.Array]

    @property
    def schema(self) -> Schema | None:
        return self.pieces[0].schema

    def table(self, names: Sequence[str]) -> pa.Table | None:
        """These columns of all the rows; ``None``: none are wanted."""
        if not names:
            return None
        tables = [piece.columns(names) for piece in self.pieces]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def rows(self) -> list[Any]:
        """All the rows."""
        return [row for piece in self.pieces for row in piece.as_rows()]

    def place(self, row: int) -> str:
        """Which row of the input this one is, as an error names it."""
        for piece in self.pieces:
            if row < len(piece):
                return piece.place(row)
            row -= len(piece)
        raise IndexError(row)

    def parted(self, is_out: npt.NDArray[np.bool_]) -> tuple[Grouped | None, list[tuple[Piece, Indices]]]:
        """The rows without those that are out, and these, by piece. Keys keep their numbers."""
        if not is_out.any():
            return self, []
        left, out, begin = [], [], 0
        for piece in self.pieces:
            mask = is_out[begin : begin + len(piece)]
            begin += len(piece)
            if mask.any():
                out.append((piece, np.flatnonzero(mask)))
            if not mask.all():
                left.append(piece.take(np.flatnonzero(~mask)))
        if not left:
            return None, out
        return Grouped(left, self.codes[~is_out], self.keys, self.key_columns), out


def group(pieces: list[Piece], entry: Entry, step: str, key: KeyColumns) -> Grouped | None:
    """``None``: there is no such row."""
    with_rows = [piece for piece in (keyed_for_state(piece, entry, step) for piece in pieces) if len(piece)]
    if not with_rows:
        return None
    keys = pa.chunked_array([_binary(piece.keys) for piece in with_rows])
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    columns = key.of(encoded.dictionary)
    if isinstance(columns, list):
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return Grouped(with_rows, codes, encoded.dictionary, columns)
    unreadable = pc.is_in(keys, value_set=encoded.dictionary.take(pa.array(columns)))
    is_bad = np.asarray(unreadable.to_numpy())
    left, begin = [], 0
    for piece in with_rows:
        mask = is_bad[begin : begin + len(piece)]
        begin += len(piece)
        why = f"its key is not of the columns of the key ({Schema(key.fields).ddl})"
        entry.emit_rows(BAD, step, piece, np.flatnonzero(mask), why)
        left.append(piece.take(np.flatnonzero(~mask)))
    return group(left, entry, step, key)


def _binary(keys: pa.Array) -> pa.Array:
    return keys if keys.type == pa.binary() else keys.cast(pa.binary())
