"""Running chains of steps as a task does: entries, attempts with state handed over, and what came out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from semel.core.flow.chain import Chain, RunningChain
from semel.core.flow.codec import encode_rows
from semel.core.flow.pieces import HEADERS_TYPE, Entry, Origin, Piece
from semel.core.flow.schema import Schema, parse_schema


class DictState:
    """The protocol of a step's state over a dictionary."""

    def __init__(self, held: dict[bytes, bytes] | None = None, prefix: bytes = b"") -> None:
        self.held = {} if held is None else held
        self._prefix = prefix

    def get(self, key: bytes) -> bytes | None:
        return self.held.get(self._prefix + key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def put(self, key: bytes, value: bytes) -> None:
        assert isinstance(key, bytes) and isinstance(value, bytes)
        self.held[self._prefix + key] = value

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def delete(self, key: bytes) -> None:
        self.held.pop(self._prefix + key, None)

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        low, high = self._prefix + first, self._prefix + end
        for key in sorted(key for key in self.held if low <= key < high):
            yield key[len(self._prefix) :], self.held[key]

    def of(self, prefix: bytes) -> DictState:
        return DictState(self.held, self._prefix + prefix)


@dataclass
class Task:
    """A stage partition: its state, and all that its attempts emitted."""

    chain: Chain
    state: DictState = field(default_factory=DictState)
    rows: list[dict[str, Any]] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    side: list[tuple[str, bytes | None, bytes | None, str]] = field(default_factory=list)
    offset: int = 0
    running: RunningChain | None = None

    def new_attempt(self) -> None:
        """Nothing lives on but the state."""
        self.running = None

    def entry(self, *pieces: Piece, tick_ms: int | None = None) -> list[dict[str, Any]]:
        """What one entry emits, as plain rows."""
        if self.running is None:
            self.running = self.chain.start()
        entry = Entry(self.offset, tick_ms, self.state if self.chain.is_stateful else None)
        self.offset += 1
        before = len(self.rows)
        for piece in self.running.process(pieces, entry):
            self.values += piece.values().to_pylist()
            self.keys += [None] * len(piece) if piece.keys is None else piece.keys.to_pylist()
            self.rows += plain(piece)
        for side in entry.side:
            for key, value, headers in zip(
                side.keys.to_pylist(), side.values.to_pylist(), side.headers.to_pylist(), strict=True
            ):
                self.side.append((side.output, key, value, headers[0]["value"].decode()))
        return self.rows[before:]


def plain(piece: Piece) -> list[Any]:
    """A piece's rows as dictionaries, where they have columns."""
    if piece.schema is None or piece.is_tombstones:
        return piece.as_rows()
    return [{name: getattr(row, name) for name in piece.schema.names} for row in piece.as_rows()]


def raw_piece(
    schema: str | Schema | None,
    rows: Sequence[Any],
    *,
    keys: Sequence[bytes | str | None] | None = None,
    key: str = "",
    input: int = 0,
    first_offset: int = 0,
    topic: str = "t",
    headers: Sequence[Sequence[tuple[str, bytes]]] | None = None,
) -> Piece:
    """As a stage reads it. Rows are dictionaries, or values as bytes; the key is a column's text, or given."""
    of = parse_schema(schema) if isinstance(schema, str) else schema
    values = [row if row is None or isinstance(row, bytes) else encode_rows([row])[0].as_py() for row in rows]
    if keys is None and key:
        keys = [row[key] for row in rows]
    found = None
    if keys is not None:
        found = pa.array([key.encode() if isinstance(key, str) else key for key in keys], pa.binary())
    offsets = np.arange(first_offset, first_offset + len(rows), dtype=np.int64)
    piece = Piece(found, of, raw=pa.array(values, pa.binary()), input=input, origin=Origin(topic, 0, offsets))
    if headers is not None:
        pairs = [[{"key": name, "value": value} for name, value in row] for row in headers]
        piece.headers = pa.array(pairs, HEADERS_TYPE)
    return piece


def cut(items: Sequence[Any], ends: Sequence[int]) -> list[Sequence[Any]]:
    """The parts between these ends."""
    edges = [0, *sorted({end for end in ends if 0 < end < len(items)}), len(items)]
    return [items[begin:end] for begin, end in itertools.pairwise(edges)]
