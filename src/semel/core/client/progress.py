"""How far a strict producer is: what was handed, what is stored, and when a position is safe to save.

Invariant ``saved_position_is_stored``: a position is offered for saving only when every row handed up to it
is stored. One mark is open at a time; it is complete when all partitions have caught up with it. A position
whose last row could not be handed (``begin`` without ``handed``) is never marked: after a failed or
interrupted send nobody knows whether the caller had more rows for it.

While rows up to the saved position come again to be compared (``is_comparing``), nothing is counted and the
position stays; what rows say is noted (``note``) before they are handed (``hand``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semel.core.client.fate import PartFate, Stored
from semel.core.client.fingerprint import Again, Differs, Mixed, Recent, Row, from_position
from semel.core.client.saved import Position, SavedIdentity, SavedPartition, SavedRows
from semel.sequence import advance, distance
from semel.types import NO_SEQUENCE, ProducerGrant, TopicPartition

ROWS_A_TURN: Final = 512  # rows without a key stay on one partition this long, so that batches fill
_PLACES_MAX: Final = 256  # a partition, from which its rows could be read back


@dataclass(slots=True)
class _Line:
    """One partition's counts."""

    handed: int
    stored: int
    counted: int
    counted_to_offset: int
    resumed_stored: int
    last_sequence: int
    reread: tuple[int, int]  # rows of ours, and the offset that they lie below
    places: list[tuple[int, int]]  # the same, of what was stored since

    def has_stored(self, base_offset: int, record_count: int) -> None:
        """The newest ``record_count`` of what is stored lies there."""
        self.counted, self.counted_to_offset = self.stored, base_offset + record_count
        if len(self.places) >= _PLACES_MAX:
            del self.places[::2]  # what is read back then begins a little earlier
        self.places.append((self.counted, self.counted_to_offset))

    def reread_behind(self, handed: int) -> tuple[int, int]:
        """From where to read, to find all rows but the first ``handed``."""
        while self.places and self.places[0][0] <= handed:
            self.reread = self.places.pop(0)
        return self.reread


def _line_of(item: SavedPartition) -> _Line:
    reread = item.reread_rows, item.reread_offset
    counts = item.handed, item.stored, item.counted, item.counted_to_offset, item.stored, item.last_sequence
    return _Line(*counts, reread, [(item.counted, item.counted_to_offset)])


@dataclass(slots=True)
class _Mark:
    position: Position
    handed: dict[TopicPartition, int]
    recent: tuple[SavedRows, ...]


class Progress:
    """The counts of one identity while it runs; ``saved`` is what its file holds."""

    def __init__(self, saved: SavedIdentity, save_interval_ms: int) -> None:
        self.saved = saved
        self.position: Position = saved.position
        self.rows_dropped = 0
        self.has_position = False  # whether this run's caller named any
        self.has_rows = False  # whether this run's caller handed any
        self._row_is_open = False
        self._grant = ProducerGrant(saved.producer_id, saved.producer_epoch)
        self._interval_ms = save_interval_ms
        self._partition_counts = dict(saved.partition_counts)
        self._topic_ids = dict(saved.topic_ids)
        self._lines = {tp: _line_of(item) for tp, item in saved.partitions.items()}
        self._handed_to_topic = dict.fromkeys(self._partition_counts, 0)
        for tp, line in self._lines.items():
            self._handed_to_topic[tp.topic] += line.handed
        self._mark: _Mark | None = None
        self._marked_ms = 0
        self._recent = Recent(saved.recent)
        self._again: Again | None = None
        self._handed_before = sum(line.handed for line in self._lines.values())

    def has_begun(self, topic: str) -> bool:
        """Whether the topic was noted; it may still have to be counted."""
        return topic in self._partition_counts

    def knows_topic(self, topic: str) -> bool:
        """Whether rows can go to it. What was saved uncounted is counted by whoever resumes from it."""
        noted = [item for tp, item in self.saved.partitions.items() if tp.topic == topic]
        return self.has_begun(topic) and all(item.is_counted for item in noted)

    def partition_count(self, topic: str) -> int:
        """The count that the topic had when this identity first wrote to it: it decides where rows go."""
        return self._partition_counts[topic]

    def note_topic(
        self, topic: str, partitions: Mapping[int, SavedPartition], topic_id: str | None = None
    ) -> SavedIdentity:
        """Where a topic that is new to the identity stands; save the answer before anything else is done with it."""
        self._partition_counts[topic] = len(partitions)
        self._handed_to_topic[topic] = 0
        if topic_id is not None:
            self._topic_ids[topic] = topic_id
        noted = {TopicPartition(topic, number): item for number, item in partitions.items()}
        self._lines |= {tp: _line_of(item) for tp, item in noted.items()}
        self.saved = replace(
            self.saved,
            partition_counts={**self.saved.partition_counts, topic: len(partitions)},
            partitions={**self.saved.partitions, **noted},
            topic_ids=dict(self._topic_ids),
        )
        return self.saved

    def turn(self, topic: str) -> int:
        """The partition for a row without a key: a function of the rows handed to the topic before it."""
        handed = self._handed_to_topic[topic]
        if self._again is not None:
            handed -= self._again.rows_left(topic)
        return handed // ROWS_A_TURN % self._partition_counts[topic]

    def at(self, position: Position, now_ms: int) -> None:
        """The caller begins the row at ``position``: whatever went before belongs to the one before."""
        self.has_position = True
        if self._again is not None:
            if self._again.at(position):
                return
            self._again = None
        if position == self.position:
            return
        if self._mark is None and now_ms - self._marked_ms >= self._interval_ms:
            self.mark(now_ms)
        self.position = position
        self._recent.open = None

    # -- rows up to the saved position that come again ---------------------------------------------------

    def compare_from(self, position: Position, *, by_topic_alone: bool = False) -> None:
        """The input is handed from ``position`` on: as far as that was fingerprinted, it is compared."""
        self._again = from_position(self.saved.recent, position, by_topic_alone=by_topic_alone)

    @property
    def is_comparing(self) -> bool:
        return self._again is not None

    def missing(self) -> Differs | None:
        """Once all rows came: which of those that were to be compared did not."""
        return None if self._again is None else self._again.missing()

    def topic_differs(self, topic: str) -> Differs | None:
        """Whether rows for it cannot be those that are stored; to be asked before the topic is begun."""
        return None if self._again is None else self._again.topic_differs(topic)

    def compare(self, topic: str, partition: int | None, row: Row) -> Differs | None:
        """While comparing: one row, which is not to go. ``partition``: if the caller chose it."""
        assert self._again is not None
        self.has_rows = True
        return self._again.add(topic, partition, row)

    def compare_table(self, topic: str, row_count: int, digest: Mixed) -> Differs | None:
        """The same of a table's rows; ``digest``: behind ``table_digest``."""
        assert self._again is not None
        self.has_rows = True
        return self._again.add_table(topic, row_count, digest)

    def table_digest(self, topic: str) -> Mixed | None:
        """Of the rows of tables that came for the topic at this position; None before the first."""
        if self._again is not None:
            return self._again.table_digest(topic)
        rows = self._recent.open
        return None if rows is None else rows.table_digest(topic)

    # -- new rows ----------------------------------------------------------------------------------------

    def note(self, topic: str, partition: int | None, row: Row) -> None:
        """What a row says that is handed next. ``partition``: if the caller chose it."""
        (self._recent.open or self._recent.begin(self.position)).add(topic, partition, row)

    def note_table(self, topic: str, row_count: int, digest: Mixed) -> None:
        """The same of a table's rows; ``digest``: behind ``table_digest``."""
        (self._recent.open or self._recent.begin(self.position)).add_table(topic, row_count, digest)

    def begin(self) -> None:
        """The caller tries to hand a row or a table; :meth:`handed` says that all of it was."""
        self._row_is_open = True

    def mark(self, now_ms: int) -> None:
        """Remember where we are, to save it once all of it is stored."""
        if self._row_is_open:
            return
        self._mark = _Mark(
            self.position, {tp: line.handed for tp, line in self._lines.items()}, self._recent.to_save()
        )
        self._marked_ms = now_ms

    def hand(self, tp: TopicPartition) -> bool:
        """Count one row; False if the log holds it already, so that it must be dropped."""
        self.has_rows = True
        line = self._lines[tp]
        line.handed += 1
        self._handed_to_topic[tp.topic] += 1
        if line.handed <= line.resumed_stored:
            self.rows_dropped += 1
            return False
        return True

    @property
    def rows_missing(self) -> int:
        """Rows behind the saved position that an earlier run stored and this one was not handed yet."""
        return sum(max(0, line.resumed_stored - line.handed) for line in self._lines.values())

    @property
    def topics_missing(self) -> set[str]:
        """The topics of ``rows_missing``."""
        return {tp.topic for tp, line in self._lines.items() if line.resumed_stored > line.handed}

    @property
    def rows_to_drop(self) -> int:
        """Rows behind the saved position that are known to be stored by earlier runs; dropped ones too."""
        return self.rows_missing + self.rows_dropped

    @property
    def new_rows(self) -> int:
        """Rows that this run was handed and did not drop."""
        return sum(line.handed for line in self._lines.values()) - self._handed_before - self.rows_dropped

    def handed_to_topic(self, topic: str) -> int:
        return self._handed_to_topic[topic]

    def hand_many(self, tp: TopicPartition, row_count: int) -> int:
        """Count rows; how many of them, from the first on, the log holds already."""
        self.has_rows = True
        line = self._lines[tp]
        dropped = min(row_count, max(0, line.resumed_stored - line.handed))
        line.handed += row_count
        self._handed_to_topic[tp.topic] += row_count
        self.rows_dropped += dropped
        return dropped

    def handed(self) -> None:
        """The caller's row, or the whole of its table, is in the buffer or was dropped as stored."""
        self._row_is_open = False

    def stored(self, tp: TopicPartition, fate: PartFate, record_count: int) -> None:
        """A batch is stored, and with it every row before it: the log takes sequences in order only.

        Its answer may overtake theirs, when they went out on a connection that broke. Fates that are not
        Stored change nothing.
        """
        if not isinstance(fate, Stored):
            return
        line = self._lines[tp]
        last_sequence = advance(fate.base_sequence, record_count - 1)
        first = line.last_sequence == NO_SEQUENCE
        rows_more = last_sequence + 1 if first else distance(last_sequence, line.last_sequence)
        if rows_more <= 0:
            return
        line.stored += rows_more
        line.last_sequence = last_sequence
        if fate.base_offset is not None:
            line.has_stored(fate.base_offset, record_count)

    def to_save(self) -> SavedIdentity | None:
        """The identity at the open mark, if everything up to it is stored; closes the mark."""
        mark = self._mark
        if mark is None or any(self._lines[tp].stored < handed for tp, handed in mark.handed.items()):
            return None
        self._mark = None
        self.saved = SavedIdentity(
            self.saved.name,
            self._grant.producer_id,
            self._grant.producer_epoch,
            mark.position,
            dict(self._partition_counts),
            {
                tp: SavedPartition(
                    mark.handed.get(tp, 0),
                    line.stored,
                    line.counted,
                    line.counted_to_offset,
                    line.last_sequence,
                    *line.reread_behind(mark.handed.get(tp, 0)),
                )
                for tp, line in self._lines.items()
            },
            dict(self._topic_ids),
            mark.recent,
            self._ids_behind(mark),
        )
        return self.saved

    def _ids_behind(self, mark: _Mark) -> Sequence[int]:
        """The producer ids of old under which rows behind the mark may be stored."""
        is_caught_up = all(line.resumed_stored <= mark.handed.get(tp, 0) for tp, line in self._lines.items())
        return () if is_caught_up else self.saved.earlier_ids
