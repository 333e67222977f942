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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from semel.flow.by_value import Shipped, shipped
from semel.flow.changing import check_changed
from semel.flow.frame_session import active, frame_session, refuse_unrecorded
from semel.flow.frames import columns_read, frame_of, refuse_read_twice, steps_of_source, trying_records
from semel.flow.on_spark_run import StageRun, Stopping
from semel.flow.on_spark_stage import TASK_OPTION, stage_format, task_option
from semel.flow.plan import Plan, Stage, StageKind
from semel.flow.settling import Decided, Settled, Tried, settle
from semel.flow.slots import default_folder
from semel.flow.stage_ranges import Cuts, StageTask
from semel.flow.stopping import is_rows_fault, why_stopped
from semel.flow.task import sink_options
from semel.flow.topics import made_topics
from semel.spark.offsets import Json
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.resuming import Resumption, check_before_fencing, resume
from semel.spark.sink_log import SinkLog

STOP_WAIT_S: Final = 60.0  # for the micro-batches that are under way
_LOOK_S: Final = 0.05


class FlowOnSpark:
    """A flow that runs; :meth:`wait` for its end, or :meth:`stop` it."""

    def __init__(
        self, plan: Plan, bootstrap: str, spark: Any, *, cuts: Cuts | None = None, store: Path | None = None
    ) -> None:
        self.plan = plan
        self._connection = Connection(bootstrap, f"semel-flow-{plan.flow}")
        self._given, self._spark = spark, frame_session(spark)
        self._cuts = cuts or Cuts()
        self._store = store or default_folder()
        self._folder = Path(tempfile.mkdtemp(prefix=f"semel-flow-{plan.flow}-"))
        self._queries: dict[str, Any] = {}
        self._stopped: dict[str, Any] = {}

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
        self._raise_failure(self._stopped)  # of a stage that failed meanwhile

    @property
    def queries(self) -> dict[str, Any]:
        """Spark's streaming queries by the name of their stage, those too that have ended."""
        return self._stopped | self._queries

    def start(self) -> FlowOnSpark:
        """All stages at once, until :meth:`stop`."""
        self._prepare()
        for stage in self.plan.stages:
            self._begin(stage, {"processingTime": "0 seconds"})
        return self

    def run_to_the_end(self, stop: threading.Event | None = None) -> None:
        """Stage after stage, each to the end of what its inputs have by then, or until ``stop`` is set."""
        self._prepare()
        try:
            for stage in self.plan.stages:
                if stop is not None and stop.is_set():
                    break
                self._begin(stage, {"availableNow": True})
                while not self.wait(_LOOK_S):
                    if stop is not None and stop.is_set():
                        Stopping(self._folder).ask()
        finally:
            self.stop()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until every stage has ended, or for ``timeout_s``: whether they have.

        A stage that fails stops the others; its reason is raised as ``FlowStopped``.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            # Asked for first: one that fails in between has not come to its end.
            is_over = not any(query.isActive for query in self._queries.values())
            self._raise_failure(self._queries)
            if is_over:
                return True
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)

    def stop(self, wait_s: float = STOP_WAIT_S) -> None:
        """End all stages behind the micro-batches that they are in; the next run goes on there.

        What has not ended by itself after ``wait_s`` is interrupted: then rows of it are stored that the next run has
        to decide first.
        """
        queries, self._queries = self._queries, {}
        waiting = {name for name, query in queries.items() if _is_active(query)}
        stopping = Stopping(self._folder)
        stopping.ask()
        try:
            deadline = time.monotonic() + wait_s
            while waiting and time.monotonic() < deadline:
                waiting = {
                    name for name in waiting if not stopping.is_told(name) and _is_active(queries[name])
                }
                time.sleep(_LOOK_S if waiting else 0)
        finally:
            with suppress(Py4JError, OSError):  # a session that is gone has ended them
                for query in queries.values():
                    query.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._stopped |= queries

    def _raise_failure(self, queries: dict[str, Any]) -> None:
        for name, query in queries.items():
            failed = None if query.isActive else query.exception()
            if failed is not None:
                self.stop()
                raise why_stopped(self.plan, name, failed, self._settled(name, failed)) from failed

    # --- beginning --------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """All that may be refused before anybody is fenced."""
        for stage in self.plan.stages:
            sent(stage)
            if stage.kind is StageKind.FRAME:
                begun = SinkLog(self._connection, stage.sink_id).history().begin
                refuse_unrecorded(stage.flow, stage.name, "" if begun is None else begun.plan, self._given)
                with active(self._spark):
                    frame_of(stage, self._spark.createDataFrame([], columns_read(stage)))
                    refuse_read_twice(stage, self._spark)
        check_changed(self.plan, self._connection)
        self.plan = made_topics(connect(self._connection), self.plan)
        for stage in self.plan.stages:
            check_before_fencing(sink_options(stage, self._connection))

    def _begin(self, stage: Stage, trigger: dict[str, Any]) -> None:
        try:
            self._query(stage, resume(self._connection, stage.sink_id), trigger)
        except BaseException as error:
            self.stop()
            if isinstance(error, Exception):
                raise why_stopped(self.plan, stage.name, error) from error
            raise

    def _run_of(self, stage: Stage, resumed: Resumption, until: Json | None = None) -> StageRun:
        options = sink_options(stage, self._connection, resumed.sink_epoch)
        return StageRun(
            stage.name,
            stage.kind,
            stage.has_state,
            sent(stage),
            options,
            self._cuts,
            resumed,
            self._store,
            Stopping(self._folder),
            until,
        )

    def _source(self, stage: Stage, run: StageRun) -> str:
        source = stage_format(run, columns_read(stage))
        self._spark.dataSource.register(source)
        return source.name()

    def _query(
        self, stage: Stage, resumed: Resumption, trigger: dict[str, Any], until: Json | None = None
    ) -> None:
        source = self._source(stage, self._run_of(stage, resumed, until))
        with active(self._spark):  # where Spark looks the source up
            frame = self._spark.readStream.format(source).load()
            if stage.kind is StageKind.FRAME:
                frame = frame_of(stage, frame)
            self._queries[stage.name] = (
                frame.writeStream.format(source)
                .queryName(stage.sink_id)
                .option("checkpointLocation", str(self._folder / f"{stage.name}-{uuid.uuid4().hex}"))
                .trigger(**trigger)
                .start()
            )

    # --- a row that fails -------------------------------------------------------------------------------------

    def _settled(self, name: str, failed: BaseException) -> Settled | None:
        """Of a frame stage that may have failed at a row; ``None`` where it was something else, or is not known."""
        stage = self.plan.stage(name)
        if stage.kind is not StageKind.FRAME or not is_rows_fault(failed):
            return None
        self._folder = Path(tempfile.mkdtemp(prefix=f"semel-flow-{self.plan.flow}-"))
        try:
            return settle(stage, self._connection, self._cuts, self._tried(stage), self._decided(stage))
        except Exception:  # the flow stops with its own reason
            return Settled(None, None, is_decided=False)
        finally:
            self.stop()

    def _tried(self, stage: Stage) -> Tried:
        """A query over a part of a task's range that writes nothing."""
        run = self._run_of(stage, Resumption({}, {}, -1))
        source = self._source(stage, run)

        def tried(task: StageTask) -> BaseException | None:
            with active(self._spark):
                read = self._spark.read.format(source).option(TASK_OPTION, task_option(task)).load()
                records = trying_records(stage, frame_of(stage, read))
            try:
                records.write.format("noop").mode("overwrite").save()
            except Exception as error:
                if is_rows_fault(error):
                    return error
                raise
            return None

        return tried

    def _decided(self, stage: Stage) -> Decided:
        def decided(resumed: Resumption, ends: Json) -> None:
            self._query(stage, resumed, {"availableNow": True}, ends)
            query = self._queries.pop(stage.name)
            query.awaitTermination()

        return decided


def _is_active(query: Any) -> bool:
    try:
        return bool(query.isActive)
    except (Py4JError, OSError):
        return False


def sent(stage: Stage) -> Shipped:
    """What other processes need of a stage. A frame stage's steps are in its plan, which Spark sends, without those
    that its source has to do.
    """
    if stage.kind is StageKind.FRAME:
        return shipped(replace(stage, steps=steps_of_source(stage)))
    return shipped(stage, stage.steps, stage.site)
