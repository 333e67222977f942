"""The tasks of one micro-batch: each runs in one or more attempts, and the first report of each wins.

An attempt is killed, or given up as lost while it goes on unseen, or doubled because it is slow. A straggler comes
to its rows when another attempt has won, amid the commit or soon after it. Only the driver's view decides what starts
next; what an attempt that nobody waits for still writes is the protocol's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted
from semel.errors import SemelError
from semel.sim.sinks.life import Life
from semel.sim.sinks.story import ONE_TOO_MANY
from semel.sim.sinks.worker import Worker
from semel.sim.world.faults import Fault
from semel.sim.world.fiber import Pending
from semel.spark import task_write
from semel.spark.planning import ReadRange

if TYPE_CHECKING:
    from semel.sim.sinks.driver import SimulatedDriver

REPORT_MS_MAX: Final = 10
FAULT_AFTER_MS_MAX: Final = 120
STRAGGLES_MS_MAX: Final = 2_000
LOOK_AGAIN_MS: Final = 10


class TaskFailed(SemelError):
    """The query before the sink raises."""


class TaskAttempt:
    def __init__(self, task: int, number: int, worker: Worker, *, straggles: bool) -> None:
        self.task = task
        self.number = number
        self.worker = worker
        self.straggles = straggles  # it stands still before its first row, and nobody can tell it to stop
        self.is_wanted = True  # False: killed or given up; its report means nothing


class TaskSet:
    """``done`` gets every task's winner, in order, or the error of a task that failed too often."""

    def __init__(self, driver: Life, task_count: int, random: Random, done: Pending[list[Attempted]]) -> None:
        self._driver = driver
        self._task_count = task_count
        self._random = random
        self._done = done
        self._winners: dict[int, Attempted] = {}
        self._attempts = [0] * task_count
        self._running: list[TaskAttempt] = []
        self._is_over = False

    def start(self) -> None:
        if not self._task_count:  # all that its offsets entry names was decided before its query began
            self._end([], None)
        for task in range(self._task_count):
            self._start(task)

    def _start(self, task: int) -> None:
        driver, number = self._driver, self._attempts[task]
        self._attempts[task] += 1
        task_attempt_id = driver.next_task_attempt_id()
        straggles = self._straggles(task)
        attempt = TaskAttempt(task, number, driver.new_worker(f"t{task_attempt_id}"), straggles=straggles)
        self._running.append(attempt)
        work, told = self._work_of(attempt, task_attempt_id)
        self._plan_faults(attempt)
        driver.trace_note(f"task {task} attempt {number} starts as {attempt.worker.name}, {told}")
        attempt.worker.run(work, lambda result, error: self._ended(attempt, result, error))

    def _straggles(self, task: int) -> bool:
        """Whether the attempt comes to its rows when others have won."""
        return False

    def _work_of(self, attempt: TaskAttempt, task_attempt_id: int) -> tuple[Callable[[], Attempted], str]:
        """What an attempt does, and how that is told."""
        raise NotImplementedError

    # -- what becomes of an attempt ---------------------------------------------------------------------

    def _ended(self, attempt: TaskAttempt, result: Attempted | None, error: Exception | None) -> None:
        driver = self._driver
        driver.worker_is_done(attempt.worker)
        if error is not None and not isinstance(error, SemelError):
            raise error
        if error is not None:
            driver.trace_note(f"{attempt.worker.name} stops: {type(error).__name__}: {error}")
        delay_ms = self._random.randint(1, REPORT_MS_MAX)
        driver.process.after(delay_ms, lambda: self._report(attempt, result, error))

    def _report(self, attempt: TaskAttempt, result: Attempted | None, error: SemelError | None) -> None:
        """The driver hears of it."""
        if self._is_over or not attempt.is_wanted or attempt.task in self._winners:
            return
        self._forget(attempt)
        if error is None:
            assert result is not None
            self._winners[attempt.task] = result
            for other in [other for other in self._running if other.task == attempt.task]:
                self._give_up(other)
            if len(self._winners) == self._task_count:
                self._end([self._winners[task] for task in range(self._task_count)], None)
        elif self._attempts[attempt.task] < self._driver.attempts_max:
            self._start(attempt.task)
        elif not any(other.task == attempt.task for other in self._running):
            self._end(None, error)

    def _end(self, winners: list[Attempted] | None, error: SemelError | None) -> None:
        self._is_over = True
        for attempt in list(self._running):
            self._give_up(attempt)
        self._done.know(winners, error)

    def _forget(self, attempt: TaskAttempt) -> None:
        attempt.is_wanted = False
        if attempt in self._running:
            self._running.remove(attempt)

    def _give_up(self, attempt: TaskAttempt) -> None:
        """Told to stop; some do not hear it."""
        self._forget(attempt)
        if not attempt.worker.is_busy:
            return
        if self._driver.bites(Fault.SINK_ZOMBIE, 1.0 if attempt.straggles else self._driver.mix.zombie):
            self._driver.stall(attempt.worker)
        else:
            self._driver.kill_worker(attempt.worker)

    def _plan_faults(self, attempt: TaskAttempt) -> None:
        mix, process = self._driver.mix, self._driver.process
        if attempt.straggles:
            process.after(self._random.randint(1, FAULT_AFTER_MS_MAX), lambda: self._double(attempt))
        for chance, happens in (
            (mix.kill_task, self._kill),
            (mix.lose_task, self._lose),
            (mix.double_task, self._double),
        ):
            if self._random.random() < chance:
                process.after(
                    self._random.randint(1, FAULT_AFTER_MS_MAX),
                    lambda happens=happens: happens(attempt),  # type: ignore[misc]
                )

    def _may_start_again(self, attempt: TaskAttempt) -> bool:
        return (
            not self._is_over
            and attempt.is_wanted
            and attempt.worker.is_busy
            and self._attempts[attempt.task] < self._driver.attempts_max
        )

    def _kill(self, attempt: TaskAttempt) -> None:
        if self._may_start_again(attempt) and self._driver.bites(Fault.SINK_TASK_KILL, 1.0):
            self._forget(attempt)
            self._driver.kill_worker(attempt.worker)
            self._start(attempt.task)

    def _lose(self, attempt: TaskAttempt) -> None:
        """Its executor is not heard of: it stands still, perhaps, and goes on when nobody counts on it."""
        if self._may_start_again(attempt) and self._driver.bites(Fault.SINK_TASK_LOST, 1.0):
            self._forget(attempt)
            self._driver.stall(attempt.worker)
            self._driver.trace_note(f"{attempt.worker.name} is lost")
            self._start(attempt.task)

    def _double(self, attempt: TaskAttempt) -> None:
        if self._may_start_again(attempt) and self._driver.bites(Fault.SINK_SPECULATION, 1.0):
            self._start(attempt.task)


class RangeTaskSet(TaskSet):
    """Of a sink: each task writes the rows that the query before it gives of a source range."""

    def __init__(
        self,
        driver: SimulatedDriver,
        ticket: Ticket,
        ranges: Sequence[ReadRange],
        query_id: str,
        random: Random,
        done: Pending[list[Attempted]],
    ) -> None:
        super().__init__(driver, len(ranges), random, done)
        self._of = driver
        self._ticket = ticket
        self._ranges = ranges
        self._query_id = query_id

    def _straggles(self, task: int) -> bool:
        """What the query looks up has grown until a straggler comes to it: its rows are others, and one too many."""
        is_first, story = self._attempts[task] == 1 < self._driver.attempts_max, self._of.story
        return is_first and story.rows_differ and self._driver.bites(Fault.SINK_OTHER_ROWS, story.straggle)

    def _work_of(self, attempt: TaskAttempt, task_attempt_id: int) -> tuple[Callable[[], Attempted], str]:
        driver, planned = self._of, self._ranges[attempt.task]
        version = ONE_TOO_MANY if attempt.straggles else driver.version_of_rows(attempt.number, self._random)
        rows = driver.story.batches_of(planned, version, driver.rows_per_arrow_batch)
        fails_at = self._random.randint(1, 4) if self._random.random() < driver.mix.fail_task else 0

        def work() -> Attempted:
            return task_write.write_range(
                driver.options,
                self._ticket,
                planned.source_range,
                self._handed_on(attempt, rows, fails_at),
                query_id=self._query_id,
                task_attempt_id=task_attempt_id,
                attempt_number=attempt.number,
            )

        return work, f"rows {version}"

    def _handed_on(
        self, attempt: TaskAttempt, rows: Iterator[pa.RecordBatch], fails_at: int
    ) -> Iterator[pa.RecordBatch]:
        """As the query before the sink gives them: it takes its time, and may fail."""
        clock = attempt.worker.memory.clock
        until_ms = clock.elapsed_ms() + (STRAGGLES_MS_MAX if attempt.straggles else 0)
        while attempt.is_wanted and clock.elapsed_ms() < until_ms:
            clock.pause(LOOK_AGAIN_MS)
        for number, batch in enumerate(rows, 1):
            clock.pause(self._random.randint(1, 40))
            if number == fails_at and self._driver.bites(Fault.SINK_TASK_FAILED, 1.0):
                raise TaskFailed("the user's own code")
            yield batch
