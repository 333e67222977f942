"""What rows say, as a number, so that a resumed producer can tell whether it is handed the same ones again.

Two things vouch for an input. Of the last positions up to the saved one the identity keeps a fingerprint
(:class:`Recent`); they are handed once more, held against it (:class:`Again`) and dropped. That tells another
input, another topic, rows that moved, and rows that the caller now makes otherwise. It does not tell a change far
in front of the saved position: no row is dropped or doubled by one, and to see it every row would have to come
again. Rows *behind* the saved position that are stored are in no file yet; each is held against the log
(:func:`row_digest`) before it is dropped.

A row is its topic, the partition if the caller chose it, key, value and headers. Its time is not: who gives none
has another one each time.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Protocol

from semel.core.client.saved import Position, SavedRows

RECENT_POSITIONS_MAX: Final = 16
RECENT_ROWS_MAX: Final = 1_000  # of more, fewer positions are kept: but always the last one, however long
DIGEST_BYTES: Final = 8

_PENDING_ROWS_MAX: Final = 64
_PENDING_BYTES_MAX: Final = 64 * 1024
_LENGTH: Final = struct.Struct("<i")
_PARTITION: Final = struct.Struct("<i")

Headers = Sequence[tuple[str, bytes | None]]
RowParts = tuple[bytes | None, bytes | None, Headers]


class Mixed(Protocol):
    """A digest of a table's rows (``core.sink.digest``): of the rows in their order, however they were cut."""

    def mixed(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Differs:
    """Rows that come again are not those that are stored; the text says which."""

    why: str


def row_digest(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Of one row of a partition."""
    return blake2b(_packed(key, value, headers), digest_size=DIGEST_BYTES).digest()


def _packed(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    parts = [_framed(key), _framed(value)]
    for name, content in headers:
        parts += (_framed(name.encode()), _framed(content))
    return b"".join(parts)


def _framed(part: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if part is None else _LENGTH.pack(len(part)) + part


def same_position(one: Position, other: Position) -> bool:
    """Also where one of them comes out of a file: JSON knows lists, and no tuples."""
    return bool(one == other) or json.dumps(one) == json.dumps(other)


class _RowsAt:
    """The rows of one position. Few are kept as they are, for most positions are never fingerprinted."""

    __slots__ = ("_hasher", "_pending", "_pending_bytes", "position", "tables", "topics")

    def __init__(self, position: Position) -> None:
        self.position = position
        self.topics: dict[str, int] = {}
        self.tables: dict[str, Mixed] = {}
        self._hasher: Any = None
        self._pending: list[tuple[str, int | None, RowParts]] = []
        self._pending_bytes = 0

    def add(self, topic: str, partition: int | None, row: RowParts) -> None:
        self.topics[topic] = self.topics.get(topic, 0) + 1
        self._pending.append((topic, partition, row))
        key, value, headers = row
        self._pending_bytes += (0 if key is None else len(key)) + (0 if value is None else len(value))
        self._pending_bytes += sum(0 if content is None else len(content) for _, content in headers)
        if len(self._pending) >= _PENDING_ROWS_MAX or self._pending_bytes > _PENDING_BYTES_MAX:
            self._fold()

    def add_table(self, topic: str, row_count: int, digest: Mixed) -> None:
        """``digest``: of all the rows of tables that went to the topic at this position."""
        self.topics[topic] = self.topics.get(topic, 0) + row_count
        self.tables[topic] = digest

    @property
    def rows(self) -> int:
        return sum(self.topics.values())

    def saved(self) -> SavedRows:
        self._fold()
        hasher = self._hasher.copy()
        for topic, digest in sorted(self.tables.items()):
            hasher.update(_framed(topic.encode()) + digest.mixed().to_bytes(8))
        return SavedRows(self.position, hasher.hexdigest(), dict(self.topics))

    def _fold(self) -> None:
        if self._hasher is None:
            self._hasher = blake2b(digest_size=DIGEST_BYTES)
        for topic, partition, row in self._pending:
            self._hasher.update(_framed(topic.encode()))
            self._hasher.update(_PARTITION.pack(-1 if partition is None else partition))
            packed = _packed(*row)
            self._hasher.update(_LENGTH.pack(len(packed)) + packed)
        self._pending.clear()
        self._pending_bytes = 0


class Recent:
    """The rows of the last positions that were handed, from earlier runs too."""

    def __init__(self, saved: Iterable[SavedRows]) -> None:
        self._rows: deque[_RowsAt | SavedRows] = deque(saved, maxlen=RECENT_POSITIONS_MAX)
        self._open: _RowsAt | None = None

    def next_position(self) -> None:
        """The rows that follow are another position's."""
        self._open = None

    def rows(self, position: Position) -> _RowsAt:
        """Where rows of ``position``, the newest one, are added."""
        if self._open is None:
            # An input that is not read by row number cannot be asked for positions before the saved one.
            if not _is_row_number(position):
                self._rows.clear()
            self._open = _RowsAt(position)
            self._rows.append(self._open)
        return self._open

    def to_save(self) -> tuple[SavedRows, ...]:
        """Once the newest position is complete."""
        kept: deque[SavedRows] = deque()
        row_count = 0
        for rows in reversed(self._rows):
            row_count += rows.rows
            if kept and row_count > RECENT_ROWS_MAX:
                break
            kept.appendleft(rows.saved() if isinstance(rows, _RowsAt) else rows)
        return tuple(kept)


def _is_row_number(position: Position) -> bool:
    return type(position) is int and position >= 0


def first_row_number(recent: Sequence[SavedRows]) -> int | None:
    """The number of the row from which on an input has to come again to be compared; None: it cannot be."""
    if not recent or not all(_is_row_number(item.position) for item in recent):
        return None
    return int(recent[0].position)


def from_position(recent: Sequence[SavedRows], position: Position) -> Again | None:
    """What is compared when an input begins at ``position``; None when that is none of those fingerprinted."""
    for index, item in enumerate(recent):
        if same_position(item.position, position):
            return Again(recent[index:])
    return None


class Again:
    """The rows up to the saved position, as they are handed once more; none of them goes."""

    def __init__(self, recent: Sequence[SavedRows]) -> None:
        self._due = deque(recent)
        self._last: Position = recent[-1].position
        self._open: _RowsAt | None = None
        self._position: Position = None

    @property
    def is_done(self) -> bool:
        return not self._due

    def at(self, position: Position) -> bool:
        """The caller names the next rows' position; False once it is behind those that are compared."""
        if self.is_done and not same_position(position, self._last):
            return False
        self._position = position
        return True

    def rows_left(self, topic: str) -> int:
        """How many rows for the topic are still to come before new ones."""
        left = sum(item.topics.get(topic, 0) for item in self._due)
        return left - (0 if self._open is None else self._open.topics.get(topic, 0))

    def topic_differs(self, topic: str) -> Differs | None:
        """Asked before anything is done about a topic, which may not be there."""
        if self._due and topic not in self._due[0].topics and self._is_due_here:
            stored = " and ".join(map(repr, self._due[0].topics))
            return Differs(
                f"{self._row} is stored: it went to topic {stored}, and comes for topic {topic!r} now"
            )
        return None

    def add(self, topic: str, partition: int | None, row: RowParts) -> Differs | None:
        """One row."""
        return self._refusal(topic, 1) or self._added(lambda rows: rows.add(topic, partition, row))

    def add_table(self, topic: str, row_count: int, digest: Mixed) -> Differs | None:
        """Rows of a table; ``digest`` as for :meth:`_RowsAt.add_table`."""
        return self._refusal(topic, row_count) or self._added(
            lambda rows: rows.add_table(topic, row_count, digest)
        )

    def table_digest(self, topic: str) -> Mixed | None:
        return None if self._open is None else self._open.tables.get(topic)

    def missing(self) -> Differs | None:
        """Once no more rows come."""
        if self.is_done:
            return None
        return Differs(
            f"{_named(self._due[0].position)} is stored, and did not come again with all that is stored of it"
        )

    @property
    def _row(self) -> str:
        return _named(self._position)

    @property
    def _is_due_here(self) -> bool:
        return same_position(self._position, self._due[0].position)

    def _refusal(self, topic: str, row_count: int) -> Differs | None:
        if self.is_done:
            return Differs(f"{self._row} has more in it than what is stored of it")
        if not self._is_due_here:
            return self.missing()
        if (differs := self.topic_differs(topic)) is not None:
            return differs
        before = 0 if self._open is None else self._open.rows
        if before + row_count > self._due[0].rows:
            return Differs(f"{self._row} has more in it than what is stored of it")
        return None

    def _added(self, add: Callable[[_RowsAt], None]) -> Differs | None:
        if self._open is None:
            self._open = _RowsAt(self._position)
        add(self._open)
        if self._open.rows < self._due[0].rows:
            return None
        came, stored, self._open = self._open.saved(), self._due.popleft(), None
        if (came.digest, came.topics) != (stored.digest, stored.topics):
            return Differs(f"{self._row} is not the one that is stored")
        return None


def _named(position: Position) -> str:
    return f"row {position} (from 0) of the input" if _is_row_number(position) else f"the row at {position!r}"
