"""One seed: a world is drawn, lives through its faults, heals, and must then finish everything.

The same seed gives the same history, to the byte of its trace. A history ends in a :class:`SeedResult`,
whatever happened: an invariant that was violated, a defect that raised, or work that did not finish. The
faults go on until enough has happened (:data:`OPERATIONS_MIN`, :data:`FAULTS_MIN`), so that no seed is idle.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from semel.core.log.config import LogConfig
from semel.sim.campaign.coda import live_coda
from semel.sim.campaign.invariants import all_checkers
from semel.sim.checkers.watchers import RecoveryWatcher
from semel.sim.clients.workload import Workload
from semel.sim.copies.drawing import draw_copies, seed_has_copies
from semel.sim.copies.story import CopyStory
from semel.sim.copies.world import CopyWorld
from semel.sim.flows.drawing import draw_flow, has_flows
from semel.sim.flows.stories import Stories
from semel.sim.flows.story import FlowStory, flow_partitions
from semel.sim.groups.drawing import draw_groups, seed_has_groups
from semel.sim.groups.story import GroupStory
from semel.sim.groups.world import GroupWorld
from semel.sim.server.batch_limit import BatchLimit
from semel.sim.server.compaction import Compaction, seed_is_compacted
from semel.sim.server.defects import defects_raise
from semel.sim.server.machine import MAINTAIN_EVERY_MS, SimulatedServer
from semel.sim.server.room_settings import ProducersMax
from semel.sim.server.topic_codec import TopicCodec
from semel.sim.server.witness import Witness
from semel.sim.sinks.drawing import draw_sinks
from semel.sim.sinks.log_compaction import draw_sink_log
from semel.sim.sinks.story import SinkStory
from semel.sim.transactions.drawing import draw_transactions, seed_has_transactions
from semel.sim.transactions.story import TransactionStory
from semel.sim.transactions.world import TransactionWorld
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts, Fault, FaultMix, Occasion
from semel.sim.world.history import History, Violation
from semel.sim.world.network import Network
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.trace import Trace
from semel.sim.world.waiting import drawn_wait_ms
from semel.sim.world.watchers import Watchers
from semel.types import SINKS_TOPIC, TopicPartition

TOPIC: Final = "events"
OPERATIONS_MIN: Final = 1_000
FAULTS_MIN: Final = 20
FAULTS_FOR_MS: Final = (6_000, 18_000)
FAULTS_FOR_MS_BESIDE_FLOWS: Final = (12_000, 30_000)
FAULTS_FOR_MS_BESIDE_GROUPS: Final = (15_000, 40_000)
CALMER_BESIDE_FLOWS: Final = (1, 4, 12)  # a later stage has work only where an earlier one gets on
CALMER_BESIDE_GROUPS: Final = (1, 3, 10)  # who is never in one generation for long commits nothing
REPLAY_OF_TRANSACTIONS: Final = (0.0, 0.1, 0.3)
CALMER_BESIDE_TRANSACTIONS: Final = (1, 3, 10)  # who never gets an answer commits nothing, either
FLOWS_ON_THEIR_WAY_WITHIN_MS: Final = 60_000
PARTITIONS_BESIDE_FLOWS: Final = 1  # flows have enough of their own
FAULTS_FOR_MS_MAX: Final = 960_000  # far from what any seed needs
HEALED_WITHIN_MS: Final = 120_000
ROWS_WHILE_HEALED_MIN: Final = (
    1_000  # in that time, of who has more to do than that: a slow seed may owe thousands
)
UP_WITHIN_MS: Final = 60_000
CUT_MS: Final = (500, 8_000)
LEASE_MS: Final = (400, 1_200, 4_000)
TRACE_TAIL_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class Telling:
    """Which parts of a seed's history are told: all of it, or (to shrink a failure) less."""

    kept: frozenset[int] | None = None  # the numbers of the occasions that are kept; None: all
    operations_min: int = OPERATIONS_MIN
    faults_min: int = FAULTS_MIN
    faults_for_ms_max: int = FAULTS_FOR_MS_MAX


WHOLE: Final = Telling()


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What became of one seed."""

    seed: int
    trace_sha256: str
    violation: str | None  # None: every invariant held, and everything finished
    trace_tail: tuple[str, ...]
    operations: int
    simulated_ms: int
    events: int
    faults: Counter[Fault]
    verdicts: Counter[str]
    occasions: tuple[Occasion, ...]

    @property
    def invariant(self) -> str | None:
        """The name of the checker, or of the exception, that ended the seed."""
        return None if self.violation is None else self.violation.split(":", 1)[0]


class Simulation:
    """The world of one seed."""

    def __init__(
        self,
        seed: int,
        telling: Telling = WHOLE,
        mix: FaultMix | None = None,
        sinks: Sequence[SinkStory] | None = None,
        flows: Sequence[FlowStory] | None = None,
        copies: CopyStory | None = None,
        groups: GroupStory | None = None,
        transactions: TransactionStory | None = None,
    ) -> None:
        self.seed: Final = seed
        self._telling = telling
        self.random = self.stream("world")
        self.scheduler = Scheduler()
        self.trace = Trace(self.scheduler)
        self.counts = Counts(lambda: self.scheduler.elapsed_ms, telling.kept)
        drawn = FaultMix.draw(self.random)
        sink_log = draw_sink_log(seed) if sinks is None and flows is None else None
        if flows is None and sinks is None and seed_has_copies(seed):
            copies = draw_copies(self.stream("copies drawn"), lambda: self.scheduler.now_ms)
        if copies is not None:  # what a power cut takes back of a source that was read is another matter
            drawn = replace(drawn, durable=True)
        if flows is None and sinks is None and copies is None and seed_has_groups(seed):
            groups = draw_groups(self.stream("groups drawn"))
            drawn = drawn.calmer(self.stream("calm").choice(CALMER_BESIDE_GROUPS))
        if groups is not None:  # what a power cut takes back of what was told is another matter
            drawn = replace(drawn, durable=True)
        is_bare = flows is None and sinks is None and copies is None and groups is None
        if is_bare and seed_has_transactions(seed):
            transactions = draw_transactions(self.stream("transactions drawn"))
            drawn = drawn.calmer(self.stream("calm").choice(CALMER_BESIDE_TRANSACTIONS))
        if transactions is not None:
            replay = self.stream("transactions replayed").choice(REPLAY_OF_TRANSACTIONS)
            # Against copies of a client's own requests the older protocol has no means.
            replay = 0.0 if transactions.has_older_clients else replay
            drawn = replace(drawn, durable=True, replay=replay)
        of_flow = self.stream("flows")
        if flows is None and sinks is None and has_flows(of_flow):
            flows, sinks = [draw_flow(of_flow, lambda: self.scheduler.elapsed_ms)], ()
            drawn = drawn.calmer(self.stream("calm").choice(CALMER_BESIDE_FLOWS))
        is_plain = flows is None and sinks is None and copies is None and groups is None
        is_plain = is_plain and transactions is None
        compaction = Compaction(self.stream("compacted")) if is_plain and seed_is_compacted(seed) else None
        if compaction is not None:
            sinks = ()
        self._mix = NO_FAULTS
        self._mix_of_faults = drawn if mix is None else mix
        self.history = History(is_replayed=self._mix_of_faults.replay > 0, compaction=compaction)
        self.watchers = Watchers(all_checkers())
        self.network = Network(
            self.scheduler,
            self.stream("network"),
            self.stream("replays"),
            self.trace,
            self.counts,
            self._current_mix,
        )
        self.around: Final = Surroundings(
            self.scheduler, self.network, self.trace, self.counts, self.history, self.watchers
        )
        self.disk = Disk(self.stream("disk"), self.trace, self.counts, self._current_mix)
        tps = [TopicPartition(TOPIC, number) for number in range(self.random.randint(1, 3))]
        drawn_sinks = draw_sinks(
            self.stream("sinks"), self.stream("sink stragglers"), lambda: self.scheduler.elapsed_ms
        )
        if copies is not None or groups is not None or transactions is not None:
            sinks = ()
        self.stories = Stories(drawn_sinks if sinks is None else sinks, flows or (), sink_log)
        if sink_log is not None and self.stories.partitions:
            self.history.compacted[TopicPartition(SINKS_TOPIC, 0)] = sink_log
            for story in self.stories.sinks:
                story.swept_at = sink_log.swept_at
        of_flows = flow_partitions(self.stories.flows)
        if of_flows or copies or groups or transactions:
            del tps[PARTITIONS_BESIDE_FLOWS:]
        self.witness = Witness(
            tps,
            self.stories,
            self.history,
            self.watchers,
            self.counts,
            self.trace,
            lambda: self.scheduler.now_ms,
        )
        has_sinks = bool(self.stories.sinks or self.stories.flows)
        self._producers_max = ProducersMax(
            self.stream("room for sinks" if has_sinks else "bound"),
            len(tps) + len(of_flows),
            beside_sinks=has_sinks,
        )
        batch_limit = BatchLimit(self.stream("batch limit"))
        topics_of_transactions = (
            []
            if transactions is None
            else [(name, count, transactions.config) for name, count in transactions.topics.items()]
        )
        self.server = SimulatedServer(
            self.disk,
            LogConfig(
                segment_bytes=self.random.choice((1_200, 3_000, 20_000)),
                index_interval_bytes=300,
                retention_bytes=self.random.choice((-1, -1, 4_000)),
                retention_ms=self.random.choice((-1, -1, 20_000, 1_800_000)),
            ),
            self.stream("server"),
            self.scheduler,
            self.network,
            self.trace,
            self.counts,
            self._current_mix,
            self.history,
            self.witness,
            durable=self._mix_of_faults.durable,
            lease_ms=self.stream("leases").choice(LEASE_MS),
            producers_max=self._producers_max,
            batch_limit=batch_limit,
            topic_codec=TopicCodec(self.stream("topic codec"), batch_limit),
            compaction=compaction,
            maintain_every_ms=(
                sink_log.maintain_every_ms if sink_log and self.history.compacted else MAINTAIN_EVERY_MS
            ),
            other_topics=[*self.stories.topics, *topics_of_transactions],
            group_settings=None if groups is None else groups.group_settings,
            offset_settings=None if groups is None else groups.offset_settings,
        )
        self.copies = None
        if copies is not None:
            self._producers_max.suffice()
            first = (self.server, self.disk, self.witness)
            self.copies = CopyWorld(copies, self.stream, self.around, self._current_mix, first)
        self.groups = None
        if groups is not None:
            self._producers_max.suffice()
            self.groups = GroupWorld(groups, self.stream, self.around, self.server, self.witness)
        self.transactions = None
        if transactions is not None:
            transactions.is_repeated = self.history.is_replayed
            self._producers_max.suffice()
            self.transactions = TransactionWorld(
                transactions, self.stream, self.around, self.server, self.witness
            )
        self.workload = Workload(
            seed,
            self.stream("workload"),
            self.around,
            self._current_mix,
            self.server,
            self.stories,
            self.copies,
            self.groups,
            self.transactions,
        )

    def stream(self, name: str) -> Random:
        """Random numbers for one part of the world, so that no part's draws move another's."""
        return Random(f"{self.seed}/{name}")

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
        finally:
            self.workload.release()
        if violation is not None:
            self.trace.note("checker", violation)
        return SeedResult(
            self.seed,
            self.trace.sha256,
            violation,
            tuple(self.trace.tail(TRACE_TAIL_LINES)) if violation else (),
            self.counts.operations,
            self.scheduler.elapsed_ms,
            self.scheduler.events_run,
            self.counts.faults,
            self.counts.verdicts,
            tuple(self.counts.occasions) if violation else (),
        )

    # -- phases -----------------------------------------------------------------------------------------

    def _live(self) -> None:
        if self.transactions is None:
            self.server.prepare()
        else:
            self.server.prepare(self.transactions.prepare)
        if self.copies is not None:
            self.copies.second.server.prepare()
        self._mix = self._mix_of_faults
        self.trace.note("world", f"seed {self.seed} {self._mix}")
        self.server.start()
        if self.copies is not None:
            self.copies.second.server.start()
        self.workload.start()
        self._plan_faults()
        self._live_with_faults()
        self._heal()
        self.finish("everything to settle")
        assert self.server.storage is not None
        self.witness.show_logs(self.server.storage)
        if self.copies is not None:
            self.copies.finished()
        if self.groups is not None:
            self.groups.end()
        if self.transactions is not None:
            self.transactions.finished()
            self.transactions.end()
        live_coda(self)

    def _live_with_faults(self) -> None:
        telling, begin_ms = self._telling, self.scheduler.now_ms
        faults_for_ms = FAULTS_FOR_MS_BESIDE_FLOWS if self.stories.flows or self.copies else FAULTS_FOR_MS
        if self.groups is not None or self.transactions is not None:
            faults_for_ms = FAULTS_FOR_MS_BESIDE_GROUPS
        at_least_ms = begin_ms + self.random.randint(*faults_for_ms)
        self.scheduler.run(lambda: False, min(at_least_ms, begin_ms + telling.faults_for_ms_max))
        self.scheduler.run(
            lambda: (
                self.counts.operations >= telling.operations_min
                and self.counts.faults.total() >= telling.faults_min
            ),
            begin_ms + telling.faults_for_ms_max,
        )
        self.scheduler.run(  # or faults would meet the first stage alone
            lambda: all(flow.is_on_its_way for flow in self.stories.flows),
            begin_ms + min(FLOWS_ON_THEIR_WAY_WITHIN_MS, telling.faults_for_ms_max),
        )

    def _heal(self) -> None:
        self.trace.note("world", "healed")
        self._mix = NO_FAULTS
        self.workload.stop()
        if self._producers_max.is_short or not self.server.is_healthy:
            self._producers_max.suffice()
            self.server.kill()

    def finish(self, what: str) -> None:
        """Nothing is broken any more, so all that is open must end, the sooner the less of it there is."""
        began_ms, rows_open = self.scheduler.now_ms, self.workload.rows_open
        what_is_open = None
        while not self.scheduler.run(self._is_finished, self.scheduler.now_ms + HEALED_WITHIN_MS):
            before, rows_open = rows_open, self.workload.rows_open
            if before - rows_open < ROWS_WHILE_HEALED_MIN:
                what_is_open = (
                    f"{what}: server healthy {self.server.is_healthy}, {self.workload.what_is_open()}"
                )
                break
        self.watchers.of(RecoveryWatcher).healed(self.scheduler.now_ms - began_ms, what_is_open)

    def wait_until_up(self) -> None:
        """After an end that nothing but the server's own start follows."""
        is_up = self.scheduler.run(lambda: self.server.is_up, self.scheduler.now_ms + UP_WITHIN_MS)
        what_is_open = None if is_up else "the server to come back"
        self.watchers.of(RecoveryWatcher).healed(UP_WITHIN_MS, what_is_open)

    def _is_finished(self) -> bool:
        """Asked after every event, so what takes longest is asked last."""
        return self.server.is_up and self.workload.is_finished and self.server.is_healthy

    # -- what is planned --------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        mix = self._mix_of_faults
        self._repeat(mix.crash_interval_ms, self.server.crash)
        self._repeat(mix.pause_interval_ms, self.server.pause)
        self._repeat(mix.clock_interval_ms, self.server.turn_clock)
        self._repeat(mix.client_pause_interval_ms, self.workload.pause_a_client)
        self._repeat(mix.cut_interval_ms, self._cut)
        if self.copies is not None:
            second = self.copies.second
            self._repeat(mix.crash_interval_ms, second.server.crash)
            self._repeat(mix.pause_interval_ms, second.server.pause)
            self._repeat(mix.cut_interval_ms, partial(self._cut, second.network))

    def _cut(self, network: Network | None = None) -> None:
        if self.counts.bites(Fault.ONE_WAY_CUT, self.random, 1.0):
            until_ms = self.scheduler.now_ms + self.random.randint(*CUT_MS)
            (network or self.network).cut(from_clients=self.random.random() < 0.5, until_ms=until_ms)

    def _repeat(self, interval_ms: int, action: Callable[[], None]) -> None:
        if not interval_ms:
            return

        def again() -> None:
            if self._mix is not NO_FAULTS:
                action()
                self._repeat(interval_ms, action)

        self.scheduler.after(drawn_wait_ms(self.random, interval_ms), again)


def run_seed(seed: int, telling: Telling = WHOLE) -> SeedResult:
    """Live through one seed."""
    with defects_raise():
        return Simulation(seed, telling).run()
