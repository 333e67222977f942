"""What a replay gives, beside what stands in the log: per writer and output partition, in key, value and headers.

A time is compared where the replay gives one, and the log has not set its own. Elsewhere rows have that of writing.

Rows of other writers in between do not matter, nor do offsets: two runs interleave their writers otherwise. What is
stored behind the decided end is not compared, for it is not decided; it is counted.

Where the beginning of an output partition was trimmed, or that of the input, the two are held against each other from
their ends. What then is in the one alone is neither right nor wrong: nobody can prove it any more, and it is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.blocking import Cluster
from semel.flow.recorded import StageRecord
from semel.spark.output import Rows, has_numbers, rows_of, spread
from semel.spark.stored_rows import stored_rows
from semel.spark.takeover import listed
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

DIFFERENCES_MAX: Final = 20  # that are told of a stage
_SHOWN_CHARS_MAX: Final = 120
_STORED_ROWS: Final = 65_536  # that are looked at in one go


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where the log and the replay are not the same."""

    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(slots=True)
class WriterCompared:
    """The rows of one writer in all of its outputs."""

    cluster: Cluster
    record: StageRecord
    writer: str
    first_row: int = 0  # the number of the replay's first one among the writer's that are counted
    is_cut: bool = False  # the beginning of the input is gone, and what is stored may have come of it
    row_count: int = 0  # that were compared
    own_number_count: int = 0
    undecided: int = 0
    trimmed: int = 0  # rows of the replay, that were where an output was trimmed
    unmade: int = 0  # rows that are stored, of which the replay has not the input
    untimed: int = 0  # rows that were to have their record's time, and the log has set another
    differences: list[Difference] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    _made_count: int = 0
    _outputs: dict[TopicPartition, _OutputCompared] = field(default_factory=dict)

    def over(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Compare all that the replay gives."""
        for batch in batches:
            incoming = rows_of(batch, self.first_row + self._made_count - self.own_number_count)
            self._made_count += len(incoming.rows)
            if has_numbers(batch):
                self.own_number_count += len(incoming.rows)
            for topic, of_topic in incoming.by_topic(None):
                count = self._partition_count(topic)
                if count is not None:
                    for number, rows in spread(of_topic, self.writer, count):
                        self._output(TopicPartition(topic, number)).feed(rows)

    def finish(self) -> None:
        """Behind the last row: nothing else may stand there that is decided."""
        for topic in self.record.history.outputs:
            count = self._partition_count(topic)
            for number in range(count or 0):
                self._output(TopicPartition(topic, number)).finish()
        state = self.record.writer(self.writer)
        numbered = self.first_row + self._made_count - self.own_number_count
        if state is not None and state.rows_total != numbered:
            self.differences.append(
                Difference(
                    f"writer {self.writer}",
                    f"the decision counts {state.rows_total} rows of it, and the replay gives {numbered}",
                )
            )

    def _partition_count(self, topic: str) -> int | None:
        counts = self.record.output_counts.get(topic, set())
        if len(counts) == 1:
            (count,) = counts
            return count
        if counts:
            grew = " to ".join(map(str, sorted(counts)))
            self.left_out.add(
                f"topic {topic!r} grew from {grew} partitions: its rows lie by one number and another"
            )
        else:
            self.differences.append(
                Difference(
                    f"topic {topic!r}", f"{self.writer} never wrote there, and the replay gives rows for it"
                )
            )
        return None

    def _output(self, tp: TopicPartition) -> _OutputCompared:
        found = self._outputs.get(tp)
        if found is None:
            found = self._outputs[tp] = _OutputCompared(self, tp)
        return found


class _OutputCompared:
    """One output partition; rows are read as they are needed."""

    def __init__(self, of: WriterCompared, tp: TopicPartition) -> None:
        self._of, self._tp = of, tp
        self._start = listed(of.cluster, [tp], EARLIEST_TIMESTAMP)[tp]
        self._decided_below = of.record.decided_below(of.writer, tp)
        self._stored = _Stored(self._read(), self._decided_below)
        self._number = 0
        self._differs = False
        self._is_from_end = self._start > 0 or of.is_cut
        self._kept: deque[Rows] = deque()  # the replay's last rows, where it is compared from the end
        self._kept_max = self._count() if self._is_from_end else 0
        self._kept_rows = 0

    def _read(self) -> Iterator[tuple[Rows, Any]]:
        of = self._of
        ids = of.record.history.writers.get(of.writer, {}).values()
        end = listed(of.cluster, [self._tp], LATEST_TIMESTAMP)[self._tp]
        sink_id = of.record.history.sink_id
        for _, rows, offsets in stored_rows(
            of.cluster, sink_id, self._tp, dict.fromkeys(ids, self._start), end
        ):
            yield rows, offsets

    def _count(self) -> int:
        stored = _Stored(self._read(), self._decided_below)
        count = 0
        while rows := stored.take(_STORED_ROWS):
            count += len(rows[0])
        return count

    def feed(self, rows: Rows) -> None:
        """The next rows of the replay."""
        if not self._is_from_end:
            self._compare(rows)
            return
        self._kept.append(rows)
        self._kept_rows += len(rows)
        while self._kept and self._kept_rows - len(self._kept[0]) >= self._kept_max:
            dropped = len(self._kept.popleft())
            self._kept_rows -= dropped
            self._of.trimmed += dropped

    def finish(self) -> None:
        """Nothing more comes."""
        surplus = self._kept_rows - self._kept_max
        if surplus > 0 and self._kept:
            self._kept[0] = self._kept[0].drop(surplus)
            self._of.trimmed += surplus
        if self._of.is_cut:
            self._pass_over(-surplus)
        for rows in self._kept:
            self._compare(rows)
        left = self._stored.take(1)
        if left is not None and not self._differs:
            row = _shown(left[0], 0)
            self._tell(
                int(left[1][0].as_py()), f"the replay has no row {self._number} there, and {row} is stored"
            )
        self._of.undecided += self._stored.undecided()

    def _pass_over(self, count: int) -> None:
        while count > 0 and (taken := self._stored.take(count)) is not None:
            count -= len(taken[0])
            self._of.unmade += len(taken[0])

    def _compare(self, rows: Rows) -> None:
        if self._differs:
            return
        done = 0
        while done < len(rows):
            taken = self._stored.take(len(rows) - done)
            if taken is None:
                self._tell(None, f"row {self._number} is not stored: the replay gives {_shown(rows, done)}")
                return
            stored, offsets = taken
            part = rows.drop(done).first(len(stored))
            at = _first_difference(part, stored)
            self._of.untimed += _untimed(part, stored)
            if at is not None:
                what = f"row {self._number + at} is stored as {_shown(stored, at)}"
                self._tell(int(offsets[at].as_py()), f"{what}, and the replay gives {_shown(part, at)}")
                return
            done += len(stored)
            self._number += len(stored)
            self._of.row_count += len(stored)

    def _tell(self, offset: int | None, what: str) -> None:
        self._differs = True
        place = f"{self._tp}{'' if offset is None else f'@{offset}'}, writer {self._of.writer}"
        if len(self._of.differences) < DIFFERENCES_MAX:
            self._of.differences.append(Difference(place, what))


class _Stored:
    """A writer's decided rows in one output partition, a few at a time."""

    def __init__(self, pieces: Iterator[tuple[Rows, Any]], decided_below: int) -> None:
        self._pieces, self._decided_below = pieces, decided_below
        self._rows: Rows | None = None
        self._offsets: Any = None
        self._behind = 0

    def take(self, count: int) -> tuple[Rows, Any] | None:
        """The next rows, at most ``count``, and their offsets; ``None``: that was all that is decided."""
        while self._rows is None or not len(self._rows):
            piece = next(self._pieces, None)
            if piece is None:
                return None
            rows, offsets = piece
            decided = int(np.searchsorted(np.asarray(offsets), self._decided_below))
            self._behind += len(rows) - decided
            self._rows, self._offsets = rows.first(decided), offsets[:decided]
        taken = self._rows.first(count), self._offsets[:count]
        self._rows, self._offsets = self._rows.drop(count), self._offsets[count:]
        return taken

    def undecided(self) -> int:
        """Rows behind what is decided; to be asked at the end."""
        while self.take(_STORED_ROWS) is not None:
            pass
        return self._behind


def _first_difference(one: Rows, other: Rows) -> int | None:
    rows = len(one)
    other = _with_times_as_in(one, other)
    same_keys = _column(one.keys, rows).equals(_column(other.keys, rows))
    same_values = _column(one.values, rows).equals(_column(other.values, rows))
    same_times = one.timestamps is None or one.timestamps.equals(other.timestamps)
    if same_keys and same_values and same_times and _same_headers(one, other):
        return None
    for row in range(len(one)):
        if _row(one, row) != _row(other, row):
            return row
    return None


def _with_times_as_in(one: Rows, other: Rows) -> Rows:
    """``other`` with the times that are to be compared: those that ``one`` gives, where the log has not set its own."""
    if one.timestamps is None:
        return replace(other, timestamps=None)
    given = one.timestamps
    times = pc.if_else(given.is_valid(), other.timestamps.cast(given.type).fill_null(given), None)
    return replace(other, timestamps=times)


def _untimed(one: Rows, other: Rows) -> int:
    if one.timestamps is None:
        return 0
    return int(pc.sum(pc.and_(one.timestamps.is_valid(), other.timestamps.is_null())).as_py() or 0)


def _same_headers(one: Rows, other: Rows) -> bool:
    if not _has_headers(one) and not _has_headers(other):
        return True
    return one.headers is not None and one.headers.cast(other.headers.type).equals(other.headers)


def _column(column: Any, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, pa.binary())
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _has_headers(rows: Rows) -> bool:
    return rows.headers is not None and bool(pc.sum(pc.list_value_length(rows.headers)).as_py())


_Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]


def _row(rows: Rows, row: int) -> _Row:
    headers = None if rows.headers is None else rows.headers[row].as_py()
    key, value = (None if column is None else column[row].as_py() for column in (rows.keys, rows.values))
    time_us = None if rows.timestamps is None else rows.timestamps[row].value
    return _bytes(key), _bytes(value), [(each["key"], each["value"]) for each in headers or ()], time_us


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _shown(rows: Rows, row: int) -> str:
    key, value, headers, time_us = _row(rows, row)
    text = f"{_short(key)} = {_short(value)}"
    text += f" with headers {headers}" if headers else ""
    return text if time_us is None else f"{text} at {time_us // 1000} ms"


def _short(value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
