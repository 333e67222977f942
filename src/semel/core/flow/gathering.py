"""What an open window gathers: a total over columns, or a typed fold row by row.

Invariants
    The state of a window at the end of an entry is what its bytes say, as for folds.
    A window holds back what its fold gives until it closes, and emits what the last row's call gave: so the function
    of a running fold, which tells the newest with each row, tells the last of it here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from semel.core.flow.codec import decode_table, encode_rows
from semel.core.flow.folds import Fold, StateForm, key_text
from semel.core.flow.functions import Capture, Conform, given_rows, shown
from semel.core.flow.grouped import Grouped
from semel.core.flow.pieces import Indices
from semel.core.flow.ready import ReadyFold
from semel.core.flow.schema import Field, Schema
from semel.core.flow.totals import Total
from semel.errors import ConfigError, StepFailed

Merge = Callable[[Any, Any], Any]


class Gathering(Protocol):
    """The states of windows, as bytes; ``None`` is a window that is not there."""

    def add(
        self, grouped: Grouped, codes: Indices, keys: Sequence[bytes], before: Sequence[bytes | None]
    ) -> list[bytes | None]:
        """With these rows, of which ``codes`` tells the window of each; ``keys`` are the windows' keys."""
        ...

    def merge(self, key: bytes, earlier: bytes, later: bytes) -> bytes:
        """One of two windows that have become one."""
        ...

    def said(self, states: Sequence[bytes]) -> tuple[Indices | None, list[pa.Array]]:
        """The rows that closing windows emit, as columns; and the window of each, ``None``: one of each."""
        ...


def gathered_fields(gathers: ReadyFold | Fold, schema: Schema | None) -> tuple[Field, ...]:
    """The columns of what is gathered over rows of ``schema``."""
    if isinstance(gathers, ReadyFold):
        return gathers.total(schema).fields
    if gathers.schema is None:
        raise ConfigError(
            f"{gathers.name}: what a window emits has columns: say the schema of the fold's rows"
        )
    return gathers.schema.fields


def gathering(gathers: ReadyFold | Fold, schema: Schema | None, merge: Merge | None = None) -> Gathering:
    """At work over rows of ``schema``; ``merge`` makes one of the states of two sessions."""
    if isinstance(gathers, ReadyFold):
        return _Totals(gathers, gathers.total(schema), schema)
    return _Folded(gathers, merge)


class _Totals:
    def __init__(self, spec: ReadyFold, total: Total, schema: Schema | None) -> None:
        self._total, self._needs = total, spec.needs(schema)
        self._pack = msgspec.msgpack.Encoder().encode
        self._unpack = msgspec.msgpack.Decoder(total.state_type | None).decode

    def add(
        self, grouped: Grouped, codes: Indices, keys: Sequence[bytes], before: Sequence[bytes | None]
    ) -> list[bytes | None]:
        states = [None if packed is None else self._unpack(packed) for packed in before]
        after = self._total.add(codes, len(before), grouped.table(self._needs), states)
        return [self._pack(state) for state in after]

    def merge(self, key: bytes, earlier: bytes, later: bytes) -> bytes:
        return self._pack(self._total.merge(self._unpack(earlier), self._unpack(later)))

    def said(self, states: Sequence[bytes]) -> tuple[Indices | None, list[pa.Array]]:
        return None, self._total.columns([self._unpack(state) for state in states])


class _Folded:
    """Packed: the fold's state, or nil, and the rows that the last call gave, as JSON."""

    def __init__(self, spec: Fold, merge: Merge | None) -> None:
        assert spec.schema is not None
        self._spec, self._schema, self._merge = spec, spec.schema, merge
        self._states = StateForm(spec.name, spec.state_type, spec.init)
        self._conform, self._capture = Conform(spec.name, spec.schema), Capture(spec.schema)
        self._pack = msgspec.msgpack.Encoder().encode
        self._unpack = msgspec.msgpack.Decoder(tuple[bytes | None, list[bytes]]).decode

    def add(
        self, grouped: Grouped, codes: Indices, keys: Sequence[bytes], before: Sequence[bytes | None]
    ) -> list[bytes | None]:
        f, capture, states = self._spec.f, self._capture, self._states
        live: list[Any] = [self._state(key, packed) for key, packed in zip(keys, before, strict=True)]
        given: list[list[Any]] = [[]] * len(before)
        last = [0] * len(before)  # whose call gave them
        number = 0
        try:
            for number, (code, row) in enumerate(zip(codes.tolist(), grouped.rows(), strict=True)):
                held = live[code]
                returned = f(states.init() if held is None else held, row)
                if type(returned) is not tuple or len(returned) != 2:
                    raise TypeError(f"it returned {shown(returned)}, and a fold returns (state, rows)")
                live[code] = returned[0]
                given[code] = [capture(one) for one in given_rows(returned[1])]
                last[code] = number
        except Exception as error:
            raise StepFailed(self._spec.name, grouped.place(number), error) from error
        of = [last[code] for code, rows in enumerate(given) for _ in rows]
        made = [row for rows in given for row in rows]
        values = encode_rows(self._conform.rows(made, lambda row: grouped.place(of[row]))).to_pylist()
        after: list[bytes | None] = []
        begin = 0
        for key, held, rows in zip(keys, live, given, strict=True):
            end = begin + len(rows)
            is_there = held is not None or rows
            after.append(self._packed(key, held, values[begin:end]) if is_there else None)
            begin = end
        return after

    def merge(self, key: bytes, earlier: bytes, later: bytes) -> bytes:
        assert self._merge is not None, "windows that merge have a function that merges their states"
        first, second = self._state(key, earlier), self._state(key, later)
        if first is None or second is None:
            return later if first is None else earlier
        try:
            held = self._merge(first, second)
        except Exception as error:
            raise StepFailed(
                self._spec.name, f"two sessions of {key_text(key)} that become one", error
            ) from error
        return self._packed(key, held, [])

    def said(self, states: Sequence[bytes]) -> tuple[Indices | None, list[pa.Array]]:
        rows = [self._unpack(packed)[1] for packed in states]
        table, bad = decode_table(self._schema, pa.array([row for of in rows for row in of], pa.binary()))
        assert not bad, "a window has what was encoded by the same schema"
        of = np.repeat(np.arange(len(rows), dtype=np.int64), [len(of) for of in rows])
        return of, [column.combine_chunks() for column in table.columns]

    def _state(self, key: bytes, packed: bytes | None) -> Any:
        stored = None if packed is None else self._unpack(packed)[0]
        return None if stored is None else self._states.read(key, stored)

    def _packed(self, key: bytes, held: Any, rows: list[bytes]) -> bytes:
        stored = None if held is None else self._states.write(key, held)[0]
        return self._pack((stored, rows))
