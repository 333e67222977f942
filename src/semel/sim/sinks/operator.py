"""Who runs a sink's query: starts its driver again whenever it ends, and does to it what people do.

He kills it, starts a second one beside it, puts an old checkpoint back, loses it, or sets minPartitions anew. He
loses a checkpoint with the driver that was about to decide, and then lets fewer rows into a micro-batch. When
a sink stops with an error that will not go away, he takes the way out that its text names for a stateless query:
a new checkpoint, from ``startingOffsets=sink:<id>`` on, and a new sink id too where the outputs prove nothing more.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.errors import DataLoss, NonDeterministicReplay, ReplayDiffers, ReplayUnprovable, SemelError
from semel.sim.sinks.checkpoint import Checkpoint
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.mix import NOTHING_HAPPENS, SinkMix
from semel.sim.sinks.story import SinkStory
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.world.faults import Fault
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms

RESTART_MS: Final = (5, 1_500)
WAYS_OUT_MAX: Final = 6  # in a row; then he leaves it
SPLITS: Final = (1, 2)
AMID_ROWS: Final = 0.9  # how often a disaster waits a little for a task to run, each time that it looks
LOOK_AGAIN_MS: Final = 20
FEW_ROWS: Final = 3  # maxOffsetsPerTrigger, less than what mostly stands undecided


class SinkOperator:
    """Of one sink, for a whole history."""

    def __init__(self, story: SinkStory, random: Random, around: Surroundings, mix: SinkMix) -> None:
        self.story: Final = story
        self._random = random
        self._around = around
        self._mix = mix
        self._queries = 0
        self._drivers = 0
        self._splits = SPLITS[0] if story.rows_differ else random.choice(SPLITS)
        story.was_recut = (
            self._splits > 1
        )  # where a split begins depends on the range: a new query cuts others
        self._is_tampered = False
        self._takes_few = False  # the next driver
        self._ways_out = 0
        self._checkpoint = self._new_checkpoint(from_sink=False)
        self._driver: SimulatedDriver | None = None

    def start(self) -> None:
        self._start_driver()
        self._plan_disaster()
        self._plan_forgetting()

    def stop(self) -> None:
        """No more disasters, and no more rows."""
        self._mix = NOTHING_HAPPENS
        self.story.close_source()

    @property
    def is_settled(self) -> bool:
        """All rows are decided, or the sink has stopped for good; and no part of any driver is left."""
        story = self.story
        return (story.is_finished or story.has_stopped) and all(driver.is_gone for driver in story.drivers)

    @property
    def processes(self) -> list[tuple[str, Process]]:
        """All that could be paused now."""
        found = []
        for driver in self.story.drivers:
            if driver.process.alive:
                found.append((driver.name, driver.process))
            found += [(worker.name, worker.process) for worker in driver.workers if worker.is_busy]
        return found

    def end(self) -> None:
        """The end of the world."""
        self.story.has_stopped = True
        for driver in self.story.drivers:
            driver.die_with_all()

    # -- drivers ---------------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        if self.story.is_finished or self.story.has_stopped:
            return
        story = self.story
        driver = SimulatedDriver(
            story,
            f"{story.sink_id}.d{self._drivers}",
            self._checkpoint,
            self._splits,
            Random(self._random.random()),
            self._around,
            lambda: self._mix,
            self._ended,
        )
        self._drivers += 1
        driver.is_tampered = self._is_tampered
        if self._takes_few:
            driver.rows_per_batch_max, self._takes_few = FEW_ROWS, False
        rivals = [other for other in story.drivers if other is not driver and not other.is_gone]
        for one in (*rivals, driver):
            one.had_rival |= bool(rivals)
        self._driver = driver
        driver.trace_note(
            f"starts on {self._checkpoint.query_id}, commits {self._checkpoint.commits}, splits {self._splits}, "
            f"rivals {[rival.name for rival in rivals]}"
        )
        driver.start()

    def _start_later(self) -> None:
        self._around.scheduler.after(self._random.randint(*RESTART_MS), self._restart)

    def _restart(self) -> None:
        if self._driver is not None and self._driver.process.alive:
            return
        self._tamper()
        self._start_driver()

    def _ended(self, driver: SimulatedDriver, error: SemelError | None) -> None:
        if error is None:
            self.story.is_finished = True
            return
        self._around.counts.verdict(f"sink: stopped, {type(error).__name__}")
        self._around.watchers.of(SinkWatcher).sink_stopped(self.story, driver, error)
        if driver is not self._driver:
            return
        if isinstance(error, DataLoss):
            self.story.fails_on_data_loss = False
        if isinstance(error, (ReplayDiffers, NonDeterministicReplay, ReplayUnprovable)):
            self._ways_out = 1 if driver.has_committed else self._ways_out + 1
            if self._ways_out > WAYS_OUT_MAX:
                self._leave_it(driver, error)
                return
            # Where nothing is decided, the rows of an older topic stand in the way of every query.
            if isinstance(error, ReplayUnprovable) or (self._ways_out > 2 and self.story.was_made_anew):
                self._take_another_name()
            elif not (self.story.rows_differ and isinstance(error, NonDeterministicReplay)):
                self._take_the_way_out()
        self._start_later()

    def _take_the_way_out(self) -> None:
        self._begin_at_the_decided_ends()
        if self._ways_out > 1 and self.story.was_recut:
            self._splits = SPLITS[self._ways_out % len(SPLITS)]

    def _take_another_name(self) -> None:
        """What was decided stays decided; rows that were not, and are still there, come a second time."""
        story = self.story
        story.sink_ids.append(f"{story.sink_id}.{len(story.sink_ids)}")
        self._checkpoint = self._new_checkpoint(from_sink=True)
        self._is_tampered = False
        self._around.trace.note(story.sink_id, f"goes on as {story.sink_ids[-1]}")

    def _leave_it(self, driver: SimulatedDriver, error: SemelError) -> None:
        driver.trace_note("is left for good")
        self._around.watchers.of(SinkWatcher).sink_left(self.story, driver, error)
        self.story.has_stopped = True
        self._around.counts.verdict("sink: left for good")

    def _begin_at_the_decided_ends(self) -> None:
        """A lost checkpoint costs a stateless query nothing then; but for the splits.

        How many there are of a range depends on the range (``minPartitions``), and a new query cuts others.
        """
        self._checkpoint = self._new_checkpoint(from_sink=True)
        self._is_tampered, self.story.was_lost = self.story.was_recut, True

    def _new_checkpoint(self, *, from_sink: bool) -> Checkpoint:
        self._queries += 1
        start = None if from_sink else dict.fromkeys(self.story.sources, 0)
        topic_id = None if from_sink else self.story.source_topics[-1].topic_id
        return Checkpoint(
            f"{self.story.sink_id}.q{self._queries}",
            start,
            self.story.sink_ids[-1],
            start_topic_id=topic_id,
        )

    # -- disasters -------------------------------------------------------------------------------------

    def _plan_disaster(self) -> None:
        interval_ms = self._mix.driver_kill_interval_ms
        if interval_ms:
            self._around.scheduler.after(drawn_wait_ms(self._random, interval_ms), self._disaster)

    def _disaster(self) -> None:
        driver, mix, counts = self._driver, self._mix, self._around.counts
        if mix is NOTHING_HAPPENS:
            return
        if driver is not None and driver.process.alive:
            if not driver.has_running_tasks and self._random.random() < AMID_ROWS:
                self._around.scheduler.after(LOOK_AGAIN_MS, self._disaster)
                return
            if counts.bites(Fault.SINK_SECOND_DRIVER, self._random, mix.second_driver):
                driver.stall_all()
                self._tamper()
                self._start_driver()
            elif counts.bites(Fault.SINK_DRIVER_KILL, self._random, 1.0):
                driver.die(mix.zombie)
                self._start_later()
        self._plan_disaster()

    def _plan_forgetting(self) -> None:
        if self._mix.forget_interval_ms:
            self._around.scheduler.after(self._mix.forget_interval_ms, self._forget)

    def _forget(self) -> None:
        """The machine is gone with driver and checkpoint, and nobody knows how many rows it took at a time.

        That is when all rows of a micro-batch stand in the outputs, more than the new query's first one has.
        """
        driver = self._driver
        if self._mix is NOTHING_HAPPENS:
            return
        if driver is None or not driver.is_deciding:
            self._around.scheduler.after(LOOK_AGAIN_MS, self._forget)
            return
        if self._around.counts.bites(Fault.SINK_FORGOTTEN, self._random, 1.0):
            driver.die()
            self._around.trace.note(self.story.sink_id, "checkpoint lost, and how many rows it took")
            self._begin_at_the_decided_ends()
            self._takes_few = True
            self._start_later()
        self._plan_forgetting()

    def _tamper(self) -> None:
        """What becomes of a checkpoint between two lives of its query."""
        random, mix, counts, story = self._random, self._mix, self._around.counts, self.story
        if not story.rows_differ and counts.bites(Fault.SINK_RECUT, random, mix.recut):
            self._splits = random.choice(SPLITS)
            story.was_recut = story.was_tampered = self._is_tampered = True
        if random.random() >= mix.tamper:
            return
        kind = random.choice(
            ("restored", "offsets torn", "commit torn", "lost", "lost", "lost", "lost, from the start")
        )
        backups = [backup for backup in story.backups if backup.sink_id == story.sink_ids[-1]]
        if kind == "restored" and backups and counts.bites(Fault.SINK_RESTORED, random, 1.0):
            self._checkpoint = random.choice(backups).copy()
        elif kind.endswith("torn") and self._checkpoint.ends and counts.bites(Fault.SINK_TORN, random, 1.0):
            self._checkpoint = self._checkpoint.torn(offsets_too=kind == "offsets torn")
        elif kind.startswith("lost") and counts.bites(Fault.SINK_LOST, random, 1.0):
            if len(story.sink_ids) > 1:  # another name does not know what was decided before it
                kind = "lost"
            if kind == "lost":
                self._begin_at_the_decided_ends()
            else:
                self._checkpoint = self._new_checkpoint(from_sink=False)
        else:
            return
        self._around.trace.note(story.sink_id, f"checkpoint {kind}")
        if kind not in ("lost", "commit torn"):
            self._is_tampered = story.was_tampered = True
