"""What a task of Spark's does for a stage: it reads for the source, and works and writes for the sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted, the_one_range
from semel.errors import StepFailed
from semel.flow.frames import encoded, rows_read
from semel.flow.on_spark_run import StageRun
from semel.flow.plan import StageKind
from semel.flow.stage_ranges import StageTask
from semel.flow.task import run_attempt
from semel.spark.notes import TaskIdentity, earlier_stage_read, others_read, read_notes, read_work
from semel.spark.refusing import allow
from semel.spark.stream_sink import with_one_range_only
from semel.spark.task_write import write_range

__all__ = ["attempt", "rows_read"]


def attempt(
    run: StageRun, ticket: Ticket, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]
) -> Attempted | None:
    """One attempt of a task of the sink; ``None``: it has no range, and no row."""
    if run.kind is StageKind.FRAME:
        return _write_frame(run, ticket, task, iterator)
    for _ in iterator:  # the note is there when it ends
        pass
    notes = read_notes(task)
    if not notes:
        return None
    allow(the_one_range(notes, others_read=others_read(task)))
    attempted = run_attempt(
        run.stage,
        run.options,
        ticket,
        _work_of(task),
        query_id=task.query_id,
        task_attempt_id=task.task_attempt_id,
        attempt_number=task.attempt_number,
        store=run.store,
    )
    return (
        attempted if attempted.failure is None else replace(attempted, failure=_in_words(attempted.failure))
    )


def _write_frame(
    run: StageRun, ticket: Ticket, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]
) -> Attempted | None:
    first = next((batch for batch in iterator if batch.num_rows), None)
    notes = read_notes(task)
    if first is None and not notes and not earlier_stage_read(task):
        return None
    source_range = allow(the_one_range(notes, others_read=others_read(task)))
    batches = with_one_range_only(first, iterator, task)
    attempted = write_range(
        run.options,
        ticket,
        source_range,
        encoded(run.stage, source_range, batches, task),
        query_id=task.query_id,
        task_attempt_id=task.task_attempt_id,
        attempt_number=task.attempt_number,
        surplus_below=_work_of(task).undecided_below,
    )
    allow(the_one_range(read_notes(task)))
    return attempted


def _work_of(task: TaskIdentity) -> StageTask:
    work = read_work(task)
    assert isinstance(work, StageTask)
    return work


def _in_words(failure: Exception) -> Exception:
    """What a user's function raised may be of a class that no other process has."""
    if not isinstance(failure, StepFailed) or isinstance(failure.cause, str):
        return failure
    return StepFailed(failure.step, failure.position, failure.why)
