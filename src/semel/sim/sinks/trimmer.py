"""Who keeps a sink's outputs small: trims one partition of them after another, whatever stands in it.

He knows nothing of micro-batches. Mostly he takes rows that were decided long ago; now and then he takes some that
a scan would have to find, and sometimes while it looks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from semel.errors import SemelError
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.story import SinkStory
from semel.sim.world.faults import Fault
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

REQUEST_TIMEOUT_MS: Final = 5_000
LOOK_AGAIN_MS: Final = 5
MOMENTS: Final[tuple[Callable[[SimulatedDriver], bool], ...]] = (
    lambda driver: True,
    lambda driver: driver.is_planning,
    lambda driver: driver.has_running_tasks,
    lambda driver: driver.is_deciding,
)


class OutputTrimmer:
    """One process beside one sink; never killed, but its requests are lost like all others."""

    def __init__(self, story: SinkStory, random: Random, around: Surroundings, interval_ms: int) -> None:
        self.wanted = True  # False: no more after this one
        self.is_busy = False
        self._story = story
        self._random = random
        self._around = around
        self._interval_ms = interval_ms  # mean
        self._process = Process(around.scheduler)
        self._name = f"{story.sink_id}.trimmer"
        session = Session(self._name, self._process, around.network)
        self._cluster = SimulatedCluster(self._process, session, REQUEST_TIMEOUT_MS)
        self._later()

    def _later(self) -> None:
        moment = self._random.choice(MOMENTS)
        delay_ms = drawn_wait_ms(self._random, self._interval_ms)
        self._process.after(delay_ms, lambda: self._begin_at(moment))

    def _begin_at(self, moment: Callable[[SimulatedDriver], bool]) -> None:
        if not self.wanted:
            return
        if not moment(self._story.drivers[-1]):
            self._process.after(LOOK_AGAIN_MS, lambda: self._begin_at(moment))
        elif self._around.counts.occurs(Fault.SINK_TRIMMED):
            self.is_busy = True
            drive(self._trim(self._random.choice(self._story.outputs)), self._done)
        else:
            self._later()

    def _done(self, result: None, error: Exception | None) -> None:
        self.is_busy = False
        if error is not None and not isinstance(error, SemelError):
            raise error
        if error is not None:
            self._around.trace.note(self._name, f"refused: {type(error).__name__}: {error}")
        self._later()

    async def _trim(self, tp: TopicPartition) -> None:
        start = (await self._cluster.list_offsets({tp: EARLIEST_TIMESTAMP}))[tp].offset
        end = (await self._cluster.list_offsets({tp: LATEST_TIMESTAMP}))[tp].offset
        before = self._random.choice((-1, end, *(self._random.randint(start, max(start, end)),) * 2))
        low = (await self._cluster.delete_records({tp: before}))[tp]
        if low > start:
            self._around.counts.bit(Fault.SINK_TRIMMED)
        self._around.trace.note(self._name, f"{tp} trimmed to {before}: it starts at {low}")
