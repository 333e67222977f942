"""One seed: a world is drawn, lives through its faults, heals, and must then finish everything.

The same seed gives the same history, to the byte of its trace. A history ends in a :class:`SeedResult`,
whatever happened: an invariant that was violated, a defect that raised, or work that did not finish.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from semel.core.log.config import LogConfig
from semel.sim.checkers import all_checkers
from semel.sim.consumer import SimulatedConsumer
from semel.sim.disk import Disk
from semel.sim.faults import NO_FAULTS, Counts, Fault, FaultMix
from semel.sim.history import History, Promise, Violation
from semel.sim.network import Network
from semel.sim.producer import SimulatedProducer
from semel.sim.scheduler import Scheduler
from semel.sim.server import SimulatedServer
from semel.sim.trace import Trace

TOPIC: Final = "events"
HEALED_WITHIN_MS: Final = 120_000
FAULTS_FOR_MS: Final = (20_000, 60_000)
TRACE_TAIL_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What became of one seed."""

    seed: int
    trace_sha256: str
    violation: str | None  # None: every invariant held, and everything finished
    trace_tail: tuple[str, ...]
    operations: int
    simulated_ms: int
    faults: Counter[Fault]
    verdicts: Counter[str]


class Simulation:
    """The world of one seed."""

    def __init__(self, seed: int, mix: FaultMix | None = None) -> None:
        self.seed: Final = seed
        self.random = Random(seed)
        self.scheduler = Scheduler()
        self.trace = Trace(self.scheduler)
        self.counts = Counts()
        self.history = History()
        drawn = FaultMix.draw(self.random)
        self._mix = NO_FAULTS
        self._mix_of_faults = drawn if mix is None else mix
        self.checkers = all_checkers()
        self.network = Network(self.scheduler, self.random, self.trace, self.counts, self._current_mix)
        self.disk = Disk(self.random, self.trace, self.counts, self._current_mix)
        self.server = SimulatedServer(
            self.disk,
            TOPIC,
            self.random.randint(1, 3),
            LogConfig(segment_bytes=self.random.choice((1_200, 3_000, 20_000)), index_interval_bytes=300),
            self.random,
            self.scheduler,
            self.network,
            self.trace,
            self.counts,
            self._current_mix,
            self.history,
            self.checkers,
        )
        self.consumers: list[SimulatedConsumer] = []
        self.producers: list[SimulatedProducer] = []

    def _current_mix(self) -> FaultMix:
        return self._mix

    def run(self) -> SeedResult:
        violation = None
        try:
            self._live()
        except Violation as found:
            violation = str(found)
        except Exception as error:
            violation = f"raised {type(error).__name__}: {error}\n{traceback.format_exc()}"
        if violation is not None:
            self.trace.note("checker", violation)
        return SeedResult(
            self.seed,
            self.trace.sha256,
            violation,
            tuple(self.trace.tail(TRACE_TAIL_LINES)) if violation else (),
            len(self.history.records),
            self.scheduler.elapsed_ms,
            self.counts.faults,
            self.counts.verdicts,
        )

    # -- phases -----------------------------------------------------------------------------------------

    def _live(self) -> None:
        self.server.prepare()
        self._mix = self._mix_of_faults
        self.trace.note("world", f"seed {self.seed} {self._mix}")
        self.server.start()
        for tp in self.server.tps:
            self.consumers.append(SimulatedConsumer(tp, self.scheduler, self.network, self.checkers))
        for number in range(self.random.randint(1, 4)):
            self._start_producer(number, 0, self.random.randint(20, 140))
        self._plan_faults()
        faults_for_ms = self.random.randint(*FAULTS_FOR_MS)
        self.scheduler.run(lambda: False, self.scheduler.now_ms + faults_for_ms)
        self._heal()
        if not self.scheduler.run(self._is_finished, self.scheduler.now_ms + HEALED_WITHIN_MS):
            raise Violation("healed_world_finishes", self._what_is_open())
        self.server.show_logs()

    def _heal(self) -> None:
        self.trace.note("world", "healed")
        self._mix = NO_FAULTS
        if not self.server.is_healthy:
            self.server.kill()

    def _is_finished(self) -> bool:
        return (
            self.server.is_healthy
            and all(producer.is_done or not producer.alive for producer in self.producers)
            and all(consumer.next_offset == self._end_of(consumer) for consumer in self.consumers)
        )

    def _end_of(self, consumer: SimulatedConsumer) -> int:
        return self.server.log_end_offset(consumer.tp)

    def _what_is_open(self) -> str:
        open_records = [record.value for record in self.history.promised(Promise.OPEN)]
        behind = [f"{consumer.tp} at {consumer.next_offset}" for consumer in self.consumers]
        return (
            f"after {HEALED_WITHIN_MS} ms without faults: server healthy {self.server.is_healthy}, "
            f"{len(open_records)} records open {open_records[:5]}, readers {behind}"
        )

    # -- what is planned --------------------------------------------------------------------------------

    def _start_producer(self, number: int, life: int, rows: int) -> None:
        name = f"p{number}"
        named = number % 2 == 1
        producer = SimulatedProducer(
            name,
            life,
            name if named else None,
            rows,
            self.server.tps,
            self.random,
            self.scheduler,
            self.network,
            self.trace,
            self.history,
            is_veteran=number == 0 and life == 0,
        )
        self.producers.append(producer)
        interval_ms = self._mix_of_faults.producer_crash_interval_ms
        if not interval_ms:
            return

        def crash() -> None:
            if self._mix is not NO_FAULTS and not producer.is_done:
                self.counts.bit(Fault.PRODUCER_CRASH)
                producer.die()
                self._start_producer(number, life + 1, max(producer.rows_left, 10))

        self.scheduler.after(self._drawn_ms(interval_ms), crash)

    def _plan_faults(self) -> None:
        mix = self._mix_of_faults
        if mix.crash_interval_ms:
            self._repeat(mix.crash_interval_ms, self._crash)
        if mix.pause_interval_ms:
            self._repeat(mix.pause_interval_ms, self.server.pause)

    def _crash(self) -> None:
        if self.random.random() < self._mix_of_faults.power_cut_share:
            self.server.power_cut()
        else:
            self.server.kill()

    def _repeat(self, interval_ms: int, action: Callable[[], None]) -> None:
        def again() -> None:
            if self._mix is not NO_FAULTS:
                action()
                self._repeat(interval_ms, action)

        self.scheduler.after(self._drawn_ms(interval_ms), again)

    def _drawn_ms(self, mean_ms: int) -> int:
        return 1 + int(self.random.expovariate(1 / mean_ms))


def run_seed(seed: int) -> SeedResult:
    """Live through one seed."""
    return Simulation(seed).run()
