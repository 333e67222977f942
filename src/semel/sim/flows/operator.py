"""Who runs the stages of a flow: starts a stage's driver again whenever it ends, and does to it what people do.

He kills drivers, one stage's or all of the flow's at once, starts a second one beside the first, takes folders with
large state away or puts old ones back. When a step fails he mends it; where rows of the older steps are undecided he
runs them as they were first, as the error says.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.errors import ReplayDiffers, SemelError, StepFailed
from semel.sim.flows.driver import StageDriver
from semel.sim.flows.machines import MACHINES
from semel.sim.flows.story import FlowStory, StageStory
from semel.sim.flows.watcher import FlowWatcher
from semel.sim.sinks.mix import NOTHING_HAPPENS, SinkMix
from semel.sim.world.faults import Fault
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms

RESTART_MS: Final = (5, 800)
AMID_TASKS: Final = (
    0.6  # how often a disaster comes amid tasks; else at any time, as amid a driver's beginning
)
AMID_ROWS: Final = 0.9  # how often a disaster waits a little for a task to run, each time that it looks
LOOK_AGAIN_MS: Final = 20
ALL_AT_ONCE: Final = 0.2
STOPS_MAX: Final = 12  # in a row, with nothing decided in between, of an error that asks for something else
FOLDER_INTERVALS_MS: Final = (0, 200, 1_000)


class StageOperator:
    """Of one stage, for a whole history."""

    def __init__(self, story: StageStory, random: Random, around: Surroundings, mix: SinkMix) -> None:
        self.story: Final = story
        self.mix = mix
        self._random = random
        self._around = around
        self._stops = 0
        self._waits_for_tasks = False  # the next disaster
        self._drivers = 0
        self.driver: StageDriver | None = None

    def start(self) -> None:
        self._start_driver()
        self._plan_disaster()

    def kill(self) -> None:
        driver = self.driver
        if driver is not None and driver.process.alive:
            driver.die(self.mix.zombie)
            self._start_later()

    def _start_driver(self) -> None:
        story = self.story
        if story.is_finished or story.has_stopped:
            return
        driver = StageDriver(
            story,
            f"{story.sink_id}.d{self._drivers}",
            Random(self._random.random()),
            self._around,
            lambda: self.mix,
            self._ended,
        )
        self._drivers += 1
        rivals = [other for other in story.drivers if other is not driver and not other.is_gone]
        for one in (*rivals, driver):
            one.had_rival |= bool(rivals)
        self.driver = driver
        driver.trace_note(
            f"starts, steps {'mended' if driver.is_mended else 'as they were'}, rivals {[one.name for one in rivals]}"
        )
        driver.start()

    def _start_later(self) -> None:
        self._around.scheduler.after(self._random.randint(*RESTART_MS), self._restart)

    def _restart(self) -> None:
        if self.driver is None or not self.driver.process.alive:
            self._start_driver()

    def _ended(self, driver: StageDriver, error: SemelError | None) -> None:
        story = self.story
        if error is None:
            story.is_finished = True
            return
        self._around.counts.verdict(f"flow: stopped, {type(error).__name__}")
        watcher = self._around.watchers.of(FlowWatcher)
        watcher.flow_stopped(story, driver, error)
        if driver is not self.driver:
            return
        if isinstance(error, (StepFailed, ReplayDiffers)):
            self._stops = 1 if driver.has_decided else self._stops + 1
            if self._stops > STOPS_MAX:
                story.has_stopped = True
                watcher.flow_left(story, driver, error)
                return
        if isinstance(error, StepFailed):
            story.mend()
        elif isinstance(error, ReplayDiffers) and story.was_mended:
            story.mend(back=driver.is_mended)  # rows of the other steps are undecided
        self._start_later()

    def _plan_disaster(self) -> None:
        interval_ms = self.mix.driver_kill_interval_ms
        if interval_ms:
            self._waits_for_tasks = self._random.random() < AMID_TASKS
            self._around.scheduler.after(drawn_wait_ms(self._random, interval_ms), self._disaster)

    def _disaster(self) -> None:
        driver, mix, counts = self.driver, self.mix, self._around.counts
        if mix is NOTHING_HAPPENS:
            return
        if driver is not None and driver.process.alive:
            if self._waits_for_tasks and not driver.has_running_tasks and self._random.random() < AMID_ROWS:
                self._around.scheduler.after(LOOK_AGAIN_MS, self._disaster)
                return
            if counts.bites(Fault.SINK_SECOND_DRIVER, self._random, mix.second_driver):
                driver.stall_all()
                self._start_driver()
            elif counts.bites(Fault.SINK_DRIVER_KILL, self._random, 1.0):
                self.kill()
        self._plan_disaster()


class FlowOperator:
    """Of all stages of one flow."""

    def __init__(self, story: FlowStory, random: Random, around: Surroundings, mix: SinkMix) -> None:
        self.story: Final = story
        self._random = random
        self._around = around
        self._mix = mix
        self._folder_interval_ms = random.choice(FOLDER_INTERVALS_MS)
        self.stages: Final = [
            StageOperator(stage, Random(random.random()), around, mix) for stage in story.stages
        ]

    def start(self) -> None:
        for stage in self.stages:
            stage.start()
        self._plan_end_of_all()
        self._plan_loss_of_folder()

    def stop(self) -> None:
        """No more disasters."""
        self._mix = NOTHING_HAPPENS
        for stage in self.stages:
            stage.mix = NOTHING_HAPPENS

    @property
    def is_settled(self) -> bool:
        """All is decided, or a stage has stopped for good; and no part of any driver is left."""
        stories = self.story.stages
        is_over = self.story.is_finished or any(stage.has_stopped for stage in stories)
        return is_over and all(driver.is_gone for stage in stories for driver in stage.drivers)

    @property
    def what_is_open(self) -> list[str]:
        return [stage.sink_id for stage in self.story.stages if not stage.is_finished]

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        found = []
        for driver in (driver for stage in self.story.stages for driver in stage.drivers):
            if driver.process.alive:
                found.append((driver.name, driver.process))
            found += [(worker.name, worker.process) for worker in driver.workers if worker.is_busy]
        return found

    def end(self) -> None:
        """The end of the world."""
        for stage in self.story.stages:
            stage.has_stopped = True
            for driver in stage.drivers:
                driver.die_with_all()
        self.story.machines.close()

    def _plan_end_of_all(self) -> None:
        """The application's end is that of all its stages."""
        if interval_ms := self._mix.driver_kill_interval_ms:
            self._around.scheduler.after(drawn_wait_ms(self._random, 5 * interval_ms), self._end_all)

    def _end_all(self) -> None:
        if self._mix is NOTHING_HAPPENS:
            return
        if self._around.counts.bites(Fault.SINK_DRIVER_KILL, self._random, 1.0):
            for stage in self.stages:
                stage.kill()
        self._plan_end_of_all()

    def _plan_loss_of_folder(self) -> None:
        if self._folder_interval_ms:
            delay_ms = drawn_wait_ms(self._random, self._folder_interval_ms)
            self._around.scheduler.after(delay_ms, self._lose_folder)

    def _lose_folder(self) -> None:
        """It is lost, or one of long ago is there again; or a copy is made for that."""
        if self._mix is NOTHING_HAPPENS:
            return
        machines, counts, machine = self.story.machines, self._around.counts, self._random.randrange(MACHINES)
        kind = self._random.choice(("lost", "copied", "put back"))
        if kind == "copied" or not machines.has_copy(
            machine
        ):  # the first is copied, or nothing would be put back
            machines.copy_away(machine)
        elif kind == "lost":
            if counts.occurs(Fault.FLOW_STORE_LOST) and machines.lose(machine):
                counts.bit(Fault.FLOW_STORE_LOST)
        elif counts.occurs(Fault.FLOW_STORE_OLD) and machines.put_back(machine):
            counts.bit(Fault.FLOW_STORE_OLD)
        self._plan_loss_of_folder()
