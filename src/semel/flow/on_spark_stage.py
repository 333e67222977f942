"""A stage as Spark runs it: a data source of its own, whose source plans and whose sink works.

Nearly all of this runs in other processes than the driver's: the source's planning in one of the driver's machine that
lives as long as the query, tasks on the executors, the commit in a pooled one. What they need of the stage is sent to
them by value, once. Each of these processes imports this module, a dozen of them before a flow's first row; what only
tasks need is imported by tasks (:mod:`semel.flow.on_spark_task`).
"""

from __future__ import annotations

import base64
import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from semel.core.sink.task import Attempted
from semel.flow.on_spark_run import StageRun
from semel.flow.plan import StageKind
from semel.flow.stage_ranges import BoundedRanges, StageRanges, StageTask, ranges_of
from semel.spark.notes import TaskIdentity, leave_note
from semel.spark.offsets import Json
from semel.spark.process import this_process
from semel.spark.stream_sink import SemelStreamWriter, TaskMessage

TASK_OPTION: Final = "task"  # of a probe
IDLE_PAUSE_MS_MIN: Final = 10  # Spark asks again after as much, hundred times a second
IDLE_PAUSE_MS_MAX: Final = 100  # a micro-batch takes longer


class StagePartition(InputPartition):
    """One task of a stage."""

    def __init__(self, value: StageTask) -> None:
        super().__init__(value)


class StageReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of a stage."""

    def __init__(self, run: StageRun) -> None:
        self.run = run
        self._planning: StageRanges | None = None
        self._is_bounded = False
        self._idle_pause_ms = IDLE_PAUSE_MS_MIN

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planning": None}  # it lives in one process of the driver; tasks get none

    @property
    def _ranges(self) -> StageRanges:
        if self._planning is None:
            run = self.run
            ranges = ranges_of(run.stage, run.connection, run.cuts, run.resumed)
            self._planning = ranges if run.until is None else BoundedRanges(ranges, run.until)
        return self._planning

    def initialOffset(self) -> Json:
        """Where the sink has decided to."""
        return self._ranges.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the target."""
        self._is_bounded = True
        self._ranges.fix_target()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """The end of the next micro-batch; there is none once the flow is to stop.

        Where nothing has come it waits for a while, longer each time: a flow at rest is not to ask all the time.
        """
        if self.run.stopping.is_asked:
            self.run.stopping.tell(self.run.name)
            return start
        end = self._ranges.next_end(start)
        if end != start:
            self._idle_pause_ms = IDLE_PAUSE_MS_MIN
        elif not self._is_bounded:
            this_process().clock.pause(self._idle_pause_ms)
            self._idle_pause_ms = min(2 * self._idle_pause_ms, IDLE_PAUSE_MS_MAX)
        return end

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        return [StagePartition(task) for task in self._ranges.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task: what it is to do goes to the sink of the same task by a note."""
        task: StageTask = partition.value
        leave_note(task.source_range, task)
        return iter(()) if self.run.kind is StageKind.TASK else _rows(self.run, task)

    def commit(self, end: Json) -> None:
        """Nothing: the decision says it."""


class StageWriter(SemelStreamWriter):
    """The sink of a stage: one micro-batch."""

    def __init__(self, run: StageRun, checkpoint: str) -> None:
        super().__init__(run.options, checkpoint)
        self.run = run

    def __getstate__(self) -> dict[str, Any]:
        """In the planner, before a micro-batch: what is decided by now needs less of the changelog than before."""
        is_planned = self.ticket is not None
        state = super().__getstate__()
        if self.run.has_state and not is_planned and self.ticket is not None:
            from semel.flow.stage_state import trim_changelog

            trim_changelog(self.run.stage, self.run.connection, self.ticket)
        return state

    def _attempt(self, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]) -> Attempted | None:
        from semel.flow.on_spark_task import attempt

        assert self.ticket is not None
        return attempt(self.run, self.ticket, task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What came before a failure is decided; then the failure stops the flow."""
        super().commit(messages, batchId)
        for message in messages:
            attempted = message.attempted if isinstance(message, TaskMessage) else None
            if attempted is not None and attempted.failure is not None:
                raise attempted.failure


class StageProbe(DataSourceReader):
    """Rows of one task's range, for a query that writes nothing."""

    def __init__(self, run: StageRun, task: StageTask) -> None:
        self.run, self.task = run, task

    def partitions(self) -> Sequence[InputPartition]:
        """The one."""
        return [StagePartition(self.task)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task."""
        return _rows(self.run, partition.value)


def stage_format(run: StageRun, columns: str) -> type[DataSource]:
    """A data source of its own for one run of a stage, whose frame has ``columns``: options are texts only."""
    name = f"semel-{run.options.sink_id}-{uuid.uuid4().hex[:8]}".replace("/", "-")

    class StageFormat(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns

        def reader(self, schema: StructType) -> DataSourceReader:
            return StageProbe(run, pickle.loads(base64.b64decode(self.options[TASK_OPTION])))

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return StageReader(run)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return StageWriter(run, self.options.get("checkpointLocation", ""))

    return StageFormat


def task_option(task: StageTask) -> str:
    """A probe's task, as text."""
    return base64.b64encode(pickle.dumps(task)).decode()


def _rows(run: StageRun, task: StageTask) -> Iterator[pa.RecordBatch]:
    from semel.flow.on_spark_task import rows_read

    return rows_read(run.stage, run.connection, task)
