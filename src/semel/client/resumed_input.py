"""What ``resume()`` gives: the rows of an input behind the saved position, each with its own.

Rows up to that position may come in front of them, where what an earlier run stored is to be held against its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

from semel.core.client.fingerprint import first_row_number, same_position
from semel.core.client.progress import Progress
from semel.core.client.saved import Position
from semel.errors import ConfigError, InputDiffers
from semel.wording import counted

_Row = TypeVar("_Row")
#: All rows, numbered as they come, or those behind a position, each with its own.
Input: TypeAlias = Iterable[_Row] | Callable[[Position], Iterable[tuple[Position, _Row]]]


class ResumedInput:
    """One input, read once."""

    def __init__(self, progress: Progress, *, compare_rows: bool) -> None:
        self._progress: Final = progress
        self._compare_rows: Final = compare_rows
        self.passed_over = 0  # rows up to the saved position
        self.has_ended = False

    def rows(self, rows: Input[_Row]) -> Iterator[tuple[Position, _Row]]:
        """``InputDiffers`` at its end, if fewer rows have come again than an earlier run stored."""
        saved = self._progress.saved.position
        yield from self._from_position(rows(saved)) if callable(rows) else self._by_number(rows)
        self.has_ended = True
        if missing := self._progress.rows_missing:
            raise InputDiffers(
                f"the input ended, but {missing} rows that an earlier run stored behind position {saved!r} "
                f"did not come again: it is not the input of that run"
            )

    def _from_position(self, rows: Iterable[tuple[Position, _Row]]) -> Iterator[tuple[Position, _Row]]:
        """Rows up to the saved position may be in front of the others: those are compared."""
        progress = self._progress
        stored = [item.position for item in progress.saved.recent] or [progress.saved.position]
        is_first = is_stored = True
        for position, row in rows:
            if is_first:
                progress.compare_from(position, by_topic_alone=not self._compare_rows)
            is_first = False
            # What cannot be compared, for want of a fingerprint or by the caller's word, is stored all the same.
            is_stored &= any(same_position(position, at) for at in stored)
            if is_stored and not (progress.is_comparing and self._compare_rows):
                self.passed_over += 1
            if is_stored and not progress.is_comparing:
                continue
            yield position, row

    def _by_number(self, rows: Iterable[_Row]) -> Iterator[tuple[Position, _Row]]:
        progress = self._progress
        saved = progress.saved.position
        first = 0
        if saved is not None:
            if not isinstance(saved, int):
                raise ConfigError(
                    f"the saved position {saved!r} is no row number: hand resume() a function of the position"
                )
            first = saved + 1
        given_from = first
        if (number := first_row_number(progress.saved.recent)) is not None:
            given_from = number
            progress.compare_from(number, by_topic_alone=not self._compare_rows)
        count = 0
        for count, row in enumerate(rows, 1):
            if count <= first:
                self.passed_over += 1
            if count > given_from:
                yield count - 1, row
        if count < first:
            raise InputDiffers(
                f"the input has {counted(count, 'row')}, but row {saved} (from 0) of it is stored already"
            )
