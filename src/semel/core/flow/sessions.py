"""Sessions: windows that last as long as rows of their key come.

A session grows by rows that are no more than ``gap`` away from it, and two become one when a row falls between them:
as Spark's, Kafka Streams' and Flink's do, which count a row exactly ``gap`` behind the last one to its session. What
two of them had gathered before the entry is merged, in the order of their beginnings; the rows of the entry are
gathered into that in recorded order.

A row alone would be a session from its time to ``gap`` behind it. It is late where that is closed and reaches into no
session that is open: one that does makes it longer at its beginning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from semel.core.flow.folds import Fold
from semel.core.flow.functions import name_of
from semel.core.flow.grouped import Grouped
from semel.core.flow.pieces import Entry, Indices, StateView, Step
from semel.core.flow.windows import WINDOW, Window, Windows, ordered, refuse_lengths, time_of
from semel.errors import ConfigError

_SESSION: Final = b"s"
_PACK: Final = msgspec.msgpack.Encoder().encode
_UNPACK: Final = msgspec.msgpack.Decoder(tuple[int, bytes]).decode


@dataclass(frozen=True)
class SessionWindow(Window):
    """Windows that end ``gap_ms`` after their last row. ``merge`` makes one state of a typed fold's two."""

    gap_ms: int = 0
    merge: Callable[[Any, Any], Any] | None = None
    merge_version: str = ""  # of the source text of ``merge``

    kind_name: ClassVar[str] = "sessions"

    def __post_init__(self) -> None:
        refuse_lengths(gap_ms=self.gap_ms, lateness_ms=self.lateness_ms)
        if isinstance(self.gathers, Fold) and self.merge is None:
            raise ConfigError(
                f"{self.gathers.name}: a typed fold over sessions needs merge=f, where f(state, state) is the state of "
                f"two sessions that become one, for a row fell between them"
            )

    def start(self) -> Step:
        return _Sessions(self, self.merge, self.gap_ms)

    @property
    def rest_ms(self) -> int:
        return self.gap_ms + self.lateness_ms

    def plan_parts(self) -> Mapping[str, Any]:
        # Older plans have no border: a row exactly a gap away began another session. Their state is read as it is.
        parts = {**super().plan_parts(), "border": "inclusive"}
        return parts if self.merge is None else {**parts, "merge": [name_of(self.merge), self.merge_version]}

    def _shape_parts(self) -> dict[str, Any]:
        return {**super()._shape_parts(), "gap_ms": self.gap_ms}


@dataclass(slots=True)
class _Session:
    start: int
    end: int
    # Ends and contents of those that it was before.
    stored: list[tuple[int, bytes]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)  # of this entry, by number


class _Sessions(Windows):
    """State: (end, key) to nothing, for what is due; and (key, end) to (start, what was gathered)."""

    def _take(self, grouped: Grouped, times: Indices, entry: Entry) -> None:
        state, gap_us = entry.own_state(), self._length_us
        all_keys = grouped.keys.to_pylist()
        open_by_code = self._open(grouped, times, all_keys, state)
        closed_us = self._time.closed_us
        is_late = np.zeros(len(times), dtype=np.bool_)
        for number, (code, time) in enumerate(zip(grouped.codes.tolist(), times.tolist(), strict=True)):
            sessions = open_by_code[code]
            first = bisect_left(sessions, time, key=_end_of)
            last = first
            while last < len(sessions) and sessions[last].start <= time + gap_us:
                last += 1
            if first == last:
                if closed_us is not None and time + gap_us <= closed_us:
                    is_late[number] = True
                    continue
                sessions.insert(first, _Session(time, time + gap_us, rows=[number]))
                continue
            met = sessions[first]
            for other in sessions[first + 1 : last]:
                met.end, met.stored = other.end, met.stored + other.stored
                met.rows += other.rows
            del sessions[first + 1 : last]
            met.start, met.end = min(met.start, time), max(met.end, time + gap_us)
            met.rows.append(number)
        left = self._late(grouped, is_late, times[is_late], times[is_late] + gap_us, entry)
        if left is not None:
            self._gather(left, open_by_code, all_keys, is_late, state)

    def _open(
        self, grouped: Grouped, times: Indices, all_keys: list[bytes], state: StateView
    ) -> dict[int, list[_Session]]:
        """The open sessions that rows may reach into, of each key, by their times."""
        count = len(all_keys)
        least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(least, grouped.codes, times)
        np.maximum.at(most, grouped.codes, times)
        out: dict[int, list[_Session]] = {}
        for code in np.unique(grouped.codes).tolist():
            key, sessions = all_keys[code], list[_Session]()
            begin = _session_at(key, int(least[code]))
            for at, packed in state.scan(begin, _session_at(key, None)):
                start, gathered = _UNPACK(packed)
                if start > int(most[code]) + self._length_us:
                    break
                end = time_of(at[-8:])
                sessions.append(_Session(start, end, [(end, gathered)]))
            out[code] = sessions
        return out

    def _gather(
        self,
        left: Grouped,
        open_by_code: dict[int, list[_Session]],
        all_keys: list[bytes],
        is_late: Any,
        state: StateView,
    ) -> None:
        place = np.cumsum(~is_late) - 1  # of a row among those that are not late
        codes = np.zeros(len(left.codes), dtype=np.int64)
        keys: list[bytes] = []
        grown: list[_Session] = []
        before: list[bytes | None] = []
        for code, sessions in open_by_code.items():
            for session in sessions:
                if not session.rows:
                    continue
                codes[place[session.rows]] = len(grown)
                key = all_keys[code]
                keys.append(key)
                grown.append(session)
                merged: bytes | None = None
                for _, gathered in session.stored:
                    merged = gathered if merged is None else self._gathers.merge(key, merged, gathered)
                before.append(merged)
        after = self._gathers.add(left, codes, keys, before)
        for key, session, packed in zip(keys, grown, after, strict=True):
            for end, _ in session.stored:
                state.delete(WINDOW + ordered(end) + key)
                state.delete(_session_at(key, end))
            if packed is not None:
                state.put(WINDOW + ordered(session.end) + key, b"")
                state.put(_session_at(key, session.end), _PACK((session.start, packed)))

    def _taken_out(
        self, keys: list[bytes], ends: Indices, values: list[bytes], state: StateView
    ) -> tuple[Indices, list[bytes]]:
        at = [_session_at(key, end) for key, end in zip(keys, ends.tolist(), strict=True)]
        starts, packed = [], []
        for each, stored in zip(at, state.get_many(at), strict=True):
            assert stored is not None, "what is due lies under its key, too"
            start, gathered = _UNPACK(stored)
            starts.append(start)
            packed.append(gathered)
            state.delete(each)
        return np.array(starts, dtype=np.int64), packed


def _end_of(session: _Session) -> int:
    return session.end


def _session_at(key: bytes, end: int | None) -> bytes:
    """Where a session lies; ``None``: behind all of the key's."""
    return _SESSION + len(key).to_bytes(4, "big") + key + (b"\xff" * 9 if end is None else ordered(end))
