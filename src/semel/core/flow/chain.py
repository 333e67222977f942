"""The steps of a task stage, one behind another, over an entry of its merge log or a piece of its range.

Invariants
    What a chain emits, and its state, is a function of the entries in their order: not of the pieces that an entry's
    rows come in, and not of which entries one attempt goes through. For a chain without state: of the rows.
    A value that cannot be read is emitted to the output ``bad``, as it came, with the reason in its headers.
    Each stateful step has a state of its own, under its number among the stateful ones: a step without state can be
    added before it without changing where its state is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow.compute as pc

from semel.core.flow.codec import decode_rows, decode_table
from semel.core.flow.pieces import BAD, Entry, Indices, Piece, Step, StepSpec
from semel.core.flow.schema import Schema
from semel.errors import StepFailed

DECODE: str = "read"  # the step that errors and headers name where a value cannot be read
UNKEYED: str = (
    "it has no value, and nothing says whose row it deletes: it deletes a row of the table only where the source is "
    "declared with the table's key (key=...) and no step in front of the table makes its rows or their key anew"
)


@dataclass(frozen=True)
class Chain:
    """Steps as values of a plan.

    ``table_inputs`` are inputs whose rows are those of a table, by key; ``unkeyed_inputs`` those whose rows become a
    table's under another key. The values of ``own_inputs`` were written by a
    stage of the same flow: that they can be read is known, so a first step that looks at some of their columns only
    has no others read.
    """

    steps: tuple[StepSpec, ...]
    table_inputs: frozenset[int] = frozenset()
    own_inputs: frozenset[int] = frozenset()
    unkeyed_inputs: frozenset[int] = frozenset()

    @property
    def is_stateful(self) -> bool:
        return any(spec.is_stateful for spec in self.steps)

    def start(self) -> RunningChain:
        """Fresh steps for an attempt."""
        return RunningChain(self)

    def plan_text(self) -> str:
        """What a replay has to find the same: canonical JSON."""
        return _canonical([spec.plan_parts() for spec in self.steps])

    def state_text(self) -> str:
        """What the state means, or ``""``; state that was written under another text cannot be read."""
        parts = [spec.state_parts() for spec in self.steps if spec.is_stateful]
        return _canonical(parts) if parts else ""


class RunningChain:
    """A chain at work within one attempt."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._steps: list[tuple[str, Step, bytes | None]] = []
        number = 0
        for spec in chain.steps:
            prefix = None
            if spec.is_stateful:
                prefix, number = number.to_bytes(2, "big"), number + 1
            self._steps.append((spec.name, spec.start(), prefix))
        self._wants_columns = bool(chain.steps) and bool(getattr(chain.steps[0], "wants_columns", False))

    def process(self, pieces: Iterable[Piece], entry: Entry) -> list[Piece]:
        """What the steps make of an entry's rows, in order. What goes to named outputs is in ``entry.side``."""
        tables, unkeyed = self._chain.table_inputs, self._chain.unkeyed_inputs
        passed: list[Piece] = []
        for piece in pieces:
            if piece.input in self._chain.own_inputs:
                piece = self._narrowed(piece)
            passed += read(
                piece,
                entry,
                as_columns=self._wants_columns,
                is_table=piece.input in tables,
                is_unkeyed=piece.input in unkeyed,
            )
        for name, step, prefix in self._steps:
            if prefix is None:
                passed = self._pass_tombstones(step, passed, entry)
                continue
            assert entry.state is not None, "a stateful step runs in a stage with state"
            entry.state_of_step = entry.state.of(prefix)
            try:
                passed = step.process(passed, entry)
            except ValueError as error:  # a state beyond its bounds, a sum beyond its column
                raise StepFailed(name, f"entry {entry.offset} of the merge log", error) from error
        return [piece for piece in passed if len(piece)]

    def _narrowed(self, piece: Piece) -> Piece:
        """As it has to be read for the first step: with the columns that it says that it needs."""
        needs = getattr(self._chain.steps[0], "needs", None) if self._chain.steps else None
        if needs is None or piece.schema is None:
            return piece
        names = needs(piece.schema)
        if len(names) == len(piece.schema):
            return piece
        schema = _of_columns(piece.schema, names) if names else None  # None: not read at all
        return replace(piece, schema=schema)

    def _pass_tombstones(self, step: Step, pieces: list[Piece], entry: Entry) -> list[Piece]:
        if not any(piece.is_tombstones for piece in pieces):
            return step.process(pieces, entry)
        out: list[Piece] = []
        for piece in pieces:
            out += [piece] if piece.is_tombstones else step.process([piece], entry)
        return out


def read(
    piece: Piece, entry: Entry, *, as_columns: bool, is_table: bool = False, is_unkeyed: bool = False
) -> list[Piece]:
    """The piece with its values read, without those that are bad; a table's tombstones are pieces of their own."""
    if piece.raw is None or piece.schema is None or piece.rows is not None or piece.table is not None:
        return [piece]
    if is_table and piece.raw.null_count:
        return _in_runs(piece, entry, as_columns=as_columns)
    if as_columns:
        table, bad = decode_table(piece.schema, piece.raw)
        rows = None
    else:
        decoded = decode_rows(piece.schema, piece.raw)
        table, rows, bad = None, decoded.rows, decoded.bad
    if bad:
        places = np.array([index for index, _ in bad], dtype=np.int64)
        whys = [UNKEYED if is_unkeyed and not piece.raw[index].is_valid else why for index, why in bad]
        entry.emit_rows(BAD, DECODE, piece, places, whys)
        piece = piece.take(np.delete(np.arange(len(piece), dtype=np.int64), places))
    return [replace(piece, rows=rows, table=table)]


@lru_cache(maxsize=64)
def _of_columns(schema: Schema, names: tuple[str, ...]) -> Schema:
    return schema.select(names)


def _in_runs(piece: Piece, entry: Entry, *, as_columns: bool) -> list[Piece]:
    assert piece.raw is not None
    is_null = np.asarray(pc.is_null(piece.raw))
    ends: Indices = np.flatnonzero(is_null[1:] != is_null[:-1]) + 1
    out: list[Piece] = []
    for begin, end in zip([0, *ends.tolist()], [*ends.tolist(), len(is_null)], strict=True):
        run = piece.take(np.arange(begin, end, dtype=np.int64))
        if is_null[begin]:
            out.append(replace(run, rows=[None] * len(run), is_tombstones=True))
        else:
            out += read(run, entry, as_columns=as_columns)
    return out


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
