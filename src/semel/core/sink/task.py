"""One task of a micro-batch: may it write, as whom, and which of its rows stand in the log already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.core.sink.committed_state import CommittedState, judge_split, judge_start
from semel.core.sink.digest import NO_ROWS, Column, Digest
from semel.core.sink.epochs import generation_of
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Cut, OutputTopic
from semel.core.sink.ranges import SourceRange, Verdict, ids_agree, judge_range, writers_of
from semel.core.sink.refusal import (
    BATCH_WRITER_PREFIX,
    NAMED_PREFIX,
    Reason,
    Refusal,
    anew,
    from_the_decided_ends,
    is_stage,
    replay_differs,
    subject,
)
from semel.core.sink.run import OUTPUT_TOPICS_MAX, Ticket
from semel.types import TopicPartition

_FOREACH_BATCH: Final = (
    'use foreachBatch, and in it batch.write.format("semel") with the options txnAppId, a name of your choice, and '
    "txnVersion, the batch_id: that is exactly once too"
)


@dataclass(frozen=True, slots=True)
class OutputReport:
    """What one attempt did in one output partition; the digest covers the rows that were there before too."""

    digest: Digest
    next_sequence: int
    end_offset: int  # after the last row; the scan's start when there is none
    surplus_from: int | None = None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task's commit message, without Spark's wrapping."""

    writer: str
    source_range: SourceRange | None  # None: a batch write
    producer_id: int
    row_count: int
    outputs: Mapping[TopicPartition, OutputReport] = field(default_factory=dict)
    skipped: bool = False
    task_attempt_id: int = -1
    row_hash: int = 0  # of a named write's rows, whatever their order
    own_number_count: int = 0  # rows that are not counted where the writer's rows are numbered
    state: CommittedState | None = None  # once the range is written; None: the sink keeps none


@dataclass(frozen=True, slots=True)
class Attempted:
    """A task's report, and whether another attempt of it may have written too."""

    report: TaskReport
    twin_possible: bool
    failure: Exception | None = (
        None  # why the range ends earlier than planned; to be raised once that is decided
    )


def the_one_range(notes: list[SourceRange], *, others_read: bool = False) -> SourceRange | Refusal:
    """A sink cannot see the plan, so it counts the range notes of its own task: exactly one, or no write.

    After a repartition there is none, after coalesce(1) of three source partitions there are three. ``others_read``:
    other tasks of the micro-batch were seen to read ranges.
    """
    if len(notes) == 1:
        return notes[0]
    if notes:
        why, way_out = (
            f"reads {len(notes)}: there is a coalesce before the sink",
            f"Leave it out, or {_FOREACH_BATCH}",
        )
    elif others_read:
        why = "reads none, while others do: there is a shuffle (repartition, groupBy, join) before the sink"
        way_out = f"To write such a plan, {_FOREACH_BATCH}"
    else:
        why = "reads none: its source is no topic, or there is a shuffle (repartition, groupBy, join) before the sink"
        way_out = (
            f"To write such a plan, {_FOREACH_BATCH}. Or bring the rows into a topic first, and read that"
        )
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"a streaming sink needs every task to read exactly one range of a semel source, and this one {why}. {way_out}",
    )


def keeps_state(where: str) -> Refusal:
    """Spark's own state lies in the checkpoint alone. With it lost, a query that goes on from the log would count
    from nothing, and nobody would see it."""
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"this plan keeps state (an aggregation, dropDuplicates, a limit, a join of streams, a function with state): "
        f"Spark has it in {where} alone, and a streaming sink goes on where the log says, which knows nothing of it. "
        f"To write such a plan, {_FOREACH_BATCH}. Or make it a flow, whose state is in the log",
    )


def whole_result() -> Refusal:
    """Output mode complete: each micro-batch brings all rows of the result again."""
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        "output mode complete hands the whole result to the sink with each micro-batch, and a log can only be appended "
        f"to. To write such a plan, {_FOREACH_BATCH}. Or make it a flow, whose state is in the log",
    )


def may_write(ticket: Ticket, source_range: SourceRange, query_id: str) -> Verdict | Refusal:
    """Before the first row: skip, write, or differ."""
    verdict = judge_range(
        source_range,
        query_id,
        ticket.source_ends.get(source_range.source),
        ticket.decided_query_id,
        ticket.source_ids.get(source_range.source.topic),
    )
    way_out = from_the_decided_ends(ticket.sink_id)
    if isinstance(verdict, Refusal):
        return replay_differs(verdict.evidence, way_out)
    if verdict is not Verdict.WRITE:
        return verdict
    refusal = judge_split(ticket.sink_id, ticket.state_plan, source_range) or judge_start(
        ticket.sink_id, ticket.state_plan, ticket.states, ticket.rows_total, source_range
    )
    if refusal is not None:
        return refusal
    idle_ids = dict(source_range.idle_topic_ids)
    for source, end in source_range.idle_ends:
        decided = ticket.source_ends.get(source)
        is_same = ids_agree(idle_ids.get(source.topic), ticket.source_ids.get(source.topic))
        if decided is not None and (end != decided or not is_same):
            return replay_differs(
                f"the planned micro-batch leaves {source} at {end}, and the log has decided up to {decided}"
                + ("" if is_same else f" of another topic of that name ({ticket.source_ids[source.topic]})"),
                way_out,
            )
    rule = f"of{source_range.split_count}"
    for writer, _ in ticket.have:
        if source_range.gives_up(writer) or not writer.startswith(writers_of(source_range.source)):
            continue
        if not source_range.is_sibling(writer):
            return replay_differs(
                f"rows stand in the log undecided that {writer} wrote, which read another topic of the name "
                f"{source_range.source.topic!r}",
                way_out,
            )
        if not writer.endswith(rule):
            return replay_differs(
                f"the range of {source_range.source} is split in {source_range.split_count}, and rows of "
                f"it stand in the log under another split ({writer})",
                _cut_as_before(ticket.sink_id),
            )
    if source_range.is_gone:
        return verdict
    for cut in ticket.cuts:
        is_first = cut.source == source_range.source not in ticket.source_ends
        if is_first and cut.batch_from != source_range.batch_from:
            return replay_differs(
                f"the planned range of {source_range.source} begins at {source_range.batch_from}, and rows of "
                f"it stand in the log undecided, of a range that began at {cut.batch_from}",
                f"Let the query begin there, as it did: it is the only start of {cut.source} that neither doubles nor "
                f"loses rows",
            )
    mine = (source_range.batch_from, source_range.batch_end, source_range.split_count)
    for cut in ticket.cuts:
        if cut.split_count == 1:  # its rows begin where the range does, wherever that ends
            continue
        if not ids_agree(cut.topic_id, source_range.topic_id):  # of rows that were given up
            continue
        if cut.source == source_range.source and (cut.batch_from, cut.batch_end, cut.split_count) != mine:
            return replay_differs(
                f"offsets {cut.batch_from} to {cut.batch_end} (exclusive) of {cut.source} were written in "
                f"{cut.split_count} splits and are not decided, and the planned range is {source_range.batch_from} "
                f"to {source_range.batch_end} (exclusive) in {source_range.split_count}: its splits begin elsewhere",
                _cut_as_before(ticket.sink_id),
            )
    return verdict


def _cut_as_before(sink_id: str) -> str:
    return (
        "Run that range again as it was cut: from the checkpoint that it was planned in, with minPartitions and "
        f"maxRecordsPerPartition as they were. If the checkpoint is lost, the exact way is {anew(sink_id)}"
    )


def cut_of(ticket: Ticket, source_range: SourceRange | None, query_id: str) -> Cut | None:
    """What the decision log has to know before the first row of a range.

    Where it is written in several splits; where it is the first of its source partition, so that no decided end says
    where it has to begin; and where it is another query's than the one that decided last, which may come back and has
    to tell that query's rows from its own.
    """
    if source_range is None:
        return None
    is_first = source_range.source not in ticket.source_ends
    if source_range.split_count == 1 and not is_first and query_id == ticket.decided_query_id:
        return None
    return Cut(
        ticket.sink_id,
        ticket.sink_epoch,
        source_range.source,
        source_range.batch_from,
        source_range.batch_end,
        source_range.split_count,
        source_range.topic_id,
    )


def surplus_allowed(
    ticket: Ticket,
    source_range: SourceRange,
    output: TopicPartition,
    query_id: str,
    surplus_below: int | None = None,
) -> bool:
    """Whether more rows may be stored than this micro-batch has: they belong to later ones then.

    Another query (its checkpoint was lost) cuts its micro-batches elsewhere; what it left stays a surplus. Also for
    the query that decided last, should that go on: the other one has left the CUT of its larger range. Of a source
    partition's first range there is a CUT whoever wrote it.

    ``surplus_below`` is where the source ended when the sink was fenced, if that is known. All undecided rows are of
    offsets below it, so a range that goes up to there leaves none to a later one: they are other rows.
    """
    if surplus_below is not None and source_range.batch_end >= surplus_below:
        return False
    is_first = source_range.source not in ticket.source_ends
    if (source_range.writer, output) in ticket.surplus_from:
        return True
    if not is_first and query_id != ticket.decided_query_id:
        return True
    return any(
        (cut.source, cut.batch_from) == (source_range.source, source_range.batch_from)
        and cut.batch_end > source_range.batch_end
        and ids_agree(cut.topic_id, source_range.topic_id)
        for cut in ticket.cuts
    )


def claimed(history: SinkHistory, sink_epoch: int, writer: str) -> int | Refusal:
    """After this task's WRITER was read back: whose producer id every attempt of ``writer`` uses."""
    refusal = history.fenced_by_other(sink_epoch)
    if refusal is None and writer not in history.writers:
        refusal = late(history, sink_epoch)
    return refusal or history.writers[writer][generation_of(sink_epoch)]


def may_claim_output(history: SinkHistory, topic: str) -> Refusal | None:
    """Whether the sink may write to one topic more; each is fenced and scanned at every new run."""
    if len(history.outputs) < OUTPUT_TOPICS_MAX:
        return None
    return Refusal(
        Reason.PLAN_NOT_SUPPORTED,
        f"sink {history.sink_id!r} has written to {OUTPUT_TOPICS_MAX} topics, and {topic!r} would be one more. No sink "
        f"writes to more: let the rows name fewer topics",
    )


def claimed_output(history: SinkHistory, sink_epoch: int, topic: str) -> OutputTopic | Refusal:
    """After this task's OUTPUT was read back: the topic as every task of the run sees it."""
    return history.fenced_by_other(sink_epoch) or history.outputs[topic]


def late(history: SinkHistory, sink_epoch: int) -> Refusal | None:
    """For a second attempt, with the records since its ticket: was its micro-batch decided without it?"""
    fenced = history.fenced_by_other(sink_epoch)
    if fenced is None and history.decision is not None:
        return Refusal(
            Reason.SINK_FENCED,
            f"micro-batch {history.decision.batch_id} of sink {history.sink_id!r} was decided while this "
            f"attempt waited: it has nothing left to write",
        )
    return fenced


@dataclass(slots=True)
class PrefixCheck:
    """Compares a writer's first rows in each output partition with what the scan found there.

    All prefixes have to match before the first new row goes, so the caller spools until :attr:`settled`.
    """

    writer: str
    expected: dict[TopicPartition, Digest]
    seen: dict[TopicPartition, Digest] = field(default_factory=dict)
    sink_id: str = ""

    @classmethod
    def of(cls, ticket: Ticket, writer: str) -> PrefixCheck:
        """The check for ``writer`` over the rows that the run's scan found."""
        expected = {tp: stored.digest for (name, tp), stored in ticket.have.items() if name == writer}
        return cls(writer, expected, sink_id=ticket.sink_id)

    @property
    def settled(self) -> bool:
        """Every stored row has been met again."""
        return all(self.seen.get(tp, NO_ROWS).count == digest.count for tp, digest in self.expected.items())

    @property
    def unmet(self) -> dict[TopicPartition, Digest]:
        """Where fewer rows came than are stored, with what came."""
        return {
            tp: self.seen.get(tp, NO_ROWS)
            for tp, digest in self.expected.items()
            if self.seen.get(tp, NO_ROWS).count < digest.count
        }

    def feed(
        self, tp: TopicPartition, keys: Column | None, values: Column, headers: Column | None
    ) -> int | Refusal:
        """How many of these rows are stored already (the first so many), or that they are others."""
        expected, seen = self.expected.get(tp, NO_ROWS), self.seen.get(tp, NO_ROWS)
        stored = min(expected.count - seen.count, len(values))
        if stored <= 0:
            return 0
        seen = seen.over(
            None if keys is None else keys[:stored],
            values[:stored],
            None if headers is None else headers[:stored],
        )
        self.seen[tp] = seen
        if seen.count == expected.count and seen != expected:
            return other_rows(self.writer, tp, expected.count, self.sink_id)
        return stored


def other_rows(writer: str, tp: TopicPartition, rows: int, sink_id: str = "") -> Refusal:
    """The same range gave other rows than before."""
    return Refusal(
        Reason.NON_DETERMINISTIC_REPLAY,
        f"the first {rows} rows of {writer} in {tp} are not those that an earlier attempt stored. "
        f"{_as_it_was(writer, sink_id)}",
    )


def not_stored(writer: str, tp: TopicPartition, base_offset: int, begun_at: int) -> Refusal:
    """The log answered "stored", and named a place that this micro-batch cannot have."""
    return Refusal(
        Reason.REPLAY_UNPROVABLE,
        f"rows of {writer} were answered as stored at offset {base_offset} of {tp}, and those of this micro-batch "
        f"begin at {begun_at}: they are not stored. The topic was made anew or has lost its end, or the log took their "
        f"sequences for older rows'. Start the query again",
    )


def writer_forgotten(writer: str, tp: TopicPartition) -> Refusal:
    """The log knows nothing of a producer that has written there in this run."""
    return Refusal(
        Reason.REPLAY_UNPROVABLE,
        f"{tp} knows nothing of {writer} any more, and these rows of it are not stored: the topic was made anew, or "
        f"the run has rested for longer than producer.id.expiration.ms. Start the query again",
    )


def fewer_rows(writer: str, tp: TopicPartition, came: int, stored: int, sink_id: str = "") -> Refusal:
    """The same range gave fewer rows than before."""
    return Refusal(
        Reason.NON_DETERMINISTIC_REPLAY,
        f"{writer} gave {came} rows for {tp}, and an earlier attempt stored {stored} there. "
        f"{_as_it_was(writer, sink_id)}",
    )


def _as_it_was(writer: str, sink_id: str) -> str:
    if is_stage(sink_id):
        return (
            f"This is {subject(sink_id)}. What stands there stays there, undecided: run the flow as it was until these "
            "rows are decided, and change it then. If a step gives other rows, or another order, each time (a random "
            f"number, the time, the order of a set, a lookup), mend that; the exact way is then {anew(sink_id)}"
        )
    is_batch = writer.startswith(BATCH_WRITER_PREFIX)
    if is_batch and "~" not in writer:
        return (
            "The rows come in another order each time: order them. What stands there stays there, and this write has "
            "no name: a job that is run again writes it a second time. With txnAppId and txnVersion it would not"
        )
    return (
        "What stands there stays there, undecided: run the plan as it was until these rows are decided, and change it "
        "then. If it gives other rows, or another order, each time (a shuffle, rand, uuid, a lookup), mend that; the "
        f"exact way is then {anew(NAMED_PREFIX if is_batch else '')}"
    )
