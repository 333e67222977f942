"""Windows over event time: rows of a key gathered until their window closes, then told once.

Invariants
    Each row is gathered in one window, or is late and goes to the output ``late`` as it came, or is bad. A window is
    told once, when event time has come to its end and the lateness that is allowed behind that.
    What closes in one entry is told in the order of (end, key). All rows of an entry are judged, and gathered, before
    the time goes on and windows close: so an entry's pieces may be cut anywhere.
    To close is a scan over the windows that are due, not a pass over all that are open: windows lie in the state by
    (end, key).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from semel.core.flow.columns import column_of, in_family
from semel.core.flow.event_time import FIRST_US, LAST_US, EventTime, time_text
from semel.core.flow.folds import Fold
from semel.core.flow.gathering import gathered_fields, gathering
from semel.core.flow.grouped import Grouped, KeyColumns, group
from semel.core.flow.pieces import (
    BAD,
    LATE,
    Entry,
    Indices,
    Piece,
    StateView,
    Step,
    columns_for_state,
    keyed_for_state,
)
from semel.core.flow.ready import ReadyFold
from semel.core.flow.schema import Field, Kind, Schema
from semel.errors import ConfigError

START: Final = Field("window_start", Kind.TIMESTAMP)
END: Final = Field("window_end", Kind.TIMESTAMP)
LENGTH_MS_MAX: Final = 1000 * 366 * 24 * 60 * 60 * 1000  # a thousand years
WINDOW: Final = b"w"  # what a key of the state is of; b"e" is the event time's, b"s" a session's
_SIGN: Final = 1 << 63  # so that times before 1970 sort in front


@dataclass(frozen=True)
class Window:
    """``gathers`` over rows of one key whose column ``on`` falls in one window.

    ``inputs`` are those of the stage whose rows come here; of each the time is kept.
    """

    gathers: ReadyFold | Fold
    on: str
    schema: Schema  # of those rows
    key: tuple[Field, ...]
    lateness_ms: int = 0
    inputs: tuple[int, ...] = (0,)
    idle_ms: int = 0  # ticks that say so much or more are asked for; 0: there are none for it

    is_stateful: ClassVar[bool] = True
    kind_name: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return f"{self.kind_name} {self.gathers.name}"

    @property
    def wants_columns(self) -> bool:
        return isinstance(self.gathers, ReadyFold)

    def output_schema(self, schema: Schema | None = None) -> Schema:
        """The key's columns, the window's, and what was gathered. ``ConfigError`` where there is no such window."""
        schema = schema or self.schema
        if schema[self.on].kind is not Kind.TIMESTAMP:
            raise ConfigError(
                f"column {self.on!r} is {schema[self.on].kind.value}, and a window is over a timestamp"
            )
        fields = gathered_fields(self.gathers, schema)
        named = {each.name for each in fields} if isinstance(self.gathers, Fold) else set()
        return Schema((*(each for each in self.key if each.name not in named), START, END, *fields))

    @property
    def rest_ms(self) -> int:
        """Behind so much time without a row nothing is open any more."""
        raise NotImplementedError

    def plan_parts(self) -> Mapping[str, Any]:
        idle = {"idle_ms": self.idle_ms} if self.idle_ms else {}
        return {**self._shape_parts(), **idle, "gathers": self.gathers.plan_parts()}

    def state_parts(self) -> Mapping[str, Any]:
        return {**self._shape_parts(), "gathers": self.gathers.state_parts()}

    def _shape_parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"step": self.kind_name, "on": self.on, "lateness_ms": self.lateness_ms}
        return {**parts, "key": Schema(self.key).ddl, "inputs": list(self.inputs)}


@dataclass(frozen=True)
class TumblingWindow(Window):
    """Windows of ``length_ms``, one behind another, from 1970 on."""

    length_ms: int = 0

    kind_name: ClassVar[str] = "tumbling"

    def __post_init__(self) -> None:
        refuse_lengths(length_ms=self.length_ms, lateness_ms=self.lateness_ms)

    def start(self) -> Step:
        return _Tumbling(self, None, self.length_ms)

    @property
    def rest_ms(self) -> int:
        return self.length_ms + self.lateness_ms

    def _shape_parts(self) -> dict[str, Any]:
        return {**super()._shape_parts(), "length_ms": self.length_ms}


class Windows:
    """What both kinds have in common: which rows count, the time, and what closes."""

    def __init__(self, spec: Window, merge: Callable[[Any, Any], Any] | None, length_ms: int) -> None:
        self._spec, self._length_us = spec, length_ms * 1000
        self._key = KeyColumns(spec.key)
        self._time = EventTime(spec.inputs, spec.lateness_ms * 1000)
        self._schema = spec.output_schema()
        self._gathers = gathering(spec.gathers, spec.schema, merge)

    def process(self, pieces: list[Piece], entry: Entry) -> list[Piece]:
        spec, state, out, mine = self._spec, entry.own_state(), list[Piece](), list[Piece]()
        for piece in pieces:
            (mine if piece.input in spec.inputs else out).append(piece)
        self._time.load(state)
        grouped = group([self._timed(piece, entry) for piece in mine], entry, spec.name, self._key)
        if grouped is not None:
            times = np.concatenate([_times(piece, spec.on) for piece in grouped.pieces])
            self._take(grouped, times, entry)
            self._see(grouped.pieces, times)
        if entry.tick_ms is not None and spec.idle_ms:
            self._time.tick(entry.tick_ms)
        self._time.keep(state)
        closed = self._close(state)
        return out if closed is None else [*out, closed]

    # --- rows ---------------------------------------------------------------------------------------------

    def _timed(self, piece: Piece, entry: Entry) -> Piece:
        """The rows that have a key and a time that windows have, too."""
        piece = keyed_for_state(piece, entry, self._spec.name)
        if isinstance(self._spec.gathers, ReadyFold):
            needs = self._spec.gathers.needs(self._spec.schema)
            piece = columns_for_state(piece, entry, self._spec.name, needs)
        if not len(piece):
            return piece
        times = _time_column(piece, self._spec.on)
        is_null = np.asarray(times.is_null())
        numbers = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        beyond = ~is_null & ((numbers < FIRST_US + self._length_us) | (numbers > LAST_US - self._length_us))
        column = f"its time (column {self._spec.on!r})"
        entry.emit_rows(BAD, self._spec.name, piece, np.flatnonzero(is_null), f"{column} is null")
        entry.emit_rows(
            BAD,
            self._spec.name,
            piece,
            np.flatnonzero(beyond),
            f"{column} is at the end of what times can be",
        )
        return piece.take(np.flatnonzero(~(is_null | beyond)))

    def _see(self, pieces: Sequence[Piece], times: Indices) -> None:
        begin = 0
        for piece in pieces:
            self._time.see(piece.input, int(times[begin : begin + len(piece)].max()))
            begin += len(piece)

    def _take(self, grouped: Grouped, times: Indices, entry: Entry) -> None:
        raise NotImplementedError

    def _late(
        self, grouped: Grouped, is_late: Any, starts: Indices, ends: Indices, entry: Entry
    ) -> Grouped | None:
        """The others; ``starts`` and ``ends`` are of the late rows' windows."""
        left, late = grouped.parted(is_late)
        now_us = self._time.now_us
        begin = 0
        for piece, rows in late:
            windows = zip(starts[begin : begin + len(rows)], ends[begin : begin + len(rows)], strict=True)
            begin += len(rows)
            whys = [
                f"its window, from {time_text(int(start))} to {time_text(int(end))}, was closed: event time had come "
                f"to {time_text(now_us or 0)}"
                for start, end in windows
            ]
            entry.emit_rows(LATE, self._spec.name, piece, rows, whys)
        return left

    # --- closing ------------------------------------------------------------------------------------------

    def _close(self, state: StateView) -> Piece | None:
        closed_us = self._time.closed_us
        if closed_us is None:
            return None
        due = list(state.scan(WINDOW, WINDOW + ordered(min(closed_us, LAST_US) + 1)))
        if not due:
            return None
        ends = np.array([time_of(at[1:9]) for at, _ in due], dtype=np.int64)
        keys = [at[9:] for at, _ in due]
        starts, packed = self._taken_out(keys, ends, [value for _, value in due], state)
        for at, _ in due:
            state.delete(at)
        return self._told(keys, starts, ends, packed)

    def _taken_out(
        self, keys: list[bytes], ends: Indices, values: list[bytes], state: StateView
    ) -> tuple[Indices, list[bytes]]:
        """The beginnings and contents of windows that close."""
        raise NotImplementedError

    def _told(self, keys: list[bytes], starts: Indices, ends: Indices, packed: list[bytes]) -> Piece:
        of, columns = self._gathers.said(packed)
        key_array = pa.array(keys, pa.binary())
        key_columns = self._key.of(key_array)
        assert isinstance(key_columns, list), "windows are of keys that were read"
        by_name = dict(zip([each.name for each in self._spec.key], key_columns, strict=True))
        by_name |= {START.name: _timestamps(starts), END.name: _timestamps(ends)}
        if of is not None:
            places = pa.array(of)
            key_array = key_array.take(places)
            by_name = {name: column.take(places) for name, column in by_name.items()}
        own = [by_name[each.name] for each in self._schema.fields[: len(self._schema) - len(columns)]]
        table = pa.Table.from_arrays([*own, *columns], schema=self._schema.arrow)
        return Piece(key_array, self._schema, table=table, input=self._spec.inputs[0])


class _Tumbling(Windows):
    """State: (end, key) to what was gathered."""

    def _take(self, grouped: Grouped, times: Indices, entry: Entry) -> None:
        state, closed_us = entry.own_state(), self._time.closed_us
        starts = times // self._length_us * self._length_us
        ends = starts + self._length_us
        left: Grouped | None = grouped
        if closed_us is not None:
            is_late = ends <= closed_us
            left = self._late(grouped, is_late, starts[is_late], ends[is_late], entry)
            ends = ends[~is_late]
        if left is None:
            return
        distinct, places = np.unique(ends, return_inverse=True)
        pairs, codes = np.unique(left.codes * len(distinct) + places, return_inverse=True)
        all_keys = left.keys.to_pylist()
        keys = [all_keys[pair // len(distinct)] for pair in pairs.tolist()]
        at = [
            WINDOW + ordered(int(distinct[pair % len(distinct)])) + key
            for pair, key in zip(pairs.tolist(), keys, strict=True)
        ]
        after = self._gathers.add(left, codes.astype(np.int64), keys, before := state.get_many(at))
        for each, packed, old in zip(at, after, before, strict=True):
            if packed is not None:
                state.put(each, packed)
            elif old is not None:
                state.delete(each)

    def _taken_out(
        self, keys: list[bytes], ends: Indices, values: list[bytes], state: StateView
    ) -> tuple[Indices, list[bytes]]:
        return ends - self._length_us, values


def refuse_lengths(*, lateness_ms: int, **lengths_ms: int) -> None:
    """``ConfigError`` where a window would have no length, or times cannot hold it."""
    for name, length_ms in {**lengths_ms, "lateness_ms": lateness_ms}.items():
        if not (0 if name == "lateness_ms" else 1) <= length_ms <= LENGTH_MS_MAX:
            raise ConfigError(
                f"{name}={length_ms} is no length of time: write 1 to {LENGTH_MS_MAX} milliseconds"
            )


def ordered(time_us: int) -> bytes:
    """A time as bytes that sort as times do, also those before 1970."""
    return (time_us + _SIGN).to_bytes(8, "big")


def time_of(data: bytes) -> int:
    """Back from :func:`ordered`."""
    return int.from_bytes(data, "big") - _SIGN


def _time_column(piece: Piece, on: str) -> pa.Array:
    if piece.table is not None:
        return in_family(Kind.TIMESTAMP, piece.table.column(on))
    return column_of(Kind.TIMESTAMP, list(map(attrgetter(on), piece.as_rows())))


def _times(piece: Piece, on: str) -> Indices:
    times: Indices = _time_column(piece, on).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return times


def _timestamps(times_us: Indices) -> pa.Array:
    return pa.array(times_us, pa.int64()).cast(Kind.TIMESTAMP.arrow)
