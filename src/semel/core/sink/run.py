"""A run: what the planner settles before a row is written, and ships to every task.

The order is the protocol: raise the sink's epoch, FENCE, read, fence the writers, scan, BEGIN. Each function
below is one of the decisions between two of these steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from semel.core.sink.committed_state import (
    CommittedState,
    other_plan,
    other_state_plan,
    plan_too_long,
    state_of,
)
from semel.core.sink.epochs import RETIRED_WRITER_EPOCH, closing_epoch, generation_of, writer_epoch
from semel.core.sink.history import SinkHistory, WriterIds
from semel.core.sink.journal import Begin, Cut, Decision, Fence, OutputTopic, Stored, WriterState
from semel.core.sink.litter import SWEPT_MAX
from semel.core.sink.ranges import SourceRange
from semel.core.sink.refusal import Reason, Refusal, anew, is_stage, other_routing, subject, unprovable
from semel.core.sink.routing import Routing
from semel.sequence import advance
from semel.types import NO_PRODUCER_ID, ProducerDescription, TopicPartition

RUN_MS_MAX: Final = (
    3_600_000  # far below a day, after which a log forgets who has written nothing (see next_in_run)
)
CARRIED_BYTES_MAX: Final = 4 * 2**20  # of a DECISION that is to be written a second time, in BEGIN
OUTPUT_TOPICS_MAX: Final = 1000  # of one sink, ever: each is fenced and scanned whenever a run begins


@dataclass(frozen=True, slots=True)
class Ticket:
    """All that a task and the commit need to know of the run, as of this micro-batch."""

    sink_id: str
    producer_id: int  # the sink's own identity
    sink_epoch: int
    journal_sequence: int  # of the driver's next record
    journal_end_offset: int  # what the planner has read up to
    outputs: Mapping[str, OutputTopic]
    starts: Mapping[TopicPartition, int]  # of the outputs, as SinkHistory has them
    writers: Mapping[str, WriterIds]
    scanned_from: Mapping[TopicPartition, int]  # rows of this micro-batch stand at or after these
    have: Mapping[tuple[str, TopicPartition], Stored] = field(default_factory=dict)
    next_sequences: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    rows_total: Mapping[str, int] = field(default_factory=dict)
    surplus_from: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    source_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    decided_query_id: str | None = None
    cuts: Sequence[Cut] = ()  # of undecided rows
    fence: Fence | None = None  # of this run
    journal_partition: int | None = None  # where the sink is in the decision log
    is_journal_compacted: bool = False
    source_ids: Mapping[str, str] = field(default_factory=dict)  # by topic, of ``source_ends``
    routing: Routing | None = None  # of the run
    planned_ms: int = 0  # by the planner's wall clock
    plan: str = ""  # of the run
    state_plan: str = ""  # likewise; empty: no task keeps state
    states: Mapping[str, CommittedState] = field(default_factory=dict)  # as of ``source_ends``, by writer

    def scan_from(self, writer: str, output: TopicPartition) -> int:
        """Where undecided rows of ``writer`` may begin in ``output``."""
        start = self.scanned_from.get(output, self.starts.get(output, 0))
        return self.surplus_from.get((writer, output), start)

    def known_id(self, writer: str) -> int | None:
        """The producer id that every attempt of ``writer`` uses, if one was claimed in this generation."""
        return self.writers.get(writer, {}).get(generation_of(self.sink_epoch))

    def state_of(self, source_range: SourceRange) -> CommittedState | None:
        """The decided state that the task of ``source_range`` starts from; ``None``: from none."""
        return state_of(self.states, source_range)

    def without_states(self) -> Ticket:
        """For the way back from a task: whoever decides reads them in the log, and there is a ticket a task."""
        return replace(self, states={})

    def history(self) -> SinkHistory:
        """What the planner knew, to read on from: a task's records come after it."""
        return SinkHistory(
            self.sink_id,
            self.journal_end_offset,
            self.fence,
            writers={name: dict(ids) for name, ids in self.writers.items()},
            outputs=dict(self.outputs),
            starts=dict(self.starts),
        )


def goes_on(history: SinkHistory, sink_epoch: int, planned: bool, query: str = "") -> bool | Refusal:
    """Whether this driver's run goes on with its next micro-batch; ``False``: begin a new run.

    ``planned`` says that the run's last micro-batch has been decided, or that none was planned in it. A new
    run is always safe between micro-batches, so every doubt ends in one; also when it was another planner
    process of the same ``query`` that took over, because Spark pools them.
    """
    fenced = history.fenced_by_other(sink_epoch)
    if fenced is not None:
        assert history.fence is not None
        return False if query and history.fence.query == query else fenced
    begun = history.begin is not None and history.begin.sink_epoch == sink_epoch
    if not begun or not planned or history.twins_of(sink_epoch):
        return False
    decision = history.decision
    if decision is None or decision.sink_epoch != sink_epoch:
        return True  # BEGIN is in and nothing was written: only skipped micro-batches so far
    surplus = any(
        output.surplus_from is not None
        for state in decision.writers.values()
        for output in state.outputs.values()
    )
    return not decision.closed and not surplus


@dataclass(frozen=True, slots=True)
class Planned:
    """What a planner process keeps of its run: the last micro-batch's ticket, and the decision before that."""

    ticket: Ticket
    decided_before: Decision | None
    begun_ms: int = 0  # the run, by a clock that never goes back


def next_in_run(
    held: Planned, history: SinkHistory, query: str = "", elapsed_ms: int = 0
) -> Ticket | Refusal | None:
    """The ticket of the run's next micro-batch; ``None``: begin a new run. ``elapsed_ms`` is ``begun_ms``'s clock now.

    A run does not grow old: its sequences go on from what a log remembers of its producers, and a writer whose source
    rests, or the sink's own identity, is forgotten after ``producer.id.expiration.ms``. A new run begins them at 0.
    """
    decided = history.decision is not None and history.decision != held.decided_before
    on = goes_on(history, held.ticket.sink_epoch, decided, query)
    if isinstance(on, Refusal):
        return on
    if elapsed_ms - held.begun_ms > RUN_MS_MAX:
        return None
    return next_ticket(held.ticket, history, held.ticket.journal_sequence + 1) if on else None


def fences(
    history: SinkHistory, sink_epoch: int, outputs: list[TopicPartition]
) -> dict[tuple[int, int], list[TopicPartition]]:
    """Every known writer in every output partition, to exactly the run's writer epoch.

    Those of the generations before the last BEGIN's were raised to the highest epoch there is before that BEGIN was
    appended, so only the last one of them is again, lest the fences of a sink that rests often grow without end.
    """
    generation = generation_of(sink_epoch)
    begun = 0 if history.begin is None else generation_of(history.begin.sink_epoch)
    return {
        (producer_id, writer_epoch(sink_epoch) if of == generation else RETIRED_WRITER_EPOCH): outputs
        for ids in history.writers.values()
        for of, producer_id in ids.items()
        if of >= begun - 1
    }


def former_identity(
    history: SinkHistory, journal: TopicPartition
) -> dict[tuple[int, int], list[TopicPartition]]:
    """The identity that the sink had before its present one, to the highest epoch there is in the decision log.

    So that the log refuses its drivers by itself, as long as it knows that identity; by the FENCEs' order none of
    their records counts in any case.
    """
    if history.former_id == NO_PRODUCER_ID:
        return {}
    return {(history.former_id, RETIRED_WRITER_EPOCH): [journal]}


def output_topics(history: SinkHistory, option: str | None) -> list[str]:
    """Every topic that may hold rows of this sink, and the one that the option names."""
    return sorted({*history.outputs, *([] if option is None else [option])})


def scan_starts(
    history: SinkHistory, log_end_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """From the last decision's ends, or the BEGIN's behind it; what is in neither, from where it was first written."""
    decision, newest = history.decision, history.begin
    known: Mapping[TopicPartition, int] = {} if decision is None else decision.output_ends
    if decision is not None and newest is not None and newest.sink_epoch > decision.sink_epoch:
        known = {**known, **newest.scanned_from}
    starts = {}
    for output, log_end_offset in log_end_offsets.items():
        if output in known:
            starts[output] = known[output]
        elif output.topic in history.outputs:
            starts[output] = history.starts.get(output, 0)  # a partition that came later: all of it
        else:
            starts[output] = log_end_offset
    return starts


def surplus_starts(history: SinkHistory) -> dict[tuple[str, TopicPartition], int]:
    """Where stored rows begin that the last decision left for a later micro-batch."""
    if history.decision is None:
        return {}
    return {
        (writer, output): state.surplus_from
        for writer, writer_state in history.decision.writers.items()
        for output, state in writer_state.outputs.items()
        if state.surplus_from is not None
    }


def is_at_rest(
    history: SinkHistory, output: TopicPartition, known: Mapping[int, ProducerDescription]
) -> bool:
    """Whether nothing of the sink stands undecided in ``output``, by what its leader knows of the writers.

    ``known`` is by producer id, asked for behind the FENCE and before any writer is fenced, which wipes it. A writer
    stands where DECISION or BEGIN has left it if its last sequence is the one they speak of. A leader that knows
    nothing of a writer may have forgotten it, and proves nothing.
    """
    decision, newest = history.decision, history.begin
    states: Mapping[str, WriterState] = {}
    if newest is not None and (decision is None or newest.sink_epoch > decision.sink_epoch):
        if any(tp == output for _, tp in newest.have):
            return False
        sink_epoch = newest.sink_epoch
    elif decision is not None:
        if any(tp == output for _, tp in surplus_starts(history)):
            return False
        sink_epoch, states = decision.sink_epoch, decision.writers
    else:
        return False
    for writer, ids in history.writers.items():
        producer_id = ids.get(generation_of(sink_epoch))
        if producer_id is None:
            continue  # nothing by it in this generation; what there was before it was found by its first BEGIN
        stands = known.get(producer_id)
        if stands is None:
            return False
        outputs = states[writer].outputs if writer in states else {}
        expected = outputs[output].next_sequence if output in outputs else 0
        is_closed = decision is not None and decision.closed and sink_epoch == decision.sink_epoch
        if is_closed and stands.producer_epoch == closing_epoch(sink_epoch):
            continue
        if stands.producer_epoch != writer_epoch(sink_epoch) or advance(stands.last_sequence, 1) != expected:
            return False
    return True


def check_provable(
    history: SinkHistory,
    found: Mapping[str, OutputTopic],
    starts: Mapping[TopicPartition, int],
    log_start_offsets: Mapping[TopicPartition, int],
    compacted_topics: Collection[str],
) -> Refusal | None:
    """Whether a scan of the outputs can still tell which rows are stored."""
    for topic in sorted(compacted_topics):
        return compacted(topic)
    for topic, known in sorted(history.outputs.items()):
        if topic not in found:
            return unprovable(
                f"topic {topic!r}, which {subject(history.sink_id)} has written, was deleted", history.sink_id
            )
        if found[topic].topic_id != known.topic_id:
            return unprovable(
                f"topic {topic!r} was deleted and made anew since {subject(history.sink_id)} wrote it",
                history.sink_id,
            )
    for tp, start in sorted(starts.items()):
        if log_start_offsets[tp] > start:
            return gone(history.sink_id, tp, start, log_start_offsets[tp])
    return None


def gone(sink_id: str, output: TopicPartition, start: int, end: int) -> Refusal:
    """Rows of an unfinished micro-batch may have stood there; also when they went while somebody looked for them."""
    return unprovable(
        f"offsets {start} to {end - 1} of {output} are gone, and {subject(sink_id)} has to find there what is stored "
        f"of an unfinished micro-batch",
        sink_id,
    )


def journal_lost(sink_id: str, found: int, known_to: int) -> Refusal:
    """The decision log is another one than this driver has read, or has lost its end."""
    return _journal_unprovable(
        f"the decision log of sink {sink_id!r} was read up to offset {known_to} and now says {found}: it was deleted "
        f"and made anew, or has lost its end. What this driver has written since its last decision is not decided"
    )


def journal_trimmed(sink_id: str, journal: TopicPartition, start: int, end: int) -> Refusal:
    """What the sink has decided may have stood there, or that it has begun; only a reset needs none of it."""
    return _journal_unprovable(
        f"offsets {start} to {end - 1} of {journal} are gone, and with them what sink {sink_id!r} has decided. That "
        f"topic is kept for ever: retention.ms=-1, retention.bytes=-1. Put it back from a copy; or "
        + (
            f"take {anew(sink_id)}"
            if is_stage(sink_id)
            else "begin behind the rows that are in the output, with a new checkpoint and "
            f"`semel sink reset {sink_id}`"
        )
    )


def holder_forgotten(sink_id: str, journal: TopicPartition) -> Refusal:
    """The decision log does not know the producer that has written this run's FENCE."""
    return _journal_unprovable(
        f"{journal} knows nothing of this run of sink {sink_id!r} any more, and this record of it is not stored: the "
        f"topic was made anew, or the run has rested for longer than producer.id.expiration.ms. Start the query again"
    )


def journal_compacted(journal: str, sink_id: str) -> Refusal:
    """Of format 1 the newest record of a key need not be one that counts: it may be that of a driver which had lost
    the sink."""
    return _journal_unprovable(
        f"topic {journal!r} is compacted, and what sink {sink_id!r} has decided stands there as an older semel wrote "
        f"it: compaction may put a record of a driver that was overtaken in the place of one that counts. Nothing was "
        f"written now. Set it with `semel topic alter-config {journal} -c cleanup.policy=delete`: what is there is "
        f"read as it is. Start the query again then; once it has begun, what this sink needs may be compacted, unless "
        f"it is a flow's stage"
    )


def journal_unreadable(place: str, why: str) -> Refusal:
    """A record that may be a decision, and says nothing to this semel: none behind it can be believed either."""
    return _journal_unprovable(
        f"the record at {place} cannot be read: {why}. It may be a decision, so nothing is planned, written or told "
        f"without it. Where a newer semel has written it, use that one; else put the topic back from a copy"
    )


def journal_kept(
    journal: str, config: Mapping[str, str | None], decision_bytes_max: int = 0
) -> Refusal | None:
    """Whether the decision log is kept for ever, and takes a DECISION of so many bytes; ``None``: it does.

    Who makes it first need not be a sink: by Kafka's defaults decisions would be gone after a week, in silence, and a
    large one would be refused when its rows are there already, at every new run again.
    """
    message_bytes_max = int(config.get("max.message.bytes") or decision_bytes_max)
    if message_bytes_max < decision_bytes_max:
        return _journal_unprovable(
            f"topic {journal!r} takes records of {message_bytes_max} bytes (max.message.bytes), and a decision with "
            f"the states of its tasks can be {decision_bytes_max}. Nothing was written now. Set it with `semel topic "
            f"alter-config {journal} -c max.message.bytes={decision_bytes_max}`, and start the query again"
        )
    finite = {
        name: value
        for name in ("retention.ms", "retention.bytes")
        if (value := config.get(name)) is not None and int(value) >= 0
    }
    if not finite:
        return None
    said = " and ".join(f"{name}={value}" for name, value in finite.items())
    options = " ".join(f"-c {name}=-1" for name in finite)
    return _journal_unprovable(
        f"topic {journal!r} is kept for a while only ({said}), and the sinks need it for ever: without its "
        f"decisions rows would come twice, or not at all. Nothing was written now. Set it with `semel "
        f"topic alter-config {journal} {options}`, and start the query again"
    )


def compacted(topic: str) -> Refusal:
    """No sink writes there."""
    return Refusal(
        Reason.REPLAY_UNPROVABLE,
        f"topic {topic!r} is compacted, so rows of an unfinished micro-batch may be gone. Set its cleanup.policy to "
        f"delete, or write to another topic",
    )


def begin(
    history: SinkHistory,
    sink_epoch: int,
    found: Mapping[str, OutputTopic],
    starts: Mapping[TopicPartition, int],
    have: Mapping[tuple[str, TopicPartition], Stored],
    scanned_to: Mapping[TopicPartition, int],
    *,
    routing: Routing | None = None,
    plan: str = "",
) -> Begin | Refusal:
    """The BEGIN of a new run, once the scan is done.

    An output that was scanned for every writer up to ``scanned_to``, and has nothing of them, is scanned from there
    the next time. All that may still write to it is this run, behind that offset: the others were fenced before the
    offset was asked for. So others' rows may be trimmed there, however long the sink leaves the output alone.

    Rows that are undecided come again, and have to come to where they stand: under the same ``routing``, and in a
    topic that grew meanwhile to the partitions that it had. And they have to be the same: by the same ``plan``.
    """
    refusal = plan_too_long(history.sink_id, plan)
    if refusal is not None:
        return refusal
    if have and history.begin is not None and plan != history.begin.plan:
        return other_plan(history.sink_id, history.begin.plan, plan)
    written = None if history.begin is None else history.begin.routing
    if have and written is not None and routing != written:
        return other_routing(history.sink_id, written, routing)
    grown = {tp.topic for _, tp in have} & {
        topic for topic, output in found.items() if output != history.outputs.get(topic)
    }
    if grown and routing is not None and "partition" in routing.columns:
        topic = min(grown)
        return unprovable(
            f"topic {topic!r} grew from {history.outputs[topic].partition_count} to {found[topic].partition_count} "
            f"partitions in the middle of a micro-batch, and rows may name the new ones",
            history.sink_id,
        )
    outputs = tuple(history.outputs[topic] if topic in grown else found[topic] for topic in sorted(found))
    with_rows = {tp for _, tp in have}
    scanned_from = {
        tp: start if tp in with_rows else max(start, scanned_to.get(tp, start))
        for tp, start in starts.items()
    }
    begun = Begin(history.sink_id, sink_epoch, outputs, scanned_from, dict(have), routing, plan)
    return replace(begun, carried=history.carried(begun, CARRIED_BYTES_MAX))


def to_sweep(history: SinkHistory, sink_epoch: int, settled_min: int) -> list[bytes]:
    """The keys that run ``sink_epoch`` puts tombstones on now; none where they are fewer than ``settled_min``.

    Only the holder sweeps, and only once its BEGIN is in the log: what that carries is what may go.
    """
    begun = history.begin
    if history.litter is None or history.fence is None or begun is None or not begun.is_whole:
        return []
    if not history.fence.sink_epoch == begun.sink_epoch == sink_epoch:
        return []
    settled = history.litter.settled[:SWEPT_MAX]
    return settled if len(settled) >= settled_min else []


def judge_state_plan(history: SinkHistory, state_plan: str) -> Refusal | None:
    """Whether the decided states are ``state_plan``'s, so that its tasks can start from them."""
    decision = history.decision
    if decision is not None and not decision.is_reset and decision.state_plan != state_plan:
        return other_state_plan(history.sink_id, decision.state_plan, state_plan)
    return plan_too_long(history.sink_id, state_plan)


def new_ticket(
    history: SinkHistory, started: Begin, producer_id: int, journal_sequence: int, state_plan: str = ""
) -> Ticket:
    """The ticket of a run's first micro-batch: sequences begin at 0, because the writer epoch is new."""
    decision = history.decision
    return Ticket(
        sink_id=history.sink_id,
        producer_id=producer_id,
        sink_epoch=started.sink_epoch,
        journal_sequence=journal_sequence,
        journal_end_offset=history.end_offset,
        outputs=dict(history.outputs),
        starts=dict(history.starts),
        writers={name: dict(ids) for name, ids in history.writers.items()},
        scanned_from=started.scanned_from,
        have=started.have,
        rows_total={}
        if decision is None
        else {name: state.rows_total for name, state in decision.writers.items()},
        surplus_from=surplus_starts(history),
        source_ends={} if decision is None else dict(decision.source_ends),
        decided_query_id=None if decision is None else decision.query_id,
        cuts=tuple(history.cuts),
        fence=history.fence,
        source_ids={} if decision is None else dict(decision.source_ids),
        routing=started.routing,
        plan=started.plan,
        state_plan=state_plan,
        states={} if decision is None else decision.states,
    )


def next_ticket(ticket: Ticket, history: SinkHistory, journal_sequence: int) -> Ticket:
    """The ticket of a run's next micro-batch: everything goes on from the last decision."""
    decision = history.decision
    if decision is None or decision.sink_epoch != ticket.sink_epoch:
        return ticket
    return replace(
        ticket,
        journal_sequence=journal_sequence,
        journal_end_offset=history.end_offset,
        outputs=dict(history.outputs),
        starts=dict(history.starts),
        writers={name: dict(ids) for name, ids in history.writers.items()},
        scanned_from=dict(decision.output_ends),
        have={},
        next_sequences={
            (name, output): state.next_sequence
            for name, writer in decision.writers.items()
            for output, state in writer.outputs.items()
        },
        rows_total={name: state.rows_total for name, state in decision.writers.items()},
        surplus_from={},
        source_ends=dict(decision.source_ends),
        decided_query_id=decision.query_id,
        cuts=(),
        source_ids=dict(decision.source_ids),
        states=decision.states,
    )


def _journal_unprovable(evidence: str) -> Refusal:
    """It is the decision log itself that tells no more: its text has a way out of its own."""
    return Refusal(Reason.REPLAY_UNPROVABLE, evidence)
