"""Step 7: from the tasks' reports to the DECISION, in a process of its own that knows only the messages.

It never takes an epoch: it decides under the planner's, which came through the tasks. A zombie's commit would
otherwise fence the live driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semel.core.sink.decide import check_reports, check_twin, decide
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.journal import Decision
from semel.core.sink.run import Ticket, closing_epoch
from semel.core.sink.task import OutputReport, TaskReport
from semel.spark.options import SinkOptions
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, history_of
from semel.spark.stored_rows import stored_rows
from semel.spark.takeover import fence_writers
from semel.types import LATEST_TIMESTAMP, NO_PRODUCER_ID, ProducerGrant, TopicPartition


@dataclass(frozen=True, slots=True)
class Attempted:
    """A task's report, and whether another attempt of it may have written too."""

    report: TaskReport
    twin_possible: bool


def decide_batch(
    options: SinkOptions,
    ticket: Ticket,
    attempted: Sequence[Attempted],
    query_id: str,
    batch_id: int,
    txn_version: int | None = None,
) -> Decision | None:
    """Append the DECISION and return it; ``None`` when all was decided before."""
    log = SinkLog(options.connection, ticket.sink_id)
    history = history_of(log, options.connection)
    fenced = history.fenced_by_other(ticket.sink_epoch)
    if fenced is not None:
        allow(fenced)
    written = [entry for entry in attempted if not entry.report.skipped]
    refusal = check_reports(ticket, [entry.report for entry in written])
    if refusal is not None:
        allow(refusal)
    twins = history.twins_of(ticket.sink_epoch)
    reports = []
    for entry in written:
        report = entry.report
        if (entry.twin_possible or report.writer in twins) and report.producer_id >= 0:
            report = _settle_twins(log, ticket, report)
        reports.append(report)
    closed = bool(twins) or any(entry.twin_possible for entry in written)
    decision = allow(
        decide(ticket, history, reports, query_id, batch_id, closed=closed, txn_version=txn_version)
    )
    if decision is not None and ticket.producer_id != NO_PRODUCER_ID:
        log.append(decision, ProducerGrant(ticket.producer_id, ticket.sink_epoch), ticket.journal_sequence)
    return decision


def _settle_twins(log: SinkLog, ticket: Ticket, report: TaskReport) -> TaskReport:
    """End the writer's epoch, so that no twin writes any more, and read back what stands there."""
    output = ticket.output
    partitions = [TopicPartition(output.topic, number) for number in range(output.partition_count)]
    fence_writers(
        log.cluster, ticket.sink_id, {(report.producer_id, closing_epoch(ticket.sink_epoch)): partitions}
    )
    ends = log.cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation="read_uncommitted")
    settled: dict[TopicPartition, OutputReport] = dict(report.outputs)
    for tp in partitions:
        reported = report.outputs.get(tp)
        if reported is not None and reported.surplus_from is not None:
            continue  # all of its rows were there before this run, and were compared
        digest, end_offset = NO_ROWS, 0
        from_offset = ticket.scan_from(report.writer, tp)
        for _, rows, offsets in stored_rows(
            log.cluster, tp, {report.producer_id: from_offset}, ends[tp].offset
        ):
            digest = digest.over(rows.keys, rows.values, rows.headers)
            end_offset = int(offsets[len(offsets) - 1].as_py()) + 1
        refusal = check_twin(report, tp, digest)
        if refusal is not None:
            allow(refusal)
        if reported is not None:
            settled[tp] = replace(reported, end_offset=max(reported.end_offset, end_offset))
    return replace(report, outputs=settled)
