"""The ready folds over whole columns: count, sum, min, max, last.

A total is what the ready folds keep for each key (:mod:`semel.core.flow.ready`), and what windows gather
(:mod:`semel.core.flow.windows`). Its state is one value, or a row's values.

Invariants
    What a column operation gives is, to the bit, what a Python loop over the rows in recorded order gives:
    ``reference`` of each total is that loop's body, and a test holds the two together. So floats are added in order,
    one after another, and whole numbers exactly: a sum that does not fit its column stops the flow.
    Nulls are left out, as in SQL: a sum over nothing is null. ``count`` counts rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.columns import column_of, in_family, values_of
from semel.core.flow.pieces import Indices
from semel.core.flow.schema import Field, Kind

LONG_MAX: Final = 2**63 - 1
SUMMED: Final = {
    Kind.INT: Kind.LONG,
    Kind.LONG: Kind.LONG,
    Kind.FLOAT: Kind.DOUBLE,
    Kind.DOUBLE: Kind.DOUBLE,
}
_RANKED: Final = (Kind.STRING, Kind.BINARY)


class TooLarge(ValueError):
    """A sum that its column cannot hold: of which group."""

    def __init__(self, group: int, total: int | float) -> None:
        self.group, self.total = group, total
        super().__init__(f"the sum is {total}, which its column cannot hold")


class Total(Protocol):
    """A total over rows of one schema. A group's state is ``None`` as long as it has nothing to say."""

    fields: tuple[Field, ...]  # of what it says
    state_type: Any  # of a state, as msgspec reads it back

    def add(
        self, codes: Indices, group_count: int, table: pa.Table | None, before: Sequence[Any]
    ) -> list[Any]:
        """The groups' states with these rows, of which ``codes`` tells the group of each."""
        ...

    def merge(self, earlier: Any, later: Any) -> Any:
        """One state of two of the same key; ``later`` has the later time, or the later row."""
        ...

    def columns(self, states: Sequence[Any]) -> list[pa.Array]:
        """What the groups say, a column for each of ``fields``."""
        ...


class CountTotal:
    """How many rows."""

    state_type: Any = int

    def __init__(self, column: str) -> None:
        self.fields: tuple[Field, ...] = (Field(column, Kind.LONG),)

    def add(
        self, codes: Indices, group_count: int, table: pa.Table | None, before: Sequence[Any]
    ) -> list[Any]:
        counts = np.bincount(codes, minlength=group_count).tolist()
        return [
            count if state is None else state + count for count, state in zip(counts, before, strict=True)
        ]

    @staticmethod
    def reference(state: int | None, value: Any) -> int:
        return (state or 0) + 1

    def merge(self, earlier: Any, later: Any) -> Any:
        return (earlier or 0) + (later or 0)

    def columns(self, states: Sequence[Any]) -> list[pa.Array]:
        return [pa.array([state or 0 for state in states], pa.int64())]


class SumTotal:
    """What the values come to, added one after another."""

    def __init__(self, of: str, kind: Kind, column: str) -> None:
        self._of, self._kind = of, kind
        self._is_whole = SUMMED[kind] is Kind.LONG
        self.fields: tuple[Field, ...] = (Field(column, SUMMED[kind]),)
        self.state_type: Any = int if self._is_whole else float

    def add(
        self, codes: Indices, group_count: int, table: pa.Table | None, before: Sequence[Any]
    ) -> list[Any]:
        values, codes = _present(self._kind, self._of, table, codes)
        counts = np.bincount(codes, minlength=group_count)
        start: list[Any] = [0 if state is None else state for state in before]
        if self._is_whole:
            totals = self._whole(codes, values, start)
        else:
            sums = np.array(start, dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                np.add.at(sums, codes, values.astype(np.float64))
            if not np.isfinite(sums).all():
                group = int(np.flatnonzero(~np.isfinite(sums))[0])
                raise TooLarge(group, float(sums[group]))
            totals = sums.tolist()
        return [
            None if state is None and not count else total
            for state, count, total in zip(before, counts.tolist(), totals, strict=True)
        ]

    def _whole(self, codes: Indices, values: npt.NDArray[Any], start: list[int]) -> list[int]:
        values = values.astype(np.int64)
        largest = max(-int(values.min()), int(values.max()), 0) if len(values) else 0
        if largest * len(values) + max(map(abs, start), default=0) <= LONG_MAX:
            sums = np.array(start, dtype=np.int64)
            np.add.at(sums, codes, values)
            return sums.tolist()  # type: ignore[no-any-return]
        totals = start.copy()
        for code, value in zip(codes.tolist(), values.tolist(), strict=True):
            totals[code] += value
        for group, total in enumerate(totals):
            if not -LONG_MAX - 1 <= total <= LONG_MAX:
                raise TooLarge(group, total)
        return totals

    @staticmethod
    def reference(state: Any, value: Any) -> Any:
        return state if value is None else (0 if state is None else state) + value

    def merge(self, earlier: Any, later: Any) -> Any:
        if earlier is None or later is None:
            return earlier if later is None else later
        total = earlier + later
        if not (-LONG_MAX - 1 <= total <= LONG_MAX if self._is_whole else np.isfinite(total)):
            raise TooLarge(0, total)
        return total

    def columns(self, states: Sequence[Any]) -> list[pa.Array]:
        return [pa.array(states, self.fields[0].kind.arrow)]


class ExtremeTotal:
    """Text and bytes go by their bytes, which for text is the order of its characters."""

    def __init__(self, of: str, kind: Kind, column: str, *, is_max: bool) -> None:
        self._of, self._kind, self._is_max = of, kind, is_max
        self.fields: tuple[Field, ...] = (Field(column, kind),)
        self.state_type: Any = kind.python

    def add(
        self, codes: Indices, group_count: int, table: pa.Table | None, before: Sequence[Any]
    ) -> list[Any]:
        column = _column(self._kind, self._of, table)
        if column.null_count:
            codes, column = codes[np.asarray(column.is_valid())], column.drop_null()
        dictionary: pa.Array | None = None
        if self._kind in _RANKED:
            encoded = column.dictionary_encode()
            order = pc.sort_indices(encoded.dictionary)
            dictionary = encoded.dictionary.take(order)
            ranks = np.empty(len(order), dtype=np.int64)
            ranks[order.to_numpy()] = np.arange(len(order))
            numbers: npt.NDArray[Any] = ranks[encoded.indices.to_numpy()]
        else:
            numbers = _numbers(self._kind, column)
        firsts = np.full(group_count, -1, dtype=np.int64)
        reverse = codes[::-1]
        firsts[reverse] = np.arange(len(codes) - 1, -1, -1)
        has_any = firsts >= 0
        best = np.zeros(group_count, dtype=numbers.dtype)
        best[has_any] = numbers[firsts[has_any]]
        (np.maximum if self._is_max else np.minimum).at(best, codes, numbers)
        found = self._values(best[has_any], dictionary)
        made = list(before)
        for group, value in zip(np.flatnonzero(has_any).tolist(), found, strict=True):
            made[group] = self.merge(made[group], value)
        return made

    def _values(self, best: npt.NDArray[Any], dictionary: pa.Array | None) -> list[Any]:
        if dictionary is not None:
            return dictionary.take(pa.array(best)).to_pylist()  # type: ignore[no-any-return]
        if self._kind is Kind.BOOLEAN:
            return best.astype(np.bool_).tolist()  # type: ignore[no-any-return]
        if self._kind in (Kind.TIMESTAMP, Kind.DATE):
            return values_of(self._kind, pa.array(best).cast(self._kind.arrow))
        return best.tolist()  # type: ignore[no-any-return]

    def reference(self, state: Any, value: Any) -> Any:
        return self.merge(state, value + 0.0 if isinstance(value, float) else value)

    def merge(self, earlier: Any, later: Any) -> Any:
        if earlier is None or later is None:
            return earlier if later is None else later
        return later if (later > earlier if self._is_max else later < earlier) else earlier

    def columns(self, states: Sequence[Any]) -> list[pa.Array]:
        return [column_of(self._kind, states)]


class LastTotal:
    """The values of the last row."""

    state_type: Any = list

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        types = [field.kind.python | None for field in fields]
        self.state_type = tuple[*types] if types else tuple[()]  # type: ignore[valid-type]

    def add(
        self, codes: Indices, group_count: int, table: pa.Table | None, before: Sequence[Any]
    ) -> list[Any]:
        assert table is not None
        lasts = np.full(group_count, -1, dtype=np.int64)
        lasts[codes] = np.arange(len(codes))
        has_any = np.flatnonzero(lasts >= 0)
        rows = table.take(pa.array(lasts[has_any]))
        columns = [
            values_of(field.kind, in_family(field.kind, rows.column(field.name))) for field in self.fields
        ]
        made = list(before)
        for place, group in enumerate(has_any.tolist()):
            made[group] = tuple(column[place] for column in columns)
        return made

    def reference(self, state: Any, value: Any) -> Any:
        return value

    def merge(self, earlier: Any, later: Any) -> Any:
        return earlier if later is None else later

    def columns(self, states: Sequence[Any]) -> list[pa.Array]:
        return [
            column_of(field.kind, [None if state is None else state[place] for state in states])
            for place, field in enumerate(self.fields)
        ]


def _column(kind: Kind, of: str, table: pa.Table | None) -> pa.Array:
    assert table is not None
    return in_family(kind, table.column(of))


def _present(kind: Kind, of: str, table: pa.Table | None, codes: Indices) -> tuple[npt.NDArray[Any], Indices]:
    """The values that are not null, and their groups."""
    column = _column(kind, of, table)
    if column.null_count:
        codes, column = codes[np.asarray(column.is_valid())], column.drop_null()
    return _numbers(kind, column), codes


def _numbers(kind: Kind, column: pa.Array) -> npt.NDArray[Any]:
    """Values without nulls as numbers of the same order."""
    if kind is Kind.TIMESTAMP:
        column = column.cast(pa.int64())
    elif kind is Kind.DATE:
        column = column.cast(pa.int32())
    elif kind is Kind.BOOLEAN:
        column = column.cast(pa.uint8())
    numbers: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers + 0.0 if kind in (Kind.DOUBLE, Kind.FLOAT) else numbers  # -0.0 is 0.0
