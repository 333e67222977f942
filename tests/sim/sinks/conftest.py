"""A quiet world with one sink, in which a test says who stands still before which step, and who dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest

from semel.core.sink.journal import Begin, Decision, Fence, WriterClaim
from semel.errors import SemelError
from semel.sim.campaign.simulation import Simulation
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.sinks.checkpoint import Checkpoint
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.mix import NOTHING_HAPPENS, SinkMix
from semel.sim.sinks.story import SinkStory, row_of
from semel.sim.sinks.watcher import SinkWatcher
from semel.sim.world.faults import FaultMix
from semel.sim.world.fiber import Pending
from semel.sim.world.process import Process
from semel.spark import commit, takeover
from semel.spark.flight import Flight
from semel.spark.planning import ReadRange
from semel.spark.process import this_process
from semel.spark.sink_log import SinkLog
from semel.types import TopicPartition

SINK = "k0"
WITHIN_MS = 120_000
STEPS = {Fence: "FENCE", Begin: "BEGIN", WriterClaim: "WRITER", Decision: "DECISION"}


@dataclass(slots=True)
class ScriptedStory(SinkStory):
    """Its source has as many rows as the test says."""

    rows: dict[int, int] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)  # by attempt number

    arrive: Callable[[str], None] = print

    def batches_of(self, planned: ReadRange, version: int, size: int) -> Iterator[pa.RecordBatch]:
        self.arrive("reads")
        yield from SinkStory.batches_of(self, planned, version, size)

    def heads(self) -> dict[TopicPartition, int]:
        return {tp: self.rows[tp.partition] for tp in self.sources}


class Hold:
    """Whoever comes to this step stands still until it is let go."""

    def __init__(self, who: str, step: str, skip: int) -> None:
        self.who, self.step, self.skip = who, step, skip
        self.is_reached = self.is_let_go = False
        self._let_go: Pending[None] = Pending()

    def stand(self) -> None:
        self.is_reached = True
        self._let_go.result()

    def let_go(self) -> None:
        if not self.is_let_go:
            self.is_let_go = True
            self._let_go.know()


class World:
    """The server, and whatever drivers the test starts; every checker watches."""

    def __init__(self, *, sources: int = 1, rows_differ: bool = False, rows_per_batch: int = 8) -> None:
        self.story = ScriptedStory(
            SINK,
            source_partitions=sources,
            topics=["out"],
            output_partitions=1,
            row_gap_ms=1,
            rows_per_batch=(rows_per_batch,),
            has_keys=True,
            elapsed_ms=lambda: 0,
            rows_differ=rows_differ,
            rows=dict.fromkeys(range(sources), 8),
            arrive=self.arrive,
        )
        self._simulation = Simulation(0, mix=FaultMix(), sinks=[self.story])
        self._simulation.server.prepare()
        self._simulation.server.start()
        self._holds: list[Hold] = []
        self.ended: dict[SimulatedDriver, SemelError | None] = {}

    # -- what a test says -------------------------------------------------------------------------------

    def checkpoint(self, query: str = "q", *, from_sink: bool = False) -> Checkpoint:
        start = None if from_sink else dict.fromkeys(self.story.sources, 0)
        topic_id = None if from_sink else self.story.source_topics[-1].topic_id
        return Checkpoint(query, start, self.story.sink_ids[-1], start_topic_id=topic_id)

    def driver(
        self,
        checkpoint: Checkpoint,
        *,
        splits: int = 1,
        tampered: bool = False,
        mix: SinkMix = NOTHING_HAPPENS,
    ) -> SimulatedDriver:
        """A driver that has started; it goes on whenever the test waits for something."""
        driver = ScriptedDriver(
            self.story,
            f"{SINK}.d{len(self.story.drivers)}",
            checkpoint,
            splits,
            Random(len(self.story.drivers)),
            self._simulation.around,
            lambda: mix,
            self._ended,
        )
        driver.is_tampered = tampered
        driver.rows_per_arrow_batch, driver.attempts_max = 2, 4
        self.story.was_tampered |= tampered
        rivals = [other for other in self.story.drivers if other is not driver and not other.is_gone]
        for one in (*rivals, driver):
            one.had_rival |= bool(rivals)
        driver.start()
        return driver

    def die_before_the_decision(self, checkpoint: Checkpoint, *, splits: int = 1) -> None:
        """A driver writes all rows of its first micro-batch, and is dead before it decides."""
        decides = self.hold(len(self.story.drivers), "commit", "DECISION")
        driver = self.driver(checkpoint, splits=splits)
        self.until_held(decides)
        driver.die()

    def hold(self, driver: int, process: str, step: str, *, skip: int = 0) -> Hold:
        """Stop a process of a driver to come before ``step``, when it has done it ``skip`` times."""
        self._holds.append(Hold(f"{SINK}.d{driver}.{process}", step, skip))
        return self._holds[-1]

    def until(self, condition: Callable[[], bool]) -> None:
        scheduler = self._simulation.scheduler
        assert scheduler.run(condition, scheduler.now_ms + WITHIN_MS), "it did not come about"

    def wait(self, wait_ms: int) -> None:
        scheduler = self._simulation.scheduler
        scheduler.run(lambda: False, scheduler.now_ms + wait_ms)

    def until_held(self, hold: Hold) -> None:
        self.until(lambda: hold.is_reached)

    def until_committed(self, checkpoint: Checkpoint, batches: int) -> None:
        self.until(lambda: checkpoint.commits >= batches)

    def end_of(self, driver: SimulatedDriver) -> SemelError | None:
        """The error that ends this driver, when every invariant holds over the logs as they lie then."""
        self.until(lambda: driver in self.ended)
        self.check()
        return self.ended[driver]

    def finish(self, *drivers: SimulatedDriver) -> None:
        """No row comes any more; these drivers come to their end, and whatever else is left ends too."""
        self.story.is_finished = True
        self.story.close_source()
        self.until(lambda: all(driver in self.ended for driver in drivers))
        for hold in self._holds:
            hold.let_go()
        self.until(lambda: all(driver.is_gone or driver not in self.ended for driver in self.story.drivers))
        self.check()

    def check(self) -> None:
        """Every invariant, over the logs as they lie there now."""
        storage = self._simulation.server.storage
        assert storage is not None
        self.logs = self._simulation.witness.show_logs(storage)

    def output(self) -> list[tuple[int, int]]:
        """(source partition, number) of every row, in the order in which they lie."""
        self.check()
        values = [value for batch in self.logs[TopicPartition("out", 0)] for value in batch.values]
        return [(row.source_partition, row.number) for row in map(row_of, values)]

    def set_server_clock(self, ahead_ms: int) -> None:
        """The server's time of day; drivers' is right."""
        self._simulation.server.clock.step_to(ahead_ms)

    def forget_names(self) -> None:
        """The server's, of every identity."""
        self._simulation.server.forget_names(lambda name: True)

    def trim(self, before_offset: int) -> None:
        """Take what the output holds below ``before_offset``."""
        simulation = self._simulation
        process = Process(simulation.scheduler)
        cluster = SimulatedCluster(process, Session("admin", process, simulation.network), WITHIN_MS)
        answers: list[object] = []
        drive(
            cluster.delete_records({TopicPartition("out", 0): before_offset}),
            lambda *answer: answers.append(answer),
        )
        self.until(lambda: bool(answers))

    # -- what happens -----------------------------------------------------------------------------------

    def _ended(self, driver: SimulatedDriver, error: SemelError | None) -> None:
        self.ended[driver] = error
        if error is not None:
            self._simulation.watchers.of(SinkWatcher).sink_stopped(self.story, driver, error)

    def arrive(self, step: str) -> None:
        owner = this_process().owner
        for hold in self._holds:
            if hold.who == owner and hold.step == step and not (hold.is_reached or hold.is_let_go):
                if hold.skip:
                    hold.skip -= 1
                else:
                    hold.stand()

    def close(self) -> None:
        for driver in self.story.drivers:
            driver.die_with_all()


class ScriptedDriver(SimulatedDriver):
    """Its attempts give the rows that the test says."""

    def version_of_rows(self, attempt_number: int, random: Random) -> int:
        assert isinstance(self.story, ScriptedStory)
        return self.story.versions.get(attempt_number, 0)


@pytest.fixture
def make_world(monkeypatch: pytest.MonkeyPatch):
    """``make_world(sources=…)``; every step of the protocol can be held in it."""
    worlds: list[World] = []
    append, take_over, send = SinkLog.append, SinkLog.take_over, Flight.send
    scan, stored_rows, fence_writers = takeover.scan, commit.stored_rows, commit.fence_writers

    def appends(log, record, *rest, **more):
        worlds[-1].arrive(STEPS.get(type(record), ""))
        return append(log, record, *rest, **more)

    def takes_over(log, query=""):
        worlds[-1].arrive("take over")
        return take_over(log, query)

    def sends(flight, batches: Mapping[TopicPartition, bytearray]):
        worlds[-1].arrive("rows")
        return send(flight, batches)

    def scans(*of):
        worlds[-1].arrive("scan")
        return scan(*of)

    def fences(*of):
        fence_writers(*of)
        worlds[-1].arrive("twins are fenced")

    def fences_writers(*of):
        worlds[-1].arrive("fences")
        return fence_writers(*of)

    def reads_back(*of):
        worlds[-1].arrive("read back")
        return stored_rows(*of)

    monkeypatch.setattr(takeover, "scan", scans)
    monkeypatch.setattr(takeover, "fence_writers", fences_writers)
    monkeypatch.setattr(commit, "fence_writers", fences)
    monkeypatch.setattr(commit, "stored_rows", reads_back)
    monkeypatch.setattr(SinkLog, "append", appends)
    monkeypatch.setattr(SinkLog, "take_over", takes_over)
    monkeypatch.setattr(Flight, "send", sends)

    def make(**fields) -> World:
        worlds.append(World(**fields))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
