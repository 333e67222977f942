"""Step 7: from the tasks' reports to the DECISION, in a process of its own that knows only the messages.

It never takes an epoch: it decides under the planner's, which came through the tasks. A zombie's commit would
otherwise fence the live driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semel.core.sink.decide import check_twin, decide, ends_of, to_settle
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.epochs import closing_epoch, identity_epoch
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Decision, NamedWrite
from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted, OutputReport, TaskReport
from semel.spark.options import SinkOptions
from semel.spark.output_marks import leader_epochs_of
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, history_of, partitions_of
from semel.spark.stored_rows import stored_rows
from semel.spark.takeover import ends_before_fences, ends_behind_fences, fence_goes_first, fence_writers
from semel.types import NO_PRODUCER_ID, ProducerGrant, TopicPartition


def decide_batch(
    options: SinkOptions,
    ticket: Ticket,
    attempted: Sequence[Attempted],
    query_id: str,
    batch_id: int,
    *,
    carry: bool = True,
    write: NamedWrite | None = None,
) -> Decision | None:
    """Append the DECISION and return it; ``None`` when all was decided before."""
    log = SinkLog(options.connection, ticket.sink_id, ticket.journal_partition)
    if (
        ticket.producer_id == NO_PRODUCER_ID
    ):  # a write without a name: all that is said of it comes after its ticket
        history = ticket.history()
        log.read(history)
    else:
        history = history_of(log, options.connection)
    written = allow(to_settle(ticket, history, attempted))
    with fence_goes_first(log, history, ticket.sink_epoch):
        reports = [
            _settle_twins(log, ticket, history, report) if twin and report.producer_id >= 0 else report
            for report, twin in written
        ]
    is_recorded = ticket.producer_id != NO_PRODUCER_ID
    decision = allow(
        decide(
            ticket,
            history,
            reports,
            query_id,
            batch_id,
            closed=any(twin for _, twin in written),
            carry=carry,
            write=write,
            leader_epochs=leader_epochs_of(log.cluster, log.sink_id, ends_of(reports)) if is_recorded else {},
        )
    )
    if decision is not None and is_recorded:
        grant = ProducerGrant(ticket.producer_id, identity_epoch(ticket.sink_epoch))
        log.append_as_holder(history, decision, grant, ticket.journal_sequence)
    return decision


def _settle_twins(log: SinkLog, ticket: Ticket, history: SinkHistory, report: TaskReport) -> TaskReport:
    """End the writer's epoch, so that no twin writes any more, and read back what stands there."""
    # Topics that a task of this micro-batch was the first to write are in the history only.
    outputs = history.outputs | dict(ticket.outputs)
    ticket = replace(ticket, starts=history.starts | dict(ticket.starts))
    partitions = [tp for output in outputs.values() for tp in partitions_of(output)]
    ids = {report.producer_id, *ticket.writers.get(report.writer, {}).values()}
    fences = {(report.producer_id, closing_epoch(ticket.sink_epoch)): partitions}
    before = ends_before_fences(log.cluster, partitions)
    fence_writers(log.cluster, ticket.sink_id, fences)
    ends = ends_behind_fences(log.cluster, fences, before)
    settled: dict[TopicPartition, OutputReport] = dict(report.outputs)
    for tp in partitions:
        reported = report.outputs.get(tp)
        if reported is not None and reported.surplus_from is not None:
            continue  # all of its rows were there before this run, and were compared
        digest, end_offset = NO_ROWS, 0
        from_offset = ticket.scan_from(report.writer, tp)
        for _, rows, offsets in stored_rows(
            log.cluster, ticket.sink_id, tp, dict.fromkeys(ids, from_offset), ends[tp].offset
        ):
            digest = digest.over(rows.keys, rows.values, rows.headers)
            end_offset = int(offsets[len(offsets) - 1].as_py()) + 1
        refusal = check_twin(report, tp, digest, ticket.sink_id)
        if refusal is not None:
            allow(refusal)
        if reported is not None:
            settled[tp] = replace(reported, end_offset=max(reported.end_offset, end_offset))
    return replace(report, outputs=settled)
