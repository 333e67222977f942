"""Rows of a doubling writer, each once: which rows of a partition a copy takes, and what it has to remember.

A row says by its lineage header which row it came of (:mod:`semel.core.flow.lineage`), and comes once if it is beyond
the marks. The marks ride in the journal beside the position: those behind the rows of a NEXT. Where only some of these
are stored when a copy is killed, the others are known by their offsets, and are taken before the marks count again: to
judge them by marks that have seen them would lose them, and by older ones would need all that was read since.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semel.core.copy.journal import Chunk, Clean, LineageMark
from semel.core.copy.spans import Spans, joined, row_count, rows_from
from semel.core.flow.lineage import beyond, lineages_of


@dataclass(frozen=True, slots=True)
class WithoutLineage:
    """The row at ``offset`` does not say which row it came of."""

    offset: int


class Cleaner:
    """Takes the rows of one partition in their order."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._marks = {mark.origin: (mark.offset, mark.index) for mark in clean.marks}

    def take(self, offsets: NDArray[np.int64], headers: pa.Array) -> list[int] | WithoutLineage:
        """The offsets of those of the next rows that are to be copied."""
        is_wanted = np.zeros(len(offsets), dtype=np.bool_)
        for start, end in self._clean.rest:
            is_wanted |= (offsets >= start) & (offsets < end)
        new = np.flatnonzero(offsets >= self._clean.judged_to)
        origins, of_offsets, of_indices = lineages_of(headers.take(pa.array(new)), len(new))
        if origins.null_count:
            return WithoutLineage(int(offsets[new[np.flatnonzero(np.asarray(origins.is_null()))[0]]]))
        encoded = origins.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for code, origin in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            mark = self._marks.get(origin, (-1, -1))
            is_beyond, self._marks[origin] = beyond(of_offsets[rows], of_indices[rows], mark)
            is_wanted[new[rows]] = is_beyond
        return [int(offset) for offset in offsets[is_wanted]]

    def behind(self, end: int) -> Clean:
        """What to go on with at the offset ``end``, behind what was taken."""
        marks = tuple(LineageMark(origin, *mark) for origin, mark in self._marks.items())
        rest = rows_from(self._clean.rest, end)
        return Clean(marks, rest, max(end, self._clean.judged_to) if rest else end)


def with_rest(clean: Clean, end: int, left: Spans) -> Clean:
    """In front of ``end``, behind which ``clean`` holds, with rows that were judged and are left."""
    return Clean(clean.marks, joined((*left, *clean.rest)), max(end, clean.judged_to))


def clean_behind(chunk: Chunk, stored: int) -> Clean | None:
    """Where only ``stored`` rows of a chunk are stored."""
    if chunk.clean is None:
        return None
    left = list(chunk.spans)
    while left and stored >= left[0][1] - left[0][0]:
        stored -= row_count(left[:1])
        del left[0]
    if left:
        left[0] = left[0][0] + stored, left[0][1]
    return with_rest(chunk.clean, chunk.end, tuple(left))
