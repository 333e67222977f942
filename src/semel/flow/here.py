"""A flow in this process: the same plans, tasks and decisions as on Spark, without Spark.

For tests, for one machine, and for moving there and back: whoever starts a stage fences whoever ran it before, on
Spark or here, and goes on where the log has decided to. Stages take turns in one thread. Frame stages are Spark's.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from semel.errors import ConfigError
from semel.flow.changing import check_changed
from semel.flow.plan import Plan, Stage, StageKind
from semel.flow.stage_ranges import Cuts, StageRanges, ranges_of
from semel.flow.stage_state import trim_changelog
from semel.flow.task import run_attempt, sink_options
from semel.flow.topics import made_topics
from semel.spark.commit import decide_batch
from semel.spark.offsets import Json
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.resuming import check_before_fencing, resume
from semel.spark.runs import plan_batch

IDLE_PAUSE_S: Final = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """What one micro-batch of a stage did."""

    stage: str
    batch_id: int
    row_count: int  # written, to all of the stage's topics
    lag: int  # offsets of its inputs that it had not planned with
    took_ms: int


def check_runs_here(plan: Plan) -> None:
    """``ConfigError`` for a flow that needs Spark, with the steps that do."""
    frames = [stage.name for stage in plan.stages if stage.kind is StageKind.FRAME]
    if frames:
        raise ConfigError(
            f"flow {plan.flow!r} has steps of Spark's (where, select, apply) in {', '.join(frames)}: run it on Spark, "
            f"or say them in Python (filter, map, flat_map)"
        )


class StageHere:
    """One stage's micro-batches, one after the other: what Spark's driver and tasks do."""

    def __init__(self, stage: Stage, connection: Connection, cuts: Cuts, store: Path) -> None:
        self.stage = stage
        self._connection, self._store = connection, store
        resumed = resume(connection, stage.sink_id)
        self._options = sink_options(stage, connection, resumed.sink_epoch)
        self._ranges: StageRanges = ranges_of(stage, connection, cuts, resumed)
        self._query_id = f"here:{uuid.uuid4()}"
        self._at: Json | None = None
        self._batch_id = 0

    def fix_target(self) -> None:
        """From now on it ends at what its inputs have now; to be said before the first step."""
        self._ranges.fix_target()

    def step(self, *, is_killed: bool = False) -> Progress | None:
        """One micro-batch; ``None`` where there is nothing to do.

        ``is_killed`` leaves it as a kill in front of its decision does: its rows are in the log, and undecided.
        """
        begun_ns = time.monotonic_ns()
        if self._at is None:
            self._at = self._ranges.initial()
        end = self._ranges.next_end(self._at)
        if end == self._at:
            return None
        tasks = self._ranges.tasks(self._at, end)
        ticket = plan_batch(self._options, self._query_id)
        if self.stage.has_state:
            trim_changelog(self.stage, self._connection, ticket)
        attempted = [
            run_attempt(
                self.stage,
                self._options,
                ticket,
                task,
                query_id=self._query_id,
                task_attempt_id=number,
                attempt_number=0,
                store=self._store,
            )
            for number, task in enumerate(tasks)
        ]
        if is_killed:
            return Progress(self.stage.name, self._batch_id, 0, self._ranges.lag(end), 0)
        decision = decide_batch(self._options, ticket, attempted, self._query_id, self._batch_id)
        failure = next((each.failure for each in attempted if each.failure is not None), None)
        if failure is not None:
            raise failure
        self._at = end
        self._batch_id += 1
        return Progress(
            self.stage.name,
            self._batch_id - 1,
            0 if decision is None else decision.row_count,
            self._ranges.lag(end),
            (time.monotonic_ns() - begun_ns) // 1_000_000,
        )


def run_here(
    plan: Plan,
    bootstrap: str,
    *,
    store: Path,
    until_idle: bool = False,
    cuts: Cuts | None = None,
    stop: threading.Event | None = None,
    told: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Run all stages until ``stop`` is set; with ``until_idle``, one after the other to the end of what its inputs have
    when its turn comes. So it ends, however fast the sources grow.

    A stage that fails ends the flow with its error; what was decided stays, and the next run goes on from there.
    """
    check_runs_here(plan)
    connection = Connection(bootstrap, f"semel-flow-{plan.flow}")
    check_changed(plan, connection)
    plan = made_topics(connect(connection), plan)
    for each in plan.stages:
        check_before_fencing(sink_options(each, connection))
    stages = [StageHere(stage, connection, cuts or Cuts(), store) for stage in plan.stages]
    stop = stop or threading.Event()
    if until_idle:
        for stage in stages:
            stage.fix_target()
            while not stop.is_set() and (progress := stage.step()) is not None:
                told(progress)
        return
    in_turns([stage.step for stage in stages], stop, told)


def in_turns(
    steps: Sequence[Callable[[], T | None]],
    stop: threading.Event,
    told: Callable[[T], None],
    *,
    until_idle: bool = False,
) -> None:
    """One after the other, again and again, until ``stop`` is set; ``until_idle``: or none has had anything to do."""
    while not stop.is_set():
        moved = False
        for step in steps:
            progress = step()
            if progress is not None:
                moved = True
                told(progress)
            if stop.is_set():
                return
        if not moved:
            if until_idle:
                return
            stop.wait(IDLE_PAUSE_S)
