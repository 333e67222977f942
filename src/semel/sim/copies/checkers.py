"""The invariants of copies: by what was ever seen at both ends and in the journal, and by how they end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from semel.core.copy.spans import row_count
from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    DataLoss,
    ProducerFenced,
    ReplayUnprovable,
    SemelError,
)
from semel.record.batch import BatchHeader
from semel.record.records import Record
from semel.sim.checkers.checker import Checker
from semel.sim.copies.ledger import SeenLog, TopicLog
from semel.sim.copies.life import CopyLife
from semel.sim.copies.story import CopyStory
from semel.sim.copies.view import CopyView, SeenHeld
from semel.sim.copies.watch import CopyWatcher
from semel.types import ProducerGrant, TopicPartition


@dataclass(slots=True)
class _Cursor:
    """So many rows of an output were held against its source, and they end in front of one of these rows: of the source
    topic of that number, the row of that number. (A request to the topic before may come to the one made anew.)
    """

    done: int = 0
    at: set[tuple[int, int]] = field(default_factory=lambda: {(0, 0)})


@dataclass(slots=True)
class _Look:
    """Rows of a source as of the last look, and as of the last one before ``life`` began, which goes to its end."""

    life: CopyLife | None = None
    due: int = 0
    seen: int = 0


class CopyIsSource(Checker, CopyWatcher):
    """``copy_is_source``: each partition of an output has a prefix of its source's rows, each once, in order,
    unchanged.

    Once a job has come to its end, it has all of them but those that came while the copy ran that went to the end: it
    looks where that is when it begins, and a request that was long under way may come later. Rows that are missing were
    trimmed, or deleted with their topic, before they were copied, and the job was told to begin, or to go on, behind
    them. Where an output is put back from an older copy, what counts is the end: the job has stopped, or all is there.
    Judged at every look, by what was ever seen at both ends; key, value, headers and timestamp.
    """

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
            if log.was_put_back:
                self._cursors.pop(place, None)  # of what it had before, which other rows may have come behind
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


class CopyRowsArePlanned(Checker, CopyWatcher):
    """``copy_rows_are_planned``: whatever a copy has stored was said before, in a record of the journal that counts.

    So whoever takes the job over knows of every row in flight, and by its sequence which row of the source it is.
    Judged at every look, by the journal as it can be read then.
    """

    def __init__(self) -> None:
        self._done: dict[TopicLog, int] = {}

    def copy_looked(self, view: CopyView) -> None:
        for place, log in view.outputs():
            done = min(self._done.get(place, 0), len(log.batches))
            for header in log.batches[done:]:
                if not header.is_control and not _is_planned(view, place, header):
                    raise self.violated(
                        f"{place.tp} has rows at offset {header.base_offset}, under sequences {header.base_sequence} "
                        f"to {header.last_sequence} of {header.producer_id}/{header.producer_epoch}, which nobody said"
                    )
            self._done[place] = len(log.batches)


def _is_planned(view: CopyView, place: TopicLog, header: BatchHeader) -> bool:
    grant = ProducerGrant(header.producer_id, header.producer_epoch)
    return any(
        chunk.sequence <= header.base_sequence
        and header.last_sequence < chunk.sequence + row_count(chunk.spans)
        for chunk in view.journal.planned.get((view.source_of(place.tp), grant), ())
    )


class CopyZombiesShutOut(Checker, CopyWatcher):
    """``copy_zombies_shut_out``: nothing of an older copy is stored behind what a newer one has begun with.

    The journal's order says which is the newer one. What the older one had in flight stands in front of the end that
    the newer one's BEGUN names, or nowhere. Judged at every look, by the offsets of whole batches.
    """

    def copy_looked(self, view: CopyView) -> None:
        if not view.journal.begun:
            return
        begun = view.journal.begun[-1]
        ends = {place.output_partition: place.output_end for place in begun.places}
        for place, log in view.outputs():
            if (
                place.tp not in ends or log.may_be_deleted or log.was_put_back
            ):  # the end may be of another log
                continue
            for header in reversed(log.batches):
                if header.base_offset < ends[place.tp]:
                    break
                by = ProducerGrant(header.producer_id, header.producer_epoch)
                if not header.is_control and self._is_older(view, by, begun.grant):
                    raise self.violated(self._evidence(place, header.base_offset, by, begun.grant))

    def _is_older(self, view: CopyView, by: ProducerGrant, holder: ProducerGrant) -> bool:
        ranks = view.journal.ranks
        return by in ranks and ranks[by] < ranks[holder]

    def _evidence(self, place: TopicLog, offset: int, by: ProducerGrant, holder: ProducerGrant) -> str:
        return f"{place.tp} has rows of {by} at offset {offset}, behind where {holder} began"


class CopyIsNotTakenBack(Checker, CopyWatcher):
    """``copy_is_not_taken_back``: who has held a job takes it back from no newer copy by itself, and so stops.

    Else the two would take turns for ever, and nobody would be told. What came while its run had begun already it may
    not have seen. Judged by the order of the HELDs in the journal, and by when each could be read.
    """

    def __init__(self) -> None:
        self._done: dict[str, int] = {}  # by job

    def copy_looked(self, view: CopyView) -> None:
        held = view.journal.held
        for number in range(self._done.get(view.job.name, 0), len(held)):
            self._judge(view, held[:number], held[number])
        self._done[view.job.name] = len(held)

    def _judge(self, view: CopyView, before: list[SeenHeld], new: SeenHeld) -> None:
        owner = new.entry.owner
        own = [number for number, each in enumerate(before) if each.entry.owner == owner]
        if not own:
            return
        life = next(life for life in view.job.lives if life.name == owner)
        began_ms = life.run_began_ms(new.entry.held_ms)
        for newer in before[own[-1] + 1 :]:
            if newer.seen_ms < began_ms:
                held = (
                    f"{newer.entry.owner} held it from {newer.seen_ms} on, and it began its run at {began_ms}"
                )
                raise self.violated(f"{owner} has taken {view.job.name} back by itself, though {held}")


class CopyStopsAreRight(Checker, CopyWatcher):
    """``copy_stops_are_right``: a copy stops with a named error only where there is reason for it.

    A lost connection passes. ``ProducerFenced`` needs a rival, and ``DataLoss`` rows that were trimmed before they were
    copied, or a source that is another one by now. ``ReplayUnprovable`` needs an output that was trimmed, made anew or
    put back. Nothing else is right: what a copy needs is there. Judged by what was done to the job and its topics
    before.
    """

    def copy_stopped(self, story: CopyStory, life: CopyLife, error: SemelError) -> None:
        match error:
            case ProducerFenced():
                is_right = life.had_rival
            case DataLoss() if error.partition.topic in life.job.outputs:  # its end went while it was read
                is_right = life.job.output_was_changed
            case DataLoss():
                # What one job has copied may be trimmed before a later one has, or before its output is put back.
                may_lack = life.job is not story.jobs[0] or life.job.output_was_changed
                was_trimmed = story.source_was_trimmed and may_lack
                is_right = story.source_was_changed or was_trimmed
            case ReplayUnprovable():
                is_right = life.job.output_was_changed
            case ConfigError():
                is_missing = story.source_was_changed and "there is no topic" in str(error)
                # Of an output that is not as the copy made it; a copy's own takes any.
                is_right = is_missing or (life.job.output_was_changed and "rows' times" in str(error))
            case BrokerError():
                is_right = error.code.retriable or life.job.output_was_changed
            case _:
                is_right = isinstance(error, ConnectionLost)
        if not is_right:
            raise self.violated(f"{life.name} stopped without reason: {type(error).__name__}: {error}")
