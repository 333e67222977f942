"""The batch sink: a writer is (write id, Spark partition), so any source and any plan will do.

A write is exact under task retries and speculation: every attempt of a task writes under one producer id with
the same sequences, and where two attempts ran, the rows are read back before the job ends well. Rows that
come in another order on a retry fail the job; they are never mixed.

``txnAppId`` and ``txnVersion`` name a write across reruns: a version at or below the last decided one is
skipped when it has the rows that were decided, and what a killed run of the same version left behind is met
again, not written twice. Without them a rerun of the job is a new write.

The planner does not know whether it is inside of ``foreachBatch``; the tasks do, and tell the commit query and
micro-batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import NamedWrite
from semel.core.sink.ranges import Verdict
from semel.core.sink.refusal import NAMED_PREFIX
from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted, TaskReport
from semel.core.sink.writes import (
    begun_versions,
    judge_rerun,
    judge_version,
    may_write_version,
    writer_of,
    writers_of_version,
    writers_of_write,
)
from semel.errors import SinkError
from semel.spark.commit import decide_batch
from semel.spark.in_worker import in_worker
from semel.spark.notes import this_task
from semel.spark.options import SinkOptions
from semel.spark.output import rows_of
from semel.spark.process import this_process
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, history_of
from semel.spark.takeover import begin_run, unnamed_run
from semel.spark.task_write import TaskWrite
from semel.spark.worker_heap import freeze_heap


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What the tasks of one batch write share."""

    ticket: Ticket | None  # None: not written, because txnVersion is not above the last decided one
    sink_id: str
    write_id: str = ""  # of a write without a name
    decided: tuple[NamedWrite, ...] = ()  # the last versions
    begun: tuple[int, ...] = ()  # and those that stand half in the output


@dataclass
class BatchMessage(WriterCommitMessage):
    """What a task tells the commit."""

    attempted: Attempted
    query_id: str | None  # of the streaming query whose foreachBatch it is
    batch_id: int | None


def plan_write(options: SinkOptions) -> BatchPlan:
    """Before the first task."""
    plan = _plan(options)
    if plan.ticket is None:
        return plan
    return replace(plan, ticket=replace(plan.ticket, planned_ms=this_process().clock.now_ms()))


def _plan(options: SinkOptions) -> BatchPlan:
    if options.txn_app_id is None or options.txn_version is None:
        write_id = uuid.uuid4().hex
        log = SinkLog(options.connection, f"write.{write_id}")
        return BatchPlan(unnamed_run(options, log), log.sink_id, write_id)
    log = SinkLog(options.connection, f"{NAMED_PREFIX}{options.txn_app_id}")
    # Judged before the fence, so that a version that is not to be written disturbs nobody, and after it.
    history = history_of(log, options.connection)
    if allow(judge_version(history, options.txn_version)) is Verdict.SKIP:
        return _not_written(history)
    ticket = begin_run(options, log, only_writers_of=writers_of_version(options.txn_version))
    history = history_of(log, options.connection)
    if allow(judge_version(history, options.txn_version)) is Verdict.SKIP:
        return _not_written(history)
    return BatchPlan(ticket, log.sink_id)


def _not_written(history: SinkHistory) -> BatchPlan:
    assert history.decision is not None
    return BatchPlan(
        None, history.sink_id, decided=history.decision.versions, begun=tuple(begun_versions(history))
    )


class SemelWriter(DataSourceArrowWriter):
    """``df.write.format("semel")``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.plan: BatchPlan | None = None

    @in_worker
    def __getstate__(self) -> dict[str, Any]:
        if self.plan is None:
            self.plan = plan_write(self.options)
            freeze_heap()
        return self.__dict__

    @in_worker
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        context = TaskContext.get()
        if context is None or self.plan is None:
            raise SinkError("the sink works in the tasks of a Spark job only")
        task = this_task()
        query_id, batch_id = (None, None) if task is None else (task.query_id, task.batch_id)
        if self.options.txn_version is None:
            writer = f"{writers_of_write(self.plan.write_id)}{context.partitionId()}"
        else:
            writer = writer_of(self.options.txn_version, query_id, batch_id, context.partitionId())
        if self.plan.ticket is None:
            report = self._compared(writer, iterator)
            return BatchMessage(Attempted(report, False), query_id, batch_id)
        if self.options.txn_version is not None:
            refusal = may_write_version(self.plan.ticket, writer)
            if refusal is not None:
                allow(refusal)
        attempt = TaskWrite(
            self.options,
            self.plan.ticket,
            writer,
            None,
            context.taskAttemptId(),
            context.attemptNumber(),
            self.plan.write_id,
        )
        report = attempt.run(batch for batch in iterator if batch.num_rows)
        freeze_heap()
        twin_possible = attempt.duplicates or context.attemptNumber() > 0
        return BatchMessage(Attempted(report, twin_possible), query_id, batch_id)

    def _compared(self, writer: str, batches: Iterator[pa.RecordBatch]) -> TaskReport:
        """Of rows that are not to be written: which they are."""
        row_count = row_hash = 0
        for batch in batches:
            incoming = rows_of(batch, 0)
            row_count += len(incoming.rows)
            row_hash += incoming.order_free_hash(self.options.topic) if len(incoming.rows) else 0
        return TaskReport(writer, None, -1, row_count, skipped=True, row_hash=row_hash % 2**64)

    @in_worker
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In a process of its own, on the planned writer."""
        assert self.plan is not None
        told = [message for message in messages if isinstance(message, BatchMessage)]
        if not told:
            return
        query_id, batch_id, version = told[0].query_id, told[0].batch_id, self.options.txn_version
        write = None if version is None else NamedWrite(version, query_id, batch_id)
        if self.plan.ticket is not None:
            decide_batch(
                self.options,
                self.plan.ticket,
                [message.attempted for message in told],
                query_id=query_id or "",
                batch_id=batch_id or 0,
                carry=False,
                write=write,
            )
        else:
            assert write is not None
            reports = [message.attempted.report for message in told]
            rerun = replace(
                write,
                row_count=sum(report.row_count for report in reports),
                row_hash=sum(report.row_hash for report in reports) % 2**64,
            )
            refusal = judge_rerun(self.plan.sink_id, self.plan.decided, self.plan.begun, rerun)
            if refusal is not None:
                allow(refusal)
        freeze_heap()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: rows that are in the log stay there; a named write meets them again when it is rerun."""
