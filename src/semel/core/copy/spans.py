"""Offsets of rows as spans: most logs count on without a gap, compacted and transactional ones do not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Span: TypeAlias = tuple[int, int]  # the first offset, and the one behind the last
Spans: TypeAlias = tuple[Span, ...]  # rising, and none touches the next


def spans_of(offsets: NDArray[np.int64]) -> Spans:
    """Those of rows at these rising offsets."""
    if not len(offsets):
        return ()
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    starts = offsets[np.concatenate(([0], breaks))].tolist()
    ends = (offsets[np.concatenate((breaks - 1, [len(offsets) - 1]))] + 1).tolist()
    return tuple(zip(starts, ends, strict=True))


def joined(spans: Iterable[Span]) -> Spans:
    """The same rows, with spans that touch made one."""
    made: list[Span] = []
    for start, end in spans:
        if made and made[-1][1] == start:
            made[-1] = (made[-1][0], end)
        else:
            made.append((start, end))
    return tuple(made)


def row_count(spans: Sequence[Span]) -> int:
    """How many rows they are."""
    return sum(end - start for start, end in spans)


def offset_of(spans: Sequence[Span], row: int) -> int:
    """The offset of the row of this number, from 0 on; ``IndexError`` where there are not so many."""
    for start, end in spans:
        if row < end - start:
            return start + row
        row -= end - start
    raise IndexError("there are fewer rows")


def rows_from(spans: Sequence[Span], offset: int) -> Spans:
    """Those of the rows that lie at or behind ``offset``."""
    return tuple((max(start, offset), end) for start, end in spans if end > offset)


def rows_before(spans: Sequence[Span], offset: int) -> int:
    """How many of the rows lie before ``offset``."""
    return sum(max(0, min(end, offset) - start) for start, end in spans)


def first_rows(spans: Sequence[Span], count: int) -> Spans:
    """The first so many of the rows."""
    kept: list[Span] = []
    for start, end in spans:
        if count <= 0:
            break
        kept.append((start, min(end, start + count)))
        count -= end - start
    return tuple(kept)
