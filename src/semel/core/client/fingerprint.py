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
_PENDING_VALUE_BYTES_MAX: Final = 64 * 1024
_LENGTH: Final = struct.Struct("<i")
_TWO: Final = struct.Struct("<ii")

Headers = Sequence[tuple[str, bytes | None]]


class Row(Protocol):
    """What is looked at of a row."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class Mixed(Protocol):
    """A digest of a table's rows (``core.sink.digest``): of the rows in their order, however they were cut."""

    def mixed(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Differs:
    """Rows that come again are not those that are stored; the text says which."""

    why: str
    may_be_remade: bool = False  # the same rows, made anew with other contents, would differ so too


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

    # Of the class as long as there are none: one of these is made for nearly every row.
    _hasher: Any = None
    _topics: dict[str, int] | None = None
    _tables: dict[str, Mixed] | None = None

    def __init__(self, position: Position) -> None:
        self.position = position
        self._pending: list[tuple[str, int | None, Row]] = []

    def add(self, topic: str, partition: int | None, row: Row) -> None:
        pending = self._pending
        pending.append((topic, partition, row))
        if (
            len(pending) >= _PENDING_ROWS_MAX
            or row.headers
            or len(row.value or b"") > _PENDING_VALUE_BYTES_MAX
        ):
            self._fold()

    def add_table(self, topic: str, row_count: int, digest: Mixed) -> None:
        """``digest``: of all the rows of tables that went to the topic at this position."""
        topics = self.topics
        topics[topic] = topics.get(topic, 0) + row_count
        self._tables = {**(self._tables or {}), topic: digest}

    def table_digest(self, topic: str) -> Mixed | None:
        return None if self._tables is None else self._tables.get(topic)

    @property
    def topics(self) -> dict[str, int]:
        """How many rows for each."""
        self._fold()
        if self._topics is None:
            self._topics = {}
        return self._topics

    @property
    def rows(self) -> int:
        return sum(self.topics.values())

    def saved(self) -> SavedRows:
        topics = dict(self.topics)
        hasher = blake2b(digest_size=DIGEST_BYTES) if self._hasher is None else self._hasher.copy()
        for topic, digest in sorted((self._tables or {}).items()):
            hasher.update(_framed(topic.encode()) + digest.mixed().to_bytes(8))
        return SavedRows(self.position, hasher.hexdigest(), topics)

    def _fold(self) -> None:
        if not self._pending:
            return
        if self._hasher is None:
            self._hasher = blake2b(digest_size=DIGEST_BYTES)
        if self._topics is None:
            self._topics = {}
        for topic, partition, row in self._pending:
            self._topics[topic] = self._topics.get(topic, 0) + 1
            packed = _packed(row.key, row.value, row.headers)
            self._hasher.update(_framed(topic.encode()))
            self._hasher.update(_TWO.pack(-1 if partition is None else partition, len(packed)) + packed)
        self._pending.clear()


class Recent:
    """The rows of the last positions that were handed, from earlier runs too."""

    def __init__(self, saved: Iterable[SavedRows]) -> None:
        self._rows: deque[_RowsAt | SavedRows] = deque(saved, maxlen=RECENT_POSITIONS_MAX)
        self.open: _RowsAt | None = None  # the newest position's; None before its first row

    def begin(self, position: Position) -> _RowsAt:
        """The first row of ``position``, the newest one, comes."""
        self.open = rows = _RowsAt(position)
        self._rows.append(rows)
        return rows

    def to_save(self) -> tuple[SavedRows, ...]:
        """Once the newest position is complete."""
        kept: deque[SavedRows] = deque()
        row_count = 0
        for rows in reversed(self._rows):
            row_count += rows.rows
            if kept and row_count > RECENT_ROWS_MAX:
                break
            # An input that is not read by row number cannot be asked for positions before the saved one.
            if kept and not (_is_row_number(rows.position) and _is_row_number(kept[0].position)):
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


def from_position(
    recent: Sequence[SavedRows], position: Position, *, by_topic_alone: bool = False
) -> Again | None:
    """What is compared when an input begins at ``position``; None when that is none of those fingerprinted."""
    for index, item in enumerate(recent):
        if same_position(item.position, position):
            return Again(recent[index:], by_topic_alone=by_topic_alone)
    return None


class Again:
    """The rows up to the saved position, as they are handed once more; none of them goes.

    ``by_topic_alone``: what they say, and how many there are at a position, is the caller's word.
    """

    def __init__(self, recent: Sequence[SavedRows], *, by_topic_alone: bool = False) -> None:
        self._by_topic_alone = by_topic_alone
        self._due = deque(recent)
        self._last: Position = recent[-1].position
        self._open: _RowsAt | None = None
        self._position: Position = None

    @property
    def is_done(self) -> bool:
        return not self._due

    def at(self, position: Position) -> bool:
        """The caller names the next rows' position; False once it is behind those that are compared."""
        if self._by_topic_alone:
            while self._due and not same_position(position, self._due[0].position):
                self._due.popleft()
            self._position = position
            return bool(self._due)
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

    def add(self, topic: str, partition: int | None, row: Row) -> Differs | None:
        """One row."""
        if self._by_topic_alone:
            return self.topic_differs(topic)
        return self._refusal(topic, 1) or self._added(lambda rows: rows.add(topic, partition, row))

    def add_table(self, topic: str, row_count: int, digest: Mixed) -> Differs | None:
        """Rows of a table; ``digest`` as for :meth:`_RowsAt.add_table`."""
        if self._by_topic_alone:
            return self.topic_differs(topic)
        return self._refusal(topic, row_count) or self._added(
            lambda rows: rows.add_table(topic, row_count, digest)
        )

    def table_digest(self, topic: str) -> Mixed | None:
        return None if self._open is None else self._open.table_digest(topic)

    def missing(self) -> Differs | None:
        """Once no more rows come."""
        if self.is_done or self._by_topic_alone:
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
            return Differs(f"{self._row} is not the one that is stored", may_be_remade=True)
        return None


def _named(position: Position) -> str:
    return f"row {position} (from 0) of the input" if _is_row_number(position) else f"the row at {position!r}"
