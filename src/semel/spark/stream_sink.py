"""The streaming sink, ``exactlyOnce=sequenced``: Spark's calls onto the protocol's steps.

Spark makes a writer per micro-batch, in a pooled planner process, and pickles it (twice) for the tasks;
``commit`` runs on a fresh writer in another process. So planning happens when the writer is pickled, a run
lives in the planner process between micro-batches, and everything else travels through tasks and messages.
The planner sees no batch id and no query id; the tasks do, and recognise a micro-batch by its ranges.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from semel.core.sink import run
from semel.core.sink.history import SinkHistory
from semel.core.sink.ranges import Verdict
from semel.core.sink.run import Ticket
from semel.core.sink.task import TaskReport, may_write, the_one_range
from semel.errors import SinkError
from semel.spark.commit import Attempted, decide_batch
from semel.spark.notes import TaskIdentity, drop_notes, read_notes, this_task
from semel.spark.options import Connection, SinkOptions
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, history_of, planning_query
from semel.spark.takeover import begin_run
from semel.spark.task_write import TaskWrite
from semel.spark.worker_heap import freeze_heap


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task tells the commit."""

    ticket: Ticket
    query_id: str
    attempted: Attempted | None  # None: a task without a range and without a row


@dataclass(slots=True)
class _Planned:
    """The run that this planner process holds, and its last micro-batch's ticket."""

    ticket: Ticket
    decided_before: object


# By process, log, sink and checkpoint: another query on the sink begins a run of its own.
_RUNS: Final[dict[tuple[int, Connection, str, str], _Planned]] = {}


def plan_batch(options: SinkOptions, checkpoint: str) -> Ticket:
    """The ticket of the next micro-batch: of the run that this process holds, or of a new one."""
    assert options.sink_id is not None
    log = SinkLog(options.connection, options.sink_id)
    key = (os.getpid(), options.connection, options.sink_id, checkpoint)
    query = planning_query(checkpoint)
    held = _RUNS.pop(key, None)  # gone, should anything below fail: a new run is always safe
    history = history_of(log, options.connection)
    ticket = None if held is None else _next_in_run(held, history, query)
    if ticket is None or (options.topic is not None and options.topic not in ticket.outputs):
        ticket = begin_run(options, log, query=query)
        history = history_of(log, options.connection)
    _RUNS[key] = _Planned(ticket, history.decision)
    return ticket


def _next_in_run(held: _Planned, history: SinkHistory, query: str) -> Ticket | None:
    decided = history.decision is not None and history.decision is not held.decided_before
    if not allow(run.goes_on(history, held.ticket.sink_epoch, decided, query)):
        return None
    return run.next_ticket(held.ticket, history, held.ticket.journal_sequence + 1)


class SemelStreamWriter(DataSourceStreamArrowWriter):
    """``writeStream.format("semel")``."""

    def __init__(self, options: SinkOptions, checkpoint: str) -> None:
        self.options = options
        self.checkpoint = checkpoint
        self.ticket: Ticket | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self.ticket is None:  # called twice for a micro-batch; the second time it is planned already
            self.ticket = plan_batch(self.options, self.checkpoint)
            freeze_heap()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        task = this_task()
        if task is None or self.ticket is None:
            raise SinkError("the streaming sink works in the tasks of a streaming query only")
        try:
            return TaskMessage(self.ticket, task.query_id, self._attempt(task, iterator))
        finally:
            drop_notes(task)
            freeze_heap()

    def _attempt(self, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]) -> Attempted | None:
        assert self.ticket is not None
        first = next(iterator, None)
        while first is not None and not first.num_rows:
            first = next(iterator, None)
        notes = read_notes(task)
        if first is None and not notes:
            return None
        source_range = allow(the_one_range(notes))
        if allow(may_write(self.ticket, source_range, task.query_id)) is Verdict.SKIP:
            for _ in iterator:  # the source's rows are thrown away: they are in the output
                pass
            return Attempted(TaskReport(source_range.writer, source_range, -1, 0, skipped=True), False)
        attempt = TaskWrite(
            self.options,
            self.ticket,
            source_range.writer,
            source_range,
            task.task_attempt_id,
            task.attempt_number,
            task.query_id,
        )
        batches = [] if first is None else _with(first, iterator)
        report = attempt.run(_one_range_only(batches, task))
        allow(the_one_range(read_notes(task)))
        return Attempted(report, attempt.duplicates or task.attempt_number > 0)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """In a process of its own."""
        told = [message for message in messages if isinstance(message, TaskMessage)]
        attempted = [message.attempted for message in told if message.attempted is not None]
        if attempted:
            decide_batch(self.options, told[0].ticket, attempted, told[0].query_id, batchId)
        freeze_heap()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: a decision may be in flight. The next run cleans up after its fence."""


def _with(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _one_range_only(batches: Iterable[pa.RecordBatch], task: TaskIdentity) -> Iterator[pa.RecordBatch]:
    """Stop before a row of a second range: its note is there before the row is. What went out before is a
    prefix of the first range's writer, which a mended plan meets again and does not write twice."""
    for batch in batches:
        allow(the_one_range(read_notes(task)))
        if batch.num_rows:
            yield batch
