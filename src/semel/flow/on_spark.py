"""A flow on Spark: each stage a streaming query of one application.

Spark decides when a micro-batch runs and where its tasks do, and starts them again when they fail. Where a stage goes
on is decided by the log: every run has a checkpoint folder of its own that is thrown away, so there is none to lose.

A stage whose steps are all Python's, or that has a state, runs in the sink's task (:mod:`semel.flow.task`): its source
leaves a note of what is to be done and yields no row. A stage with steps of Spark's is a DataFrame between source and
sink (:mod:`semel.flow.frames`).
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from semel.core.sink.task import Attempted, the_one_range
from semel.flow.frames import columns_read, encoded, frame_of, rows_read
from semel.flow.plan import Plan, Stage, StageKind
from semel.flow.slots import default_folder
from semel.flow.stage_ranges import Cuts, Json, StageRanges, StageTask, ranges_of
from semel.flow.stage_state import trim_changelog
from semel.flow.stopping import why_stopped
from semel.flow.task import run_attempt, sink_options
from semel.flow.topics import made_topics
from semel.spark.notes import TaskIdentity, leave_note, others_read, read_notes, read_work
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.refusing import allow
from semel.spark.resuming import Resumption, check_before_fencing, resume
from semel.spark.stream_sink import SemelStreamWriter, TaskMessage, with_one_range_only
from semel.spark.task_write import write_range

_LOOK_S: Final = 0.1
_STOP_S_MAX: Final = 60.0  # a micro-batch that lasts longer is interrupted; the next run meets its rows
_STOP_FILE: Final = "stop"
_STOPPED_SUFFIX: Final = ".stopped"


@dataclass(frozen=True, slots=True)
class Stopping:
    """How a flow's driver has its planners, which are processes of their own on its machine, plan nothing more."""

    folder: Path

    @property
    def is_asked(self) -> bool:
        """Whether the flow is to stop."""
        return (self.folder / _STOP_FILE).exists()

    def ask(self) -> None:
        """Have it stop; every planner does when it is asked for its next micro-batch."""
        with suppress(FileNotFoundError):  # it was stopped before
            (self.folder / _STOP_FILE).touch()

    def tell(self, stage: str) -> None:
        """By the planner: the micro-batches before are decided, and there will be no other."""
        with suppress(FileNotFoundError):
            (self.folder / f"{stage}{_STOPPED_SUFFIX}").touch()

    def is_told(self, stage: str) -> bool:
        """Whether the planner of ``stage`` has done so."""
        return (self.folder / f"{stage}{_STOPPED_SUFFIX}").exists()


class StagePartition(InputPartition):
    """One task of a stage."""

    def __init__(self, value: StageTask) -> None:
        super().__init__(value)


class StageReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of a stage."""

    def __init__(
        self, stage: Stage, connection: Connection, cuts: Cuts, resumed: Resumption, stopping: Stopping
    ) -> None:
        self.stage, self.connection, self.cuts, self.resumed = stage, connection, cuts, resumed
        self.stopping = stopping
        self._planning: StageRanges | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planning": None}  # it lives in one process of the driver; tasks get none

    @property
    def _ranges(self) -> StageRanges:
        if self._planning is None:
            self._planning = ranges_of(self.stage, self.connection, self.cuts, self.resumed)
        return self._planning

    def initialOffset(self) -> Json:
        """Where the sink has decided to."""
        return self._ranges.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the target."""
        self._ranges.fix_target()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """The end of the next micro-batch; there is none once the flow is to stop."""
        if self.stopping.is_asked:
            self.stopping.tell(self.stage.name)  # Spark asks between two micro-batches
            return start
        return self._ranges.next_end(start)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        return [StagePartition(task) for task in self._ranges.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task: what it is to do goes to the sink of the same task by a note."""
        task: StageTask = partition.value
        leave_note(task.source_range, task)
        return (
            rows_read(self.stage, self.connection, task) if self.stage.kind is StageKind.FRAME else iter(())
        )

    def commit(self, end: Json) -> None:
        """Nothing: the decision says it."""


class StageWriter(SemelStreamWriter):
    """The sink of a stage: one micro-batch."""

    def __init__(
        self, stage: Stage, connection: Connection, resumed: Resumption, store: Path, checkpoint: str
    ) -> None:
        super().__init__(sink_options(stage, connection, resumed.sink_epoch), checkpoint)
        self.stage = stage
        self.store = store

    def __getstate__(self) -> dict[str, Any]:
        is_new = self.ticket is None
        state = super().__getstate__()
        if is_new and self.ticket is not None and self.stage.has_state:
            trim_changelog(self.stage, self.options.connection, self.ticket)
        return state

    def _attempt(self, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]) -> Attempted | None:
        assert self.ticket is not None
        if self.stage.kind is StageKind.FRAME:
            return self._write_frame(task, iterator)
        for _ in iterator:  # the note is there when it ends
            pass
        notes = read_notes(task)
        if not notes:
            return None
        allow(the_one_range(notes, others_read=others_read(task)))
        work = read_work(task)
        assert isinstance(work, StageTask)
        return run_attempt(
            self.stage,
            self.options,
            self.ticket,
            work,
            query_id=task.query_id,
            task_attempt_id=task.task_attempt_id,
            attempt_number=task.attempt_number,
            store=self.store,
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What came before a failure is decided; then the failure stops the flow."""
        super().commit(messages, batchId)
        for message in messages:
            attempted = message.attempted if isinstance(message, TaskMessage) else None
            if attempted is not None and attempted.failure is not None:
                raise attempted.failure

    def _write_frame(self, task: TaskIdentity, iterator: Iterator[pa.RecordBatch]) -> Attempted | None:
        assert self.ticket is not None
        first = next((batch for batch in iterator if batch.num_rows), None)
        notes = read_notes(task)
        if first is None and not notes:
            return None
        source_range = allow(the_one_range(notes, others_read=others_read(task)))
        batches = with_one_range_only(first, iterator, task)
        attempted = write_range(
            self.options,
            self.ticket,
            source_range,
            encoded(self.stage, source_range, batches, task),
            query_id=task.query_id,
            task_attempt_id=task.task_attempt_id,
            attempt_number=task.attempt_number,
        )
        allow(the_one_range(read_notes(task)))
        return attempted


def stage_format(
    stage: Stage, connection: Connection, cuts: Cuts, resumed: Resumption, store: Path, stopping: Stopping
) -> type[DataSource]:
    """A data source of its own for one run of ``stage``: options are texts, and a stage holds functions."""
    name = f"semel-{stage.flow}-{stage.name}-{uuid.uuid4().hex[:8]}"

    class StageFormat(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return columns_read(stage)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return StageReader(stage, connection, cuts, resumed, stopping)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return StageWriter(stage, connection, resumed, store, self.options.get("checkpointLocation", ""))

    return StageFormat


class FlowOnSpark:
    """A flow that runs; :meth:`wait` for its end, or :meth:`stop` it."""

    def __init__(
        self, plan: Plan, bootstrap: str, spark: Any, *, cuts: Cuts | None = None, store: Path | None = None
    ) -> None:
        self.plan = plan
        self._connection = Connection(bootstrap, f"semel-flow-{plan.flow}")
        self._spark = spark
        self._cuts = cuts or Cuts()
        self._store = store or default_folder()
        self._folder = Path(tempfile.mkdtemp(prefix=f"semel-flow-{plan.flow}-"))
        self._stopping = Stopping(self._folder)
        self._queries: dict[str, Any] = {}

    def run(self, stop: threading.Event, *, once: bool = False) -> None:
        """Until ``stop`` is set, or with ``once`` to the end; a stage that fails stops it."""
        if once:
            self.run_to_the_end(stop)
            return
        try:
            self.start()
            while not self.wait(_LOOK_S) and not stop.is_set():
                pass
        finally:
            self.stop()
        self.wait()  # of a stage that failed meanwhile, the reason

    def start(self) -> FlowOnSpark:
        """All stages at once, until :meth:`stop`."""
        self._prepare()
        for stage in self.plan.stages:
            self._start(stage, {"processingTime": "0 seconds"})
        return self

    def run_to_the_end(self, stop: threading.Event | None = None) -> None:
        """Stage after stage, each to the end of what its inputs have by then, or until ``stop`` is set."""
        self._prepare()
        try:
            for stage in self.plan.stages:
                if stop is not None and stop.is_set():
                    break
                self._start(stage, {"availableNow": True})
                while not self.wait(_LOOK_S):
                    if stop is not None and stop.is_set():
                        self._stopping.ask()
        finally:
            self.stop()

    def _prepare(self) -> None:
        self.plan = made_topics(connect(self._connection), self.plan)
        for stage in self.plan.stages:
            check_before_fencing(sink_options(stage, self._connection))

    def _start(self, stage: Stage, trigger: dict[str, Any]) -> None:
        resumed = resume(self._connection, stage.sink_id)
        source = stage_format(stage, self._connection, self._cuts, resumed, self._store, self._stopping)
        self._spark.dataSource.register(source)
        frame = self._spark.readStream.format(source.name()).load()
        if stage.kind is StageKind.FRAME:
            frame = frame_of(stage, frame)
        self._queries[stage.name] = (
            frame.writeStream.format(source.name())
            .queryName(stage.sink_id)
            .option("checkpointLocation", str(self._folder / stage.name))
            .trigger(**trigger)
            .start()
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until every stage has ended, or for ``timeout_s``: whether they have.

        A stage that fails stops the others; its reason is raised as ``FlowStopped``.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            for name, query in self._queries.items():
                failed = None if query.isActive else query.exception()
                if failed is not None:
                    self.stop()
                    raise why_stopped(self.plan, name, failed) from failed
            if not any(query.isActive for query in self._queries.values()):
                return True
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """End all stages behind the micro-batches that they are in; the next run goes on there."""
        self._stopping.ask()
        deadline = time.monotonic() + _STOP_S_MAX
        while any(
            query.isActive and not self._stopping.is_told(name) for name, query in self._queries.items()
        ):
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_S)
        for query in self._queries.values():
            query.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
