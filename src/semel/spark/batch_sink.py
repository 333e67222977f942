"""The batch sink: a writer is (write id, Spark partition), so any source and any plan will do.

A write is exact under task retries and speculation: every attempt of a task writes under one producer id with
the same sequences, and where two attempts ran, the rows are read back before the job ends well. Rows that
come in another order on a retry fail the job; they are never mixed.

``txnAppId`` and ``txnVersion`` name a write across reruns: a version at or below the last decided one is
skipped, and what a killed run of the same version left behind is met again, not written twice. Without them a
rerun of the job is a new write.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from semel.core.sink.ranges import Verdict
from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted, TaskReport
from semel.core.sink.writes import judge_version, writers_of_write
from semel.errors import SinkError
from semel.spark.commit import decide_batch
from semel.spark.options import SinkOptions
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, history_of
from semel.spark.takeover import begin_run, unnamed_run
from semel.spark.task_write import TaskWrite
from semel.spark.worker_heap import freeze_heap


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What the tasks of one batch write share."""

    ticket: Ticket | None  # None: skipped, because txnVersion is not above the last decided one
    write_id: str


@dataclass
class BatchMessage(WriterCommitMessage):
    """What a task tells the commit."""

    attempted: Attempted


def plan_write(options: SinkOptions) -> BatchPlan:
    """Before the first task."""
    if options.txn_app_id is None or options.txn_version is None:
        write_id = uuid.uuid4().hex
        log = SinkLog(options.connection, f"write.{write_id}")
        return BatchPlan(unnamed_run(options, log), write_id)
    log = SinkLog(options.connection, f"txn.{options.txn_app_id}")
    write_id = f"{options.txn_version}"
    # Judged before the fence, so that a version that is not to be written disturbs nobody, and after it.
    if allow(judge_version(history_of(log, options.connection), options.txn_version)) is Verdict.SKIP:
        return BatchPlan(None, write_id)
    ticket = begin_run(options, log, only_writers_of=writers_of_write(write_id))
    verdict = allow(judge_version(history_of(log, options.connection), options.txn_version))
    return BatchPlan(None if verdict is Verdict.SKIP else ticket, write_id)


class SemelWriter(DataSourceArrowWriter):
    """``df.write.format("semel")``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.plan: BatchPlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self.plan is None:
            self.plan = plan_write(self.options)
            freeze_heap()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        context = TaskContext.get()
        if context is None or self.plan is None:
            raise SinkError("the sink works in the tasks of a Spark job only")
        writer = f"{writers_of_write(self.plan.write_id)}{context.partitionId()}"
        if self.plan.ticket is None:
            for _ in iterator:
                pass
            return BatchMessage(Attempted(TaskReport(writer, None, -1, 0, skipped=True), False))
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
        return BatchMessage(Attempted(report, attempt.duplicates or context.attemptNumber() > 0))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In a process of its own, on the planned writer."""
        assert self.plan is not None
        attempted = [message.attempted for message in messages if isinstance(message, BatchMessage)]
        if attempted and self.plan.ticket is not None:
            decide_batch(
                self.options,
                self.plan.ticket,
                attempted,
                query_id=self.plan.write_id,
                batch_id=0,
                carry=False,
                txn_version=self.options.txn_version,
            )
        freeze_heap()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: rows that are in the log stay there; a named write meets them again when it is rerun."""
