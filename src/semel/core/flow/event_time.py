"""How far event time has come in a partition of a stage: by its rows in recorded order, and by recorded ticks.

Invariants
    Time goes forward by what is recorded, once an entry, at its end: never by a clock or by what others have read.
    So all rows of an entry are judged against the time at its beginning, wherever the entry's pieces are cut.
    Of each input the largest time that its rows had counts, and of several inputs the least of these: one that is
    behind holds the others' windows open. An input that rests holds them open for ever, unless the flow has ticks.
    A tick says for how long there was nothing to be read, in any input: the time goes on by as much, from the latest
    that any input had. It is a length of time, and none of a clock's: rows of last year are not late because they are
    read today, and no clock has to agree with those of who made the rows.
    It is a part of the state, so it is that of the decided end.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from semel.core.flow.pieces import StateView

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

_KEY: Final = b"e"
_PACK: Final = msgspec.msgpack.Encoder().encode
_UNPACK: Final = msgspec.msgpack.Decoder(tuple[int | None, list[int | None]]).decode


class EventTime:
    """The time of one step over some inputs, within an attempt."""

    def __init__(self, inputs: tuple[int, ...], lateness_us: int) -> None:
        self._places = {number: place for place, number in enumerate(inputs)}
        self._lateness_us = lateness_us
        self._ticked_us: int | None = None
        self._seen_us: list[int | None] = [None] * len(inputs)
        self._stored: bytes | None = None
        self._is_loaded = False

    def load(self, state: StateView) -> None:
        """As of the beginning of the attempt's first entry; after that it is known."""
        if self._is_loaded:
            return
        self._is_loaded = True
        self._stored = state.get(_KEY)
        if self._stored is not None:
            self._ticked_us, self._seen_us = _UNPACK(self._stored)

    @property
    def now_us(self) -> int | None:
        """``None``: not known yet, for an input has had no row."""
        seen = [time for time in self._seen_us if time is not None]
        rows_us = min(seen) if len(seen) == len(self._seen_us) else None
        if rows_us is None or self._ticked_us is None:
            return self._ticked_us if rows_us is None else rows_us
        return max(rows_us, self._ticked_us)

    @property
    def closed_us(self) -> int | None:
        """Windows that end here or before are closed."""
        now_us = self.now_us
        return None if now_us is None else now_us - self._lateness_us

    def see(self, number: int, time_us: int) -> None:
        """The largest time of rows of this input."""
        place = self._places[number]
        seen = self._seen_us[place]
        self._seen_us[place] = time_us if seen is None else max(seen, time_us)

    def tick(self, tick_ms: int) -> None:
        """Nothing came for so long, as an entry has recorded it; behind the last row, or behind the tick before."""
        known = [time for time in (self._ticked_us, *self._seen_us) if time is not None]
        if known:  # else nothing is open
            self._ticked_us = min(max(known) + tick_ms * 1000, LAST_US)

    def keep(self, state: StateView) -> None:
        """At the end of an entry."""
        packed = _PACK((self._ticked_us, self._seen_us))
        if packed != self._stored:
            state.put(_KEY, packed)
            self._stored = packed


def time_text(time_us: int) -> str:
    """A time as a reason names it."""
    if not FIRST_US <= time_us <= LAST_US:
        return f"{time_us} µs after 1970"
    return (EPOCH + time_us * MICROSECOND).isoformat().replace("+00:00", "Z")
