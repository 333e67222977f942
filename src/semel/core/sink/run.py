"""A run: what the planner settles before a row is written, and ships to every task.

The order is the protocol: raise the sink's epoch, FENCE, read, fence the writers, scan, BEGIN. Each function
below is one of the decisions between two of these steps.

Rows of run ``e`` carry writer epoch ``2e``, and ``2e + 1`` closes it. Fencing to *exactly* ``2e`` and not
"raise by one" matters: two restarts would raise to the same epoch, and a zombie would go on writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, OutputTopic, Stored
from semel.core.sink.refusal import Reason, Refusal
from semel.types import PRODUCER_EPOCH_MAX, TopicPartition

SINK_EPOCH_MAX: Final = (PRODUCER_EPOCH_MAX - 1) // 2


def writer_epoch(sink_epoch: int) -> int:
    """The producer epoch of every row of run ``sink_epoch``."""
    return 2 * sink_epoch


def closing_epoch(sink_epoch: int) -> int:
    """The producer epoch that ends run ``sink_epoch``: its twins can write no more."""
    return 2 * sink_epoch + 1


@dataclass(frozen=True, slots=True)
class Ticket:
    """All that a task and the commit need to know of the run, as of this micro-batch."""

    sink_id: str
    producer_id: int  # the sink's own identity, with its epoch below
    sink_epoch: int
    journal_sequence: int  # of the driver's next record
    journal_end_offset: int  # what the planner has read up to
    output: OutputTopic
    producer_ids: Mapping[str, int]
    scanned_from: Mapping[TopicPartition, int]  # rows of this micro-batch stand at or after these
    have: Mapping[tuple[str, TopicPartition], Stored] = field(default_factory=dict)
    next_sequences: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    rows_total: Mapping[str, int] = field(default_factory=dict)
    surplus_from: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    source_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    decided_query_id: str | None = None

    def scan_from(self, writer: str, output: TopicPartition) -> int:
        """Where undecided rows of ``writer`` may begin in ``output``."""
        return self.surplus_from.get((writer, output), self.scanned_from.get(output, 0))


def goes_on(history: SinkHistory, sink_epoch: int, planned: bool) -> bool | Refusal:
    """Whether this driver's run goes on with its next micro-batch; ``False``: begin a new run.

    ``planned`` says that the run's last micro-batch has been decided, or that none was planned in it. A new
    run is always safe between micro-batches, so every doubt ends in one.
    """
    fenced = history.fenced_by_other(sink_epoch)
    if fenced is not None:
        return fenced
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


def fences(
    history: SinkHistory, sink_epoch: int, outputs: list[TopicPartition]
) -> dict[tuple[int, int], list[TopicPartition]]:
    """Every known writer in every output partition, to exactly the run's writer epoch."""
    known = sorted(set(history.producer_ids.values()))
    return {(producer_id, writer_epoch(sink_epoch)): outputs for producer_id in known}


def scan_starts(
    history: SinkHistory, log_end_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """From the last decision's ends; before the first decision, from where the first run began."""
    if history.decision is not None:
        known: Mapping[TopicPartition, int] = history.decision.output_ends
    elif history.begin is not None:
        known = history.begin.scanned_from
    else:
        return dict(log_end_offsets)
    # A partition that came later holds nothing of this sink's.
    return {output: known.get(output, 0) for output in log_end_offsets}


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


def check_provable(
    history: SinkHistory,
    output: OutputTopic,
    starts: Mapping[TopicPartition, int],
    log_start_offsets: Mapping[TopicPartition, int],
    compacted: bool,
) -> Refusal | None:
    """Whether a scan of the output can still tell which rows are stored."""
    if compacted:
        return _unprovable(
            f"topic {output.topic!r} is compacted, so rows of an unfinished micro-batch may be gone"
        )
    if history.begin is None:
        return None
    if history.begin.output.topic != output.topic:
        return _unprovable(
            f"sink {history.sink_id!r} has written to topic {history.begin.output.topic!r} and is now to "
            f"write to {output.topic!r}: take another sinkId"
        )
    if history.begin.output.topic_id != output.topic_id:
        return _unprovable(
            f"topic {output.topic!r} was deleted and made anew since sink {history.sink_id!r} wrote it"
        )
    for tp, start in sorted(starts.items()):
        if log_start_offsets[tp] > start:
            return _unprovable(f"offsets {start} to {log_start_offsets[tp] - 1} of {tp} are gone")
    return None


def begin(
    history: SinkHistory,
    sink_epoch: int,
    output: OutputTopic,
    starts: Mapping[TopicPartition, int],
    have: Mapping[tuple[str, TopicPartition], Stored],
) -> Begin | Refusal:
    """The BEGIN of a new run, once the scan is done."""
    if have and history.begin is not None and history.begin.output.partition_count != output.partition_count:
        return _unprovable(
            f"topic {output.topic!r} grew from {history.begin.output.partition_count} to "
            f"{output.partition_count} partitions in the middle of a micro-batch"
        )
    return Begin(history.sink_id, sink_epoch, output, dict(starts), dict(have))


def new_ticket(history: SinkHistory, started: Begin, producer_id: int, journal_sequence: int) -> Ticket:
    """The ticket of a run's first micro-batch: sequences begin at 0, because the writer epoch is new."""
    decision = history.decision
    return Ticket(
        sink_id=history.sink_id,
        producer_id=producer_id,
        sink_epoch=started.sink_epoch,
        journal_sequence=journal_sequence,
        journal_end_offset=history.end_offset,
        output=started.output,
        producer_ids=dict(history.producer_ids),
        scanned_from=started.scanned_from,
        have=started.have,
        rows_total={}
        if decision is None
        else {name: state.rows_total for name, state in decision.writers.items()},
        surplus_from=surplus_starts(history),
        source_ends={} if decision is None else dict(decision.source_ends),
        decided_query_id=None if decision is None else decision.query_id,
    )


def next_ticket(ticket: Ticket, history: SinkHistory, journal_sequence: int) -> Ticket:
    """The ticket of a run's next micro-batch: everything goes on from the last decision."""
    decision = history.decision
    if decision is None or decision.sink_epoch != ticket.sink_epoch:
        return ticket
    return Ticket(
        sink_id=ticket.sink_id,
        producer_id=ticket.producer_id,
        sink_epoch=ticket.sink_epoch,
        journal_sequence=journal_sequence,
        journal_end_offset=history.end_offset,
        output=ticket.output,
        producer_ids=dict(history.producer_ids),
        scanned_from=dict(decision.output_ends),
        next_sequences={
            (name, output): state.next_sequence
            for name, writer in decision.writers.items()
            for output, state in writer.outputs.items()
        },
        rows_total={name: state.rows_total for name, state in decision.writers.items()},
        source_ends=dict(decision.source_ends),
        decided_query_id=decision.query_id,
    )


def _unprovable(evidence: str) -> Refusal:
    return Refusal(Reason.REPLAY_UNPROVABLE, evidence)
