"""One life of a stage's query: what Spark's driver, or the runner of one process, does with a stage.

It looks, fences, and begins where the sink has decided to; plans, runs the tasks, decides. It has no checkpoint.
Where a step fails, what came before is decided, and then the life ends with that error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar, Final

from semel.core.flow.state import State
from semel.core.sink.ranges import SourceRange
from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted
from semel.errors import SemelError
from semel.flow import stage_ranges, stage_state, task
from semel.flow.plan import Stage
from semel.flow.stage_ranges import Cuts, StageTask
from semel.flow.stage_state import StateBounds, TaskState
from semel.sim.flows.machines import MACHINES
from semel.sim.flows.story import Loaded, StageStory
from semel.sim.sinks.life import Life
from semel.sim.sinks.mix import SinkMix
from semel.sim.sinks.task_set import TaskAttempt, TaskFailed, TaskSet
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.sinks.worker import Worker, connection_of
from semel.sim.world.faults import Fault
from semel.sim.world.fiber import FiberClock, Pending
from semel.sim.world.surroundings import Surroundings
from semel.spark import commit, resuming, runs
from semel.spark.offsets import Json
from semel.spark.options import Connection
from semel.spark.process import this_process

TRIGGER_MS: Final = (5, 250)
IDLE_TRIGGERS_MAX: Final = 16  # so much less often it looks where nothing new comes
IS_ONE_PROCESS: Final = 0.3
THINKS_MS_MAX: Final = 60


class StageDriver(Life):
    """``on_end`` gets the error that it ended with, or ``None`` when all of the stage's inputs is decided."""

    SPARKS_OWN: ClassVar = (TaskFailed,)

    def __init__(
        self,
        story: StageStory,
        name: str,
        random: Random,
        around: Surroundings,
        mix: Callable[[], SinkMix],
        on_end: Callable[[StageDriver, SemelError | None], None],
    ) -> None:
        flow = story.flow
        self.story: Final = story
        self.stage: Final = story.stage
        self.is_mended: Final = story.is_mended
        self.cuts: Final = Cuts(
            random.choice(flow.rows_max), random.choice(flow.entries_max), random.choice(flow.entry_rows_max)
        )
        super().__init__(name, random, around, mix, attempts_max=random.randint(1, 4))
        self.has_decided = False  # a micro-batch, in this life
        self._on_end = on_end
        self._source = self.new_worker("source")
        is_one_process = random.random() < IS_ONE_PROCESS
        self._planner = self._source if is_one_process else self.new_worker("planner")
        self._committer = self._source if is_one_process else self.new_worker("commit")
        story.drivers.append(self)

    def _kept(self) -> tuple[Worker | None, ...]:
        return self._source, self._planner, self._committer

    def _ended(self, error: SemelError | None) -> None:
        self._on_end(self, error)

    def trace_note(self, what: str) -> None:
        super().trace_note(self.story.flow.machines.without_paths(what))

    # -- its loop --------------------------------------------------------------------------------------

    def _live(self) -> None:
        story, stage, connection = self.story, self.stage, connection_of()
        clock = FiberClock(self.process)
        look = partial(resuming.check_before_fencing, task.sink_options(stage, connection))
        self._call(self._source, look)
        resumed = self._call(self._source, partial(resuming.resume, connection, stage.sink_id))
        self.options = task.sink_options(stage, connection, resumed.sink_epoch)
        self.trace_note(f"goes on at {sorted(resumed.ends.items())}, {self.cuts}")
        ranges = self._call(
            self._source, partial(stage_ranges.ranges_of, stage, connection, self.cuts, resumed)
        )
        at, batch_id, idle_triggers = self._call(self._source, ranges.initial), 0, 1
        while True:
            is_fed = story.is_fed  # before it is asked what there is
            end = self._call(self._source, partial(ranges.next_end, at))
            if end == at:
                if is_fed:
                    return
                idle_triggers = min(2 * idle_triggers, IDLE_TRIGGERS_MAX)
            else:
                tasks = self._call(self._source, partial(ranges.tasks, at, end))
                self._micro_batch(batch_id, tasks, end)
                at, batch_id, idle_triggers = end, batch_id + 1, 1
            clock.pause(idle_triggers * self._random.randint(*TRIGGER_MS))

    def _micro_batch(self, batch_id: int, tasks: list[StageTask], end: Json) -> None:
        story = self.story
        told = ", ".join(
            f"{each.source_range.source} {each.planned.read_from} to {each.planned.read_end}"
            for each in tasks
        )
        self.trace_note(f"micro-batch {batch_id}: {told}")
        story.planned += tasks
        ticket = self._call(self._planner, self._plan)
        self._around.watchers.of(SinkWatcher).sink_planned(ticket)
        self._around.counts.operations += sum(
            each.planned.read_end - each.planned.read_from for each in tasks
        )
        done: Pending[list[Attempted]] = Pending()
        StageTaskSet(self, ticket, tasks, self._random, done).start()
        attempted = done.result()
        decide = partial(commit.decide_batch, self.options, ticket, attempted, self.name, batch_id)
        self._call(self._committer, decide)
        self._around.counts.verdict("flow: micro-batch decided")
        self.has_decided = True
        story.decisions += 1
        failure = next((each.failure for each in attempted if each.failure is not None), None)
        if failure is not None:
            raise failure

    def _plan(self) -> Ticket:
        ticket = runs.plan_batch(self.options, self.name)
        if self.stage.has_state:
            stage_state.trim_changelog(self.stage, self.options.connection, ticket)
        return ticket


class StageTaskSet(TaskSet):
    """The tasks of one micro-batch of a stage."""

    def __init__(
        self,
        driver: StageDriver,
        ticket: Ticket,
        tasks: list[StageTask],
        random: Random,
        done: Pending[list[Attempted]],
    ) -> None:
        super().__init__(driver, len(tasks), random, done)
        self._of = driver
        self._ticket = ticket
        self._tasks = tasks

    def _work_of(self, attempt: TaskAttempt, task_attempt_id: int) -> tuple[Callable[[], Attempted], str]:
        driver, random = self._of, self._random
        machine = random.randrange(MACHINES)
        folder = driver.story.flow.machines.folder(machine)
        fails = random.random() < driver.mix.fail_task
        pauses_ms = [random.randint(0, THINKS_MS_MAX) for _ in range(2)]

        def loaded(partition: int, decided_end: int, rows: dict[bytes, bytes]) -> None:
            driver.story.loaded.append(Loaded(partition, decided_end, rows, attempt.worker.name))
            this_process().clock.pause(pauses_ms[1])
            if fails and driver.bites(Fault.SINK_TASK_FAILED, 1.0):
                raise TaskFailed("the user's own code")

        def work() -> Attempted:
            this_process().clock.pause(pauses_ms[0])
            return task.run_attempt(
                driver.stage,
                driver.options,
                self._ticket,
                self._tasks[attempt.task],
                query_id=driver.name,
                task_attempt_id=task_attempt_id,
                attempt_number=attempt.number,
                store=folder,
                state_kind=partial(WatchedState, driver.story.flow.bounds, loaded),
            )

        return work, f"on machine {machine}"


class WatchedState(TaskState):
    """A task's state, with bounds that a short history comes to; what it begins with is shown to the checkers."""

    def __init__(
        self,
        bounds: StateBounds,
        loaded: Callable[[int, int, dict[bytes, bytes]], None],
        stage: Stage,
        connection: Connection,
        ticket: Ticket,
        source_range: SourceRange,
        folder: Path,
    ) -> None:
        super().__init__(stage, connection, ticket, source_range, folder)
        self._bounds = bounds
        self._loaded = loaded

    def bounds(self) -> StateBounds:
        return self._bounds

    def load(self) -> State:
        state = super().load()
        source_range = self._range
        self._loaded(source_range.source.partition, source_range.batch_from, dict(state.scan()))
        return state
