"""``copy_is_source``: each partition of an output has a prefix of its source's rows, each once, in order, unchanged.

Once a job has come to its end, it has all of them but those that came while the copy ran that went to the end: it looks
where that is when it begins, and a request that was long under way may come later. Rows that are missing were trimmed,
or deleted with their topic, before they were copied, and the job was told to begin, or to go on, behind them. Where an
output is put back from an older copy, what counts is the end: the job has stopped, or all is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from semel.record.records import Record
from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.copies.ledger import SeenLog, TopicLog
    from semel.sim.copies.life import CopyLife
    from semel.sim.copies.view import CopyView


@dataclass(slots=True)
class _Cursor:
    """So many rows of an output were held against its source, and they end in front of one of these rows: of the source
    topic of that number, the row of that number. (A request to the topic before may come to the one made anew.)"""

    done: int = 0
    at: set[tuple[int, int]] = field(default_factory=lambda: {(0, 0)})


@dataclass(slots=True)
class _Look:
    """Rows of a source as of the last look, and as of the last one before ``life`` began, which goes to its end."""

    life: CopyLife | None = None
    due: int = 0
    seen: int = 0


class CopyIsSource(Checker):
    """At every look, by what was ever seen at both ends; key, value, headers and timestamp."""

    name: ClassVar[str] = "copy_is_source"

    def __init__(self) -> None:
        self._cursors: dict[TopicLog, _Cursor] = {}
        self._looks: dict[tuple[str, TopicLog], _Look] = {}

    def copy_looked(self, view: CopyView) -> None:
        last = view.job.life_to_the_end
        for place, log in view.source.logs.items():
            look = self._looks.setdefault((view.job.name, place), _Look())
            if look.life is not last:
                look.life, look.due = last, look.seen
            look.seen = len(log.records)
            if last is None:
                look.due = look.seen
        for place, log in view.outputs():
            if not log.was_put_back:  # who writes there just then hears of it with the answer
                self._follow(view, place, log)

    def copy_ended(self, view: CopyView) -> None:
        if not view.job.is_finished:
            return
        for place, log in view.outputs():
            self._follow(view, place, log)
        for tp in view.sources():
            output = view.output_log(tp)
            cursor = _Cursor() if output is None else self._cursors[output]
            source = _Source(view, tp, is_begun=cursor.done > 0)
            looks = [self._looks.get((view.job.name, place), _Look()) for place in view.places_of(tp)]
            missing = [
                [row for topic, number, row in source.missing_behind(at) if number < looks[topic].due]
                for at in sorted(cursor.at)
            ]
            if all(missing):
                raise self.violated(
                    f"{view.job.name} was written to its end, and misses {len(missing[0])} rows of {tp}, the first is "
                    f"{missing[0][0]}"
                )

    def _follow(self, view: CopyView, place: TopicLog, log: SeenLog) -> None:
        cursor = self._cursors.setdefault(place, _Cursor())
        if len(log.records) < cursor.done:
            cursor = self._cursors[place] = _Cursor()
        for record in log.records[cursor.done :]:
            source = _Source(view, view.source_of(place.tp), is_begun=cursor.done > 0)
            behind = {found for at in cursor.at for found in source.behind(at, record)}
            if not behind:
                expected = [next(source.missing_behind(at), None) for at in sorted(cursor.at)]
                row = expected[0][2] if expected[0] else None
                raise self.violated(f"{place.tp} has {record}, where {row} of the source should come")
            cursor.done, cursor.at = cursor.done + 1, behind


class _Source:
    """The rows that a job has to copy of one partition; ``is_begun``: it has copied some."""

    def __init__(self, view: CopyView, tp: TopicPartition, *, is_begun: bool) -> None:
        self._logs = view.logs_of(tp)
        self._may_pass_over = view.job.goes_on_after_loss or not is_begun

    def behind(self, at: tuple[int, int], record: Record) -> Iterator[tuple[int, int]]:
        """The places behind ``record``, should it come next."""
        for topic, number, row, may_be_gone in self._rows(at):
            if row[1:] == record[1:]:  # all but the offset
                yield topic, number + 1
            if not (may_be_gone and self._may_pass_over):
                return

    def missing_behind(self, at: tuple[int, int]) -> Iterator[tuple[int, int, Record]]:
        """Rows that have to come: of which topic, which one, itself."""
        for topic, number, row, may_be_gone in self._rows(at):
            if not (may_be_gone and self._may_pass_over):
                yield topic, number, row

    def _rows(self, at: tuple[int, int]) -> Iterator[tuple[int, int, Record, bool]]:
        for topic in range(at[0], len(self._logs)):
            log = self._logs[topic]
            for number in range(at[1] if topic == at[0] else 0, len(log.records)):
                row = log.records[number]
                yield topic, number, row, log.may_be_deleted or row.offset < log.may_be_gone_below
            if not log.may_be_deleted:
                return
