"""The streaming sink, ``exactlyOnce=sequenced``: Spark's calls onto the protocol's steps.

Spark makes a writer per micro-batch, in a pooled planner process, and pickles it (twice) for the tasks;
``commit`` runs on a fresh writer in another process. So planning happens when the writer is pickled, and
everything else travels through tasks and messages.
The planner sees no batch id and no query id; the tasks do, and recognise a micro-batch by its ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted, the_one_range
from semel.errors import SinkError
from semel.spark.checkpoint import checkpoint_of_session, judge_plan
from semel.spark.commit import decide_batch
from semel.spark.in_worker import in_worker
from semel.spark.notes import (
    TaskIdentity,
    drop_notes,
    earlier_stage_read,
    others_read,
    read_notes,
    this_task,
)
from semel.spark.options import SinkOptions
from semel.spark.refusing import allow
from semel.spark.runs import plan_batch
from semel.spark.task_write import write_range
from semel.spark.worker_heap import freeze_heap


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task tells the commit."""

    ticket: Ticket
    query_id: str
    attempted: Attempted | None  # None: a task without a range and without a row


class SemelStreamWriter(DataSourceStreamArrowWriter):
    """``writeStream.format("semel")``."""

    def __init__(self, options: SinkOptions, checkpoint: str, query_name: str = "") -> None:
        self.options = options
        self.checkpoint = checkpoint
        self.query_name = query_name
        self.ticket: Ticket | None = None

    @in_worker
    def __getstate__(self) -> dict[str, Any]:
        if self.ticket is None:  # called twice for a micro-batch; the second time it is planned already
            _stop_if_stateful(self.checkpoint)
            self.ticket = plan_batch(self.options, self.checkpoint)
            freeze_heap()
        return self.__dict__

    @in_worker
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        task = this_task()
        if task is None or self.ticket is None:
            raise SinkError("the streaming sink works in the tasks of a streaming query only")
        try:
            return TaskMessage(self.ticket.without_states(), task.query_id, self._attempt(task, iterator))
        finally:
            drop_notes(task)
            freeze_heap()

    def _attempt(self, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]) -> Attempted | None:
        assert self.ticket is not None
        if not self.checkpoint:
            _stop_if_stateful(checkpoint_of_session(self.query_name))
        first = next(iterator, None)
        while first is not None and not first.num_rows:
            first = next(iterator, None)
        notes = read_notes(task)
        if first is None and not notes and not earlier_stage_read(task):
            return None  # of a micro-batch without ranges, for which Spark has a task all the same
        source_range = allow(the_one_range(notes, others_read=others_read(task)))
        attempted = write_range(
            self.options,
            self.ticket,
            source_range,
            with_one_range_only(first, iterator, task),
            query_id=task.query_id,
            task_attempt_id=task.task_attempt_id,
            attempt_number=task.attempt_number,
        )
        allow(the_one_range(read_notes(task)))
        return attempted

    @in_worker
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """In a process of its own."""
        told = [message for message in messages if isinstance(message, TaskMessage)]
        attempted = [message.attempted for message in told if message.attempted is not None]
        if not attempted and len(told) > 1:  # Spark's task for nothing is alone
            allow(the_one_range([]))
        if attempted:
            decide_batch(self.options, told[0].ticket, attempted, told[0].query_id, batchId)
        freeze_heap()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: a decision may be in flight. The next run cleans up after its fence."""


def _stop_if_stateful(checkpoint: str) -> None:
    refusal = judge_plan(checkpoint)
    if refusal is not None:
        allow(refusal)


def with_one_range_only(
    first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch], task: TaskIdentity
) -> Iterator[pa.RecordBatch]:
    """Stop before a row of a second range: its note is there before the row is. What went out before is a
    prefix of the first range's writer, which a mended plan meets again and does not write twice."""
    for batch in () if first is None else chain((first,), rest):
        allow(the_one_range(read_notes(task)))
        if batch.num_rows:
            yield batch
