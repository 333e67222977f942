"""From the tasks' reports to the DECISION, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from semel.core.sink.committed_state import CommittedState, StateReport, judge_states, next_states
from semel.core.sink.digest import NO_ROWS, Digest
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Decision, NamedWrite, Stored, WriterOutput, WriterState
from semel.core.sink.output_marks import next_marks
from semel.core.sink.ranges import ids_agree
from semel.core.sink.refusal import Reason, Refusal, from_the_decided_ends, replay_differs
from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted, TaskReport, fewer_rows, other_rows
from semel.core.sink.writes import KEPT_MAX
from semel.types import NO_LEADER_EPOCH, TopicPartition


def check_reports(ticket: Ticket, reports: Sequence[TaskReport]) -> Refusal | None:
    """One report for each writer, and one for each writer that has rows in the log."""
    names = [report.writer for report in reports]
    for name in names:
        if names.count(name) > 1:
            return Refusal(
                Reason.PLAN_NOT_SUPPORTED,
                f"two tasks of one micro-batch read the same range ({name}): the query reads a source twice "
                f"(a union with itself, or two sources on one topic). Read it once, and let the rows take both ways "
                f"from there; or write with foreachBatch, under a txnAppId",
            )
    given_up = {writer for (writer, _), _ in _given_up(ticket, reports)}
    for writer, tp in ticket.have:
        if writer not in names and writer not in given_up:
            return replay_differs(
                f"{writer} has rows in {tp}, and this micro-batch does not have that writer",
                "Let the query read all that it has read, and cut it as it did, until those rows are decided. If its "
                f"checkpoint is lost: {from_the_decided_ends(ticket.sink_id)}"
                if ticket.source_ends or reports[0].source_range is not None
                else "Run this version again with the plan, and the partitions, that it had",
            )
    return None


def _given_up(
    ticket: Ticket, reports: Sequence[TaskReport]
) -> list[tuple[tuple[str, TopicPartition], Stored]]:
    """Stored rows of writers whose further rows never come: their topic is gone, and the source goes on."""
    ranges = [report.source_range for report in reports if report.source_range is not None]
    return [
        (place, stored)
        for place, stored in ticket.have.items()
        if any(source_range.gives_up(place[0]) for source_range in ranges)
    ]


def to_settle(
    ticket: Ticket, history: SinkHistory, attempted: Sequence[Attempted]
) -> list[tuple[TaskReport, bool]] | Refusal:
    """The reports that a decision is to be made of, each with whether a twin may have written too.

    None at all where every range was decided before: whatever else stands in the log is a later micro-batch's.
    """
    fenced = history.fenced_by_other(ticket.sink_epoch)
    if fenced is not None:
        return fenced
    written = [entry for entry in attempted if not entry.report.skipped]
    refusal = check_reports(ticket, [entry.report for entry in written]) if written else None
    if refusal is not None:
        return refusal
    return [
        (entry.report, entry.twin_possible or has_twin(history, ticket, entry.report)) for entry in written
    ]


def check_twin(report: TaskReport, tp: TopicPartition, stored: Digest, sink_id: str = "") -> Refusal | None:
    """After the closing fence: do the rows that stand in the log equal what the winner reported?

    The log vouches for a sequence, not for its content, and an attempt cannot tell an append from a
    duplicate that the log still had in its window; so where two attempts ran, the rows are read back.
    """
    reported = report.outputs[tp].digest if tp in report.outputs else NO_ROWS
    if stored.count < reported.count:
        return fewer_rows(report.writer, tp, stored.count, reported.count, sink_id)
    if stored != reported:
        return other_rows(report.writer, tp, reported.count, sink_id)
    return None


def has_twin(history: SinkHistory, ticket: Ticket, report: TaskReport) -> bool:
    """Whether another attempt than the winner has said that it may have written, or may yet."""
    others = history.twins_of(ticket.sink_epoch).get(report.writer, set()) - {report.task_attempt_id}
    return bool(others)


def ends_of(reports: Sequence[TaskReport]) -> dict[TopicPartition, int]:
    """How far the outputs have rows of these tasks."""
    ends: dict[TopicPartition, int] = {}
    for report in reports:
        for tp, output in report.outputs.items():
            ends[tp] = max(ends.get(tp, 0), output.end_offset)
    return ends


def decide(
    ticket: Ticket,
    history: SinkHistory,
    reports: Sequence[TaskReport],
    query_id: str,
    batch_id: int,
    *,
    closed: bool,
    carry: bool = True,
    write: NamedWrite | None = None,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> Decision | Refusal | None:
    """The DECISION; ``None`` when there is nothing to decide, because every range was decided before.

    ``carry`` is for streams: a batch write's writers are done with it. ``write`` is a batch write's name.
    ``leader_epochs`` are those under which the outputs have the rows that are reported.
    """
    fenced = history.fenced_by_other(ticket.sink_epoch)
    if fenced is not None:
        return fenced
    written = [report for report in reports if not report.skipped]
    if not written:
        return None
    refusal = check_reports(ticket, written)
    if refusal is not None:
        return refusal
    previous: Mapping[str, WriterState] = {}
    previous_states: Mapping[str, CommittedState] = {}
    if carry and history.decision is not None:
        previous, previous_states = history.decision.writers, history.decision.states
    same_run = history.decision is not None and history.decision.sink_epoch == ticket.sink_epoch
    writers = {
        # Idle writers are carried forward; a new run's sequences begin at 0 again.
        name: state if same_run else _restarted(state)
        for name, state in previous.items()
    }
    source_ends, source_ids = dict(ticket.source_ends), dict(ticket.source_ids)
    source_epochs = {} if history.decision is None else dict(history.decision.source_epochs)
    told: dict[TopicPartition, int] = {}
    told_ids: dict[str, str] = {}
    # Topics that a task of this run was the first to write are in the history's starts only.
    output_ends = history.starts | dict(ticket.scanned_from)
    row_count = row_hash = 0
    for report in written:
        carried = writers[report.writer].outputs if report.writer in writers else {}
        outputs = dict(carried)
        for tp, output in report.outputs.items():
            outputs[tp] = WriterOutput(output.next_sequence, output.digest, output.surplus_from)
            output_ends[tp] = max(output_ends.get(tp, 0), output.end_offset)
            row_hash = (row_hash + output.digest.mixed()) % 2**64
        row_count += report.row_count
        counted = report.row_count - report.own_number_count
        rows_total = ticket.rows_total.get(report.writer, 0) + counted
        writers[report.writer] = WriterState(report.producer_id, rows_total, outputs)
        if report.source_range is not None:
            told[report.source_range.source] = report.source_range.batch_end
            told.update(report.source_range.idle_ends)
            source_epochs.update(report.source_range.idle_leader_epochs)
            source_epochs[report.source_range.source] = report.source_range.end_leader_epoch
            told_ids.update(report.source_range.idle_topic_ids)
            if report.source_range.topic_id is not None:
                told_ids[report.source_range.source.topic] = report.source_range.topic_id
    for (_, tp), stored in _given_up(ticket, written):
        output_ends[tp] = max(output_ends.get(tp, 0), stored.end_offset)
        row_hash = (row_hash + stored.digest.mixed()) % 2**64
        row_count += stored.digest.count
    told_states = [StateReport(report.writer, report.source_range, report.state) for report in written]
    states = next_states(previous_states, told_states, source_ids, told_ids)
    refusal = judge_states(ticket.sink_id, ticket.state_plan, states, told_states)
    if refusal is not None:
        return refusal
    # Where a topic was made anew, the ends of the older one's partitions are nobody's.
    source_ends = {
        tp: end
        for tp, end in source_ends.items()
        if ids_agree(source_ids.get(tp.topic), told_ids.get(tp.topic))
    }
    ends = source_ends | told
    versions: tuple[NamedWrite, ...] = ()
    if write is not None:
        row_hash = sum(report.row_hash for report in written) % 2**64
        before = () if history.decision is None else history.decision.versions
        versions = (*before, replace(write, row_count=row_count, row_hash=row_hash))[-KEPT_MAX:]
    return Decision(
        ticket.sink_id,
        ticket.sink_epoch,
        query_id,
        batch_id,
        ends,
        row_count,
        row_hash,
        writers,
        output_ends,
        closed,
        None if write is None else write.version,
        source_ids | told_ids,
        versions,
        states,
        ticket.state_plan,
        ticket.journal_sequence,
        {tp: epoch for tp, epoch in source_epochs.items() if tp in ends and epoch != NO_LEADER_EPOCH},
        next_marks(
            {} if history.decision is None else history.decision.output_marks,
            output_ends,
            leader_epochs or {},
        ),
    )


def _restarted(state: WriterState) -> WriterState:
    return WriterState(
        state.producer_id,
        state.rows_total,
        {tp: WriterOutput(0, output.digest) for tp, output in state.outputs.items()},
    )
