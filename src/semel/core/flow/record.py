"""What a row's record has beside its value, as functions of a flow's user see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from semel.core.flow.pieces import Piece

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    """The key that a row has by now, and the time and the headers of the record of the source that it stems from."""

    key: bytes | None
    timestamp_ms: int | None  # None: microseconds cannot hold it in 64 bits
    headers: tuple[tuple[str, bytes | None], ...] = ()  # in their order; a name may come twice

    @property
    def timestamp(self) -> datetime | None:
        """In UTC; ``None`` where it is in no year from 1 to 9999."""
        if self.timestamp_ms is None:
            return None
        try:
            return _EPOCH + timedelta(milliseconds=self.timestamp_ms)
        except OverflowError:
            return None

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this name; ``None`` where there is none, or it is null."""
        return next((value for each, value in reversed(self.headers) if each == name), None)


def records_of(piece: Piece) -> list[Record]:
    """One for each row; of rows that carry their record."""
    assert piece.timestamps is not None, "the planner has refused a step that sees no record"
    assert piece.headers is not None, "the planner has refused a step that sees no record"
    keys = [None] * len(piece) if piece.keys is None else piece.keys.to_pylist()
    times_us = piece.timestamps.view("int64").to_pylist()
    headers = [
        tuple((each["key"], each["value"]) for each in of_row) if of_row else ()
        for of_row in piece.headers.to_pylist()
    ]
    times_ms = [None if time_us is None else time_us // 1000 for time_us in times_us]
    return list(map(Record, keys, times_ms, headers))
