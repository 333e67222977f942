"""The invariants of sinks: by what lies in their outputs and in the decision log, and by how their drivers end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from semel.core.sink.epochs import writer_epoch
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import SINKS_TOPIC, Attempt, Begin, Decision, Entry, read_entry
from semel.core.sink.run import Ticket
from semel.errors import (
    BrokerError,
    ConnectionLost,
    DataLoss,
    ErrorCode,
    NonDeterministicReplay,
    ReplayDiffers,
    ReplayUnprovable,
    SemelError,
    SinkFenced,
)
from semel.record.batch import BatchHeader
from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import LogWatcher
from semel.sim.server.reference import PartitionLedger
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.story import ONE_TOO_MANY, SinkStory
from semel.sim.sinks.view import SinkView, StoredRow
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.world.history import History, LoggedBatch
from semel.types import TopicPartition

STOPS_MAX: Final = 5  # of those that have read up to somewhere
_read_entry = lru_cache(4_096)(read_entry)


class SinkLogSaysTheSame(Checker, LogWatcher):
    """``sink_log_says_the_same``: what compaction has left of the decision log says of every sink what all of it says:
    to who reads it from its start, and to who has read it up to a BEGIN while all of that was there.

    Judged as ``newest_of_each_key_survives``.
    """

    def compacted(
        self,
        history: History,
        tp: TopicPartition,
        appended: Sequence[LoggedBatch],
        found: Sequence[LoggedBatch],
    ) -> None:
        if tp.topic != SINKS_TOPIC:
            return
        written, left = list(_entries(appended)), list(_entries(found))
        for sink_id in sorted({entry.sink_id for _, entry in written}):
            of_sink, left_of_sink = (
                [(offset, entry) for offset, entry in entries if entry.sink_id == sink_id]
                for entries in (written, left)
            )
            whole = SinkHistory(sink_id)
            read_to: list[tuple[int, list[tuple[int, Entry]]]] = [
                (0, [])
            ]  # where somebody may have stopped, and what he had read by then
            for place, (offset, entry) in enumerate(of_sink):
                whole.take(entry)
                if isinstance(entry.record, Begin):
                    read_to.append((offset, of_sink[:place]))
            for stopped_at, before in read_to[:1] + read_to[-STOPS_MAX:]:
                reader = SinkHistory(sink_id)
                for _, entry in before:
                    reader.take(entry)
                for offset, entry in left_of_sink:
                    if offset >= stopped_at:
                        reader.take(entry)
                said, says = _said(whole), _said(reader)
                for what in said:
                    if said[what] != says[what]:
                        raise self.violated(
                            f"of sink {sink_id} its {what} is {says[what]} for who read on from {stopped_at}, and all "
                            f"that was written says {said[what]}"
                        )


def _entries(batches: Sequence[LoggedBatch]) -> Iterator[tuple[int, Entry]]:
    for batch in batches:
        for (offset, value), key in zip(batch.placed, batch.keys, strict=True):
            entry = _read_entry(key, value or None, batch.header.producer_id)
            if entry is not None:
                yield offset, entry


def _said(history: SinkHistory) -> dict[str, object]:
    """All that planner, task and commit ask of it. Nobody asks in which order there are CUTs."""
    return {
        "FENCE": history.fence,
        "FENCE of another query": history.other_fence,
        "former identity": history.former_id,
        "BEGIN": history.begin,
        "DECISION": history.decision,
        "writers": history.writers,
        "outputs": history.outputs,
        "outputs' starts": history.starts,
        "twins": {} if history.begin is None else history.twins_of(history.begin.sink_epoch),
        "CUTs": set(history.cuts),
    }


class SinkDecidedIsStored(Checker, SinkWatcher):
    """``sink_decided_is_stored``: what a DECISION says is in the output is there, and no later one takes it back.

    Judged after every recovery too, for a decision must not outlive the rows that it speaks of: by the decided ends of
    the source's partitions.
    """

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            ends: dict[TopicPartition, int] = {}
            for decision in view.decisions:
                for tp, end in view.numbers_decided(decision).items():
                    if end < ends.get(tp, 0):
                        raise self.violated(f"{tp} was decided to {ends[tp]}, and then to {end}: {decision}")
                    ends[tp] = end
            if not view.is_whole:
                continue
            there = {(one.row.source_partition, one.row.number) for one in view.rows if not one.row.is_extra}
            for tp, end in ends.items():
                missing = [
                    number
                    for number in range(end)
                    if (tp.partition, number) not in there and not view.story.may_be_lost(tp, number)
                ]
                if missing:
                    raise self.violated(
                        f"{tp} is decided to {end}, and rows {missing[:5]} are not in the output"
                    )


class SinkRowsOnce(Checker, SinkWatcher):
    """``sink_rows_once``: a sink's output holds each row of its source at most once, at every moment; and all of them
    once its query has finished.

    Judged by the rows' numbers, whatever version of the query gave them; what was trimmed is remembered.

    What a sink had not decided when it was given up for one of another name is a matter of its own.
    """

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            seen: dict[tuple[int, int, bool, str], StoredRow] = {}
            for stored in (*view.rows, *view.rows_left):
                row = stored.row
                name = (row.source_partition, row.number, row.is_extra, stored.left_by)
                first = seen.setdefault(name, stored)
                if first is not stored:
                    raise self.violated(f"{first}, and {stored}")
            if view.story.is_finished and view.is_whole:
                for tp, head in view.story.heads().items():
                    story = view.story
                    end = story.number_of(story.source_topics[-1].topic_id, tp, head)
                    missing = [
                        n
                        for n in range(end)
                        if (tp.partition, n, False, "") not in seen and not story.may_be_lost(tp, n)
                    ]
                    if missing:
                        raise self.violated(
                            f"{tp} was written to its end {head}, and misses rows {missing[:5]}"
                        )


class SinkOrder(Checker, SinkWatcher):
    """``sink_order``: the rows of one writer lie in every output partition in the order of its source partition.

    A writer is known by its producer id. Rows of one key go to one partition, so they are in order too.
    """

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            newest: dict[tuple[TopicPartition, int], StoredRow] = {}
            for stored in view.rows:
                before = newest.get((stored.tp, stored.producer_id))
                if before is not None and before.row.number > stored.row.number:
                    raise self.violated(f"{before}, and behind it {stored}")
                newest[stored.tp, stored.producer_id] = stored


class SinkAttemptsNotMixed(Checker, SinkWatcher):
    """``sink_attempts_not_mixed``: where the attempts of a task give other rows each time, what is decided is the rows
    of one of them, whole.

    Judged by the version that each row carries. A source partition's range is one task's: such a sink is not split.

    Rows too many may be a later micro-batch's, for all that the next run can tell of them: stored before any decision,
    or by a twin that was late for it. None of them is decided, and that micro-batch stops because they are not its own;
    so a sink that comes to its end has none.
    """

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            if not view.story.rows_differ or not view.is_whole:
                continue
            stored = [one.row for one in (view.rows if view.story.is_finished else view.decided_rows)]
            versions = {(row.source_partition, row.number): row.version for row in stored if not row.is_extra}
            extras = {(row.source_partition, row.number) for row in stored if row.is_extra}
            starts: dict[int, int] = {}
            for decision in view.decisions:
                for tp, end in decision.source_ends.items():
                    start = starts.get(tp.partition, 0)
                    if end <= start:
                        continue
                    starts[tp.partition] = end
                    rows = range(start, end)
                    found = {versions.get((tp.partition, number)) for number in rows}
                    if len(found) > 1:
                        raise self.violated(f"rows {start} to {end - 1} of {tp} come from versions {found}")
                    extra = [number for number in rows if (tp.partition, number) in extras]
                    if extra != ([end - 1] if found == {ONE_TOO_MANY} else []):
                        raise self.violated(
                            f"rows {start} to {end - 1} of {tp} are of version {found}, with rows too many at {extra}"
                        )


class SinkZombiesShutOut(Checker, SinkWatcher, LogWatcher):
    """``sink_zombies_shut_out``: once a planner has begun its run, no row of an older run gets into the output.

    What an older driver or attempt still sends would come behind the scan that counted its rows. Judged by the producer
    ids that the run has found in the decision log.
    """

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, int]] = {}  # by producer id: the run, and its writer epoch

    def sink_planned(self, ticket: Ticket) -> None:
        for ids in ticket.writers.values():
            for producer_id in ids.values():
                run = (ticket.sink_epoch, writer_epoch(ticket.sink_epoch))
                self._begun[producer_id] = max(run, self._begun.get(producer_id, run))

    def judged(
        self,
        tp: TopicPartition,
        header: BatchHeader,
        ledger: PartitionLedger,
        verdict: str,
        base_offset: int | None,
    ) -> None:
        begun = self._begun.get(header.producer_id)
        if begun is None or header.is_control or verdict != "Append":
            return
        sink_epoch, epoch = begun
        if header.producer_epoch < epoch:
            raise self.violated(
                f"{header.record_count} rows of writer epoch {header.producer_epoch} by {header.producer_id} came "
                f"into {tp} at {base_offset}, and run {sink_epoch} has begun with epoch {epoch}"
            )


class SinkTwinsShutOut(Checker, LogWatcher, SinkWatcher):
    """``sink_twins_shut_out``: a DECISION speaks of every row that its run stored under a writer whose twin was known.

    A twin says so (ATTEMPT) before its first row. One that has said so when the commit begins is ended before the
    DECISION, and what it had stored is read back; so of that writer's epoch nothing stands in any output, then or
    later, whose sequence the DECISION does not know. A twin that says so only later may still write: that is the next
    run's. Judged by the order of ATTEMPT and of the commit's beginning in the decision log.

    An ATTEMPT may be the winner's own: only an attempt that is not the first one says so, and the first is its twin.
    """

    def __init__(self) -> None:
        self._high_watermark = 0  # of the decision log
        self._begun_at: dict[tuple[str, int, int], int] = {}  # by sink id, sink epoch and batch id

    def watermark(self, tp: TopicPartition, high_watermark: int, log_end_offset: int) -> None:
        if tp.topic == SINKS_TOPIC:
            self._high_watermark = high_watermark

    def sink_commits(self, ticket: Ticket, batch_id: int) -> None:
        self._begun_at[ticket.sink_id, ticket.sink_epoch, batch_id] = self._high_watermark

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            next_sequences = self._decided_with_a_twin(view)
            for stored in (*view.rows, *view.rows_left):
                decided = next_sequences.get((stored.producer_id, stored.producer_epoch))
                if decided is not None and stored.sequence >= decided.get(stored.tp, 0):
                    raise self.violated(
                        f"{stored} has sequence {stored.sequence}; a twin was known, and the decision knows the "
                        f"sequences below {decided.get(stored.tp, 0)}"
                    )

    def _decided_with_a_twin(self, view: SinkView) -> dict[tuple[int, int], dict[TopicPartition, int]]:
        """By producer id and epoch: the outputs' next sequences in a run's decision that had to look for twins."""
        attempted: dict[tuple[str, int, str], int] = {}  # the first ATTEMPT of a run's writer
        found = {}
        for record_offset, record in view.journal:
            match record:
                case Attempt():
                    attempted.setdefault((record.sink_id, record.sink_epoch, record.writer), record_offset)
                case Decision():
                    decided = (record.sink_id, record.sink_epoch, record.batch_id)
                    begun_at = self._begun_at.get(decided, 0)  # 0: no commit has made it
                    for writer, state in record.writers.items():
                        attempt = attempted.get((record.sink_id, record.sink_epoch, writer), begun_at)
                        if attempt < begun_at:
                            found[state.producer_id, writer_epoch(record.sink_epoch)] = {
                                tp: output.next_sequence for tp, output in state.outputs.items()
                            }
        return found


class SinkStopsAreRight(Checker, LogWatcher, SinkWatcher):
    """``sink_stops_are_right``: a sink stops with a named error only where there is reason for it.

    A lost connection passes. ``SinkFenced`` needs a rival. ``ReplayDiffers`` needs a checkpoint that was put back,
    torn, begun anew or taken to other splits, a rival on such a one, or one that is another query. For
    ``NonDeterministicReplay`` there are two reasons: the query's rows differ, or it plans a micro-batch of its own
    again, from an old checkpoint, with fewer rows; where another query has begun, they are a surplus and no error. A
    new query that starts at the decided ends gets over them. ``DataLoss`` needs a source topic that was made anew. So
    may ``ReplayDiffers``, where rows of the older topic stand undecided and the checkpoint is lost, or where a rival on
    the same checkpoint has decided rows of the newer one meanwhile, and ``NonDeterministicReplay``, where attempts read
    it when it went. ``ReplayUnprovable`` needs a trim that took offsets of an output from which on the run had to look
    for undecided rows; a sink of another name gets over it. Everything else is wrong. Judged by what was done to the
    sink before.
    """

    def __init__(self) -> None:
        self._log_starts: dict[TopicPartition, int] = {}
        self._unprovable: list[tuple[SimulatedDriver, SemelError, dict[TopicPartition, int]]] = []

    def log_start(self, tp: TopicPartition, log_start_offset: int) -> None:
        self._log_starts[tp] = log_start_offset

    def sink_stopped(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        plans_again = driver.checkpoint.is_old or (
            driver.had_rival and any(one.checkpoint.is_old for one in story.drivers)
        )
        # A rival of an earlier life may have decided other ranges than this query's checkpoint plans.
        lives = [one for one in story.drivers if one.checkpoint.query_id == driver.checkpoint.query_id]
        query_had_rival = any(one.had_rival for one in lives)
        match error:
            case SinkFenced():
                is_right = driver.had_rival
            case ReplayDiffers():
                was_changed = story.was_tampered or story.was_lost
                is_right = driver.is_tampered or plans_again or (query_had_rival and was_changed)
                is_right |= story.was_made_anew and (was_changed or driver.had_rival)
            case NonDeterministicReplay():
                is_right = (
                    plans_again or story.rows_differ or story.source_topics[-1].made_ms > driver.started_ms
                )
            case DataLoss():
                is_right = story.was_made_anew
            case ReplayUnprovable():
                self._unprovable.append((driver, error, dict(self._log_starts)))
                is_right = True  # or not: what the decision log had for it to read is seen later
            case BrokerError():
                # Rows bear their driver's time, and the server's clock may be too far behind it to take them.
                is_right = error.code.retriable or error.code is ErrorCode.INVALID_TIMESTAMP
            case _:
                is_right = isinstance(error, (ConnectionLost, *driver.SPARKS_OWN))
        if not is_right:
            raise self.violated(f"{driver.name} stopped without reason: {type(error).__name__}: {error}")

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        waiting, self._unprovable = self._unprovable, []
        for driver, error, log_starts in waiting:
            view = next(view for view in views if view.story is driver.story)
            if not view.is_whole:
                self._unprovable.append((driver, error, log_starts))
                continue
            needed = view.needed_by(driver)
            if not any(log_starts.get(tp, 0) > start for tp, start in needed.items()):
                starts = {tp: log_starts.get(tp, 0) for tp in needed}
                raise self.violated(
                    f"{driver.name} stopped with {error}, but needs the outputs from {needed} on, and they begin "
                    f"at {starts}"
                )

    def sink_left(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        if not (story.rows_differ or story.was_recut):
            raise self.violated(f"no new query gets {story.sink_id} over {type(error).__name__}: {error}")
