"""The clients of one history: who writes, who reads, who trims and fences; restarted whenever they end.

Writers without a saved position send for as long as the faults last; then they stop, and what they have begun
must settle. Sources hand their rows until all are stored. Every client has random numbers of its own, so that
what one of them does leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from semel.sim.clients.admin import SimulatedAdmin
from semel.sim.clients.cluster import drive
from semel.sim.clients.consumer import SimulatedConsumer
from semel.sim.clients.lessee import SimulatedLessee
from semel.sim.clients.prober import SimulatedProber
from semel.sim.clients.producer import Kind, SimulatedProducer
from semel.sim.clients.resumer import SimulatedResumer, Source
from semel.sim.copies.world import CopyWorld
from semel.sim.flows.feeder import Feeder
from semel.sim.flows.operator import FlowOperator
from semel.sim.flows.stories import Stories
from semel.sim.groups.world import GroupWorld
from semel.sim.server.machine import SimulatedServer
from semel.sim.sinks.forgetter import NameForgetter
from semel.sim.sinks.mix import SinkMix
from semel.sim.sinks.operator import SinkOperator
from semel.sim.sinks.source_maker import SourceMaker
from semel.sim.sinks.trimmer import OutputTrimmer
from semel.sim.transactions.world import TransactionWorld
from semel.sim.world.faults import Fault, FaultMix
from semel.sim.world.history import Promise
from semel.sim.world.process import EVEN_PACE, Process
from semel.sim.world.surroundings import Surroundings
from semel.sim.world.waiting import drawn_wait_ms
from semel.types import ProducerGrant

PRODUCERS_MAX: Final = 3
PRODUCERS_BESIDE_FLOWS_MAX: Final = 1  # a flow's own clients are many and dear
SOURCES_MAX: Final = 2
LEASED_CHANCE: Final = 0.4
LEASED_NUMBER: Final = PRODUCERS_MAX
OTHER_PACE_CHANCE: Final = 0.5
OTHER_PACES: Final = (10, 25, 25, 60, 90, 110, 200)
LESSEE_CHANCE: Final = 0.7
RIVALS: Final = 2  # further lessees, where there is not room for all
SOURCE_ROWS: Final = (60, 300)
RESTART_MS: Final = (5, 2_000)
TRIMMED_MEANWHILE_CHANCE: Final = 0.5  # since the file was copied away that is put back
OTHER_INPUT_CHANCE: Final = 0.5  # where copies die and are started again
STAGE_KILL_MS: Final = (1_500, 9_000)  # a stage takes a while to begin
CLIENT_PAUSE_MS: Final = (1_200, 15_000)
GRANTS_REMEMBERED_MAX: Final = 12


class Workload:
    """All clients; ``is_finished`` once nothing that was begun is open."""

    def __init__(
        self,
        seed: int,
        random: Random,
        around: Surroundings,
        mix: Callable[[], FaultMix],
        server: SimulatedServer,
        stories: Stories,
        copies: CopyWorld | None = None,
        groups: GroupWorld | None = None,
        transactions: TransactionWorld | None = None,
    ) -> None:
        self._seed = seed
        self._groups = groups
        self._worlds = [one for one in (copies, groups, transactions) if one is not None]
        self._random = random
        self._around = around
        self._mix = mix
        self._server = server
        self._stories = stories
        self._tps = server.tps
        self._backups = self._stream("backups")
        self._stopping = False
        self._grants: list[ProducerGrant] = []
        self.consumers: list[SimulatedConsumer] = []
        self.producers: list[SimulatedProducer] = []  # those alive
        self.resumers: list[SimulatedResumer] = []  # those alive
        self.sinks: list[SinkOperator] = []
        self.flows: list[FlowOperator] = []
        self._feeders: list[Feeder] = []
        self._trimmers: list[OutputTrimmer] = []
        self._forgetters: list[NameForgetter] = []
        self._source_makers: list[SourceMaker] = []
        self._sources = 0
        self._row_gap_ms_max = random.choice((80, 160, 300))
        self._admin: SimulatedAdmin | None = None
        self._prober: SimulatedProber | None = None
        self._lessees: list[SimulatedLessee] = []

    def start(self) -> None:
        for tp in self._tps:
            self.consumers.append(self._consumer(f"reader{tp.partition}", tp.partition))
        kinds = [Kind.VETERAN, Kind.NAMED, self._random.choice((Kind.GIVEN, Kind.NAMED, Kind.INVENTED))]
        has_few_others = bool(self._stories.flows or self._worlds)
        producers_max = PRODUCERS_BESIDE_FLOWS_MAX if has_few_others else PRODUCERS_MAX
        for number, kind in enumerate(kinds[: self._random.randint(1, producers_max)]):
            self._start_producer(number, kind, 0)
        if (
            not (self._stories.sinks or has_few_others)
            and self._stream("leased producer").random() < LEASED_CHANCE
        ):
            self._start_producer(LEASED_NUMBER, Kind.LEASED, 0)
        for _ in range(0 if has_few_others else self._random.randint(0, SOURCES_MAX)):
            self._start_source()
        self._admin = SimulatedAdmin(
            self._tps,
            lambda: self._grants,
            self._stream("admin"),
            self._around,
            gap_ms_max=self._random.choice((200, 1_000, 4_000)),
            trims=self._random.random() < 0.4,
            fences=self._random.random() < 0.5,
            commits=self._groups is None or not self._groups.story.offsets_expire,
        )
        if self._random.random() < 0.5:
            self._prober = SimulatedProber(
                self._tps,
                self._stream("prober"),
                self._around,
            )
        lessee_random = self._stream("lessee")
        if not has_few_others and lessee_random.random() < LESSEE_CHANCE:
            self._start_lessee("lessee", lessee_random)
        if self._server.is_short_of_room and not has_few_others:
            for number in range(RIVALS):
                self._start_lessee(f"rival{number}", self._stream(f"rival{number}"))
        mix = SinkMix.draw(self._stream("sink mix"))
        for story in self._stories.sinks:
            self.sinks.append(SinkOperator(story, self._stream(story.sink_id), self._around, mix))
            maker = SourceMaker(story, self._stream(f"{story.sink_id} source"), self._around)
            self._source_makers.append(maker)
            self.sinks[-1].start()
            if mix.trim_interval_ms:
                random = self._stream(f"{story.sink_id} trims")
                self._trimmers.append(OutputTrimmer(story, random, self._around, mix.trim_interval_ms))
            if interval_ms := mix.name_forgotten_interval_ms:
                random = self._stream(f"{story.sink_id} is forgotten")
                forget = self._server.forget_names
                self._forgetters.append(NameForgetter(story, random, self._around, interval_ms, forget))

        for flow in self._stories.flows:
            self._feeders.append(Feeder(flow, self._stream(f"{flow.name} feeder"), self._around))
            of_mix = self._stream("flow mix")
            mix = replace(SinkMix.draw(of_mix), driver_kill_interval_ms=of_mix.randint(*STAGE_KILL_MS))
            self.flows.append(FlowOperator(flow, self._stream(flow.name), self._around, mix))
            self.flows[-1].start()
        for world in self._worlds:
            world.start()

    def stop(self) -> None:
        """No more rows, but those of the sources that have begun."""
        self._stopping = True
        for maker in self._source_makers:
            maker.wanted = False
        for sink in self.sinks:
            sink.stop()
        for feeder in self._feeders:
            feeder.stop()
        for flow in self.flows:
            flow.stop()
        for world in self._worlds:
            world.stop()
        for trimmer in self._trimmers:
            trimmer.wanted = False
        for forgetter in self._forgetters:
            forgetter.wanted = False
        for producer in self.producers:
            producer.rows_left = 0
        assert self._admin is not None
        self._admin.wanted = False
        if self._prober is not None:
            self._prober.wanted = False
        for lessee in self._lessees:
            lessee.wanted = False
        for tp in self._tps:
            self.consumers.append(self._consumer(f"auditor{tp.partition}", tp.partition))

    @property
    def is_finished(self) -> bool:
        assert self._admin is not None
        return (
            not self._admin.is_busy
            and all(lessee.is_done for lessee in self._lessees)
            and all(producer.is_done or not producer.process.alive for producer in self.producers)
            and all(source.is_done for source in self._around.history.sources)
            and all(sink.is_settled for sink in self.sinks)
            and all(flow.is_settled for flow in self.flows)
            and all(world.is_settled for world in self._worlds)
            and not any(trimmer.is_busy for trimmer in self._trimmers)
            and all(
                consumer.next_offset == self._server.log_end_offset(consumer.tp)
                for consumer in self.consumers
            )
        )

    @property
    def rows_open(self) -> int:
        """Rows that were sent, and of which nobody knows yet what became of them."""
        return sum(1 for _ in self._around.history.promised(Promise.OPEN))

    def what_is_open(self) -> str:
        open_records = [record.value for record in self._around.history.promised(Promise.OPEN)]
        behind = [f"{consumer.tp} at {consumer.next_offset}" for consumer in self.consumers]
        sources = [source.name for source in self._around.history.sources if not source.is_done]
        sources += [sink.story.sink_id for sink in self.sinks if not sink.is_settled]
        sources += [name for flow in self.flows for name in flow.what_is_open]
        sources += [name for world in self._worlds for name in world.what_is_open]
        return f"{len(open_records)} records open {open_records[:5]}, readers {behind}, sources {sources}"

    def end(self) -> None:
        """Every client is gone."""
        for consumer in self.consumers:
            consumer.die()
        for producer in self.producers:
            producer.die()
        self.release()
        self.consumers.clear()

    def release(self) -> None:
        """No fiber and no file may outlive the history."""
        for resumer in self.resumers:
            resumer.release()
        for sink in self.sinks:
            sink.end()
        for flow in self.flows:
            flow.end()
        for world in self._worlds:
            world.end()

    # -- readers ----------------------------------------------------------------------------------------

    def _consumer(self, name: str, partition: int) -> SimulatedConsumer:
        return SimulatedConsumer(name, self._tps[partition], self._around)

    def read_anew(self, name: str) -> list[SimulatedConsumer]:
        """One more reader a partition, from the log's start."""
        fresh = [self._consumer(f"{name}{tp.partition}", tp.partition) for tp in self._tps]
        self.consumers += fresh
        return fresh

    # -- writers under leases ---------------------------------------------------------------------------

    def _start_lessee(self, name: str, random: Random) -> None:
        self._lessees.append(
            SimulatedLessee(
                name,
                self._tps,
                random,
                self._around,
                lease_ms=self._server.lease_ms,
                on_granted=self._remember_grant,
            )
        )

    # -- writers without a saved position ---------------------------------------------------------------

    def _start_producer(self, number: int, kind: Kind, life: int) -> None:
        producer = SimulatedProducer(
            f"p{number}",
            life,
            kind,
            self._tps,
            self._stream(f"p{number}.{life}"),
            self._around,
            pace=self._pace_of_clock(kind, f"p{number}.{life}"),
            row_gap_ms_max=self._row_gap_ms_max,
            next_key=partial(
                self._server.batch_limit.key_of_next_row, self._stream(f"p{number}.{life} keys")
            ),
            on_granted=self._remember_grant,
            on_fenced=lambda: self._go_on(number, kind, life, producer),
        )
        self.producers.append(producer)
        interval_ms = self._mix().producer_crash_interval_ms
        if interval_ms:
            self._around.scheduler.after(
                drawn_wait_ms(self._random, interval_ms), lambda: self._crash(number, kind, life, producer)
            )

    def _pace_of_clock(self, kind: Kind, name: str) -> int:
        """Only who holds a lease reckons by its clock what the server reckons by another."""
        random = self._stream(f"{name} clock")
        if kind is not Kind.LEASED or random.random() >= OTHER_PACE_CHANCE:
            return EVEN_PACE
        if not self._around.counts.occurs(Fault.CLIENT_CLOCK):
            return EVEN_PACE
        return random.choice(OTHER_PACES)

    def _remember_grant(self, grant: ProducerGrant) -> None:
        self._grants.append(grant)
        del self._grants[:-GRANTS_REMEMBERED_MAX]

    def _crash(self, number: int, kind: Kind, life: int, producer: SimulatedProducer) -> None:
        if self._stopping or producer not in self.producers or producer.is_over:
            return
        if producer.may_have_twin and self._around.counts.bites(Fault.TWIN, self._random, self._mix().twin):
            producer.is_over = True  # but it goes on writing: it has not heard of the newer copy
        elif self._around.counts.occurs(Fault.PRODUCER_CRASH):
            self._around.counts.bit(Fault.PRODUCER_CRASH)
            producer.die()
            self.producers.remove(producer)
        else:
            return
        self._start_producer(number, kind.heir, life + 1)

    def _go_on(self, number: int, kind: Kind, life: int, producer: SimulatedProducer) -> None:
        """It was fenced. Unless a newer copy runs already, one starts."""
        if not producer.is_over and not self._stopping:
            producer.is_over = True
            self._around.scheduler.after(
                self._random.randint(*RESTART_MS),
                lambda: None if self._stopping else self._start_producer(number, kind.heir, life + 1),
            )

    # -- writers with a saved position ------------------------------------------------------------------

    def _start_source(self) -> None:
        random = self._stream(f"source{self._sources}")
        source = Source(
            f"s{self._sources}", random.randint(*SOURCE_ROWS), self._tps, random.choice((1, 3, 20))
        )
        self._sources += 1
        self._around.history.sources.append(source)
        self._start_resumer(source, random)

    def _start_resumer(self, source: Source, random: Random) -> None:
        if source.is_done:
            return
        # Whoever lets two copies run puts old files back as well.
        chance = self._mix().twin if source.file.has_backups else 0.0
        if self._around.counts.bites(Fault.IDENTITY_RESTORED, self._backups, chance):
            source.file.put_back(self._backups)
            self._around.trace.note(source.name, "an older file is put back")
            if self._backups.random() < TRIMMED_MEANWHILE_CHANCE:
                assert self._admin is not None
                drive(self._admin.trim_all(), lambda *_: self._start_copy(source, random))
                return
        self._start_copy(source, random)

    def _start_copy(self, source: Source, random: Random) -> None:
        resumer = SimulatedResumer(
            source,
            random,
            self._around,
            on_end=lambda ended: self._resumer_ended(ended, random),
            other_input=(
                self._stream(f"{source.name}.{source.lives} input"),
                OTHER_INPUT_CHANCE if self._mix().resumer_crash_interval_ms else 0.0,
            ),
        )
        if not resumer.process.alive:
            return
        self.resumers.append(resumer)
        interval_ms = self._mix().resumer_crash_interval_ms
        if interval_ms:
            if self._around.counts.bites(Fault.CRASH_IN_RESUME, random, self._mix().crash_in_resume):
                interval_ms = 30
            self._around.scheduler.after(
                drawn_wait_ms(self._random, interval_ms), lambda: self._crash_resumer(resumer, random)
            )

    def _crash_resumer(self, resumer: SimulatedResumer, random: Random) -> None:
        if self._stopping or not resumer.process.alive:
            return
        if resumer.is_newest and self._around.counts.bites(Fault.TWIN, random, self._mix().twin):
            self._start_resumer(resumer.source, random)
        elif self._around.counts.occurs(Fault.RESUMER_CRASH):
            self._around.counts.bit(Fault.RESUMER_CRASH)
            resumer.die("killed")

    def _resumer_ended(self, ended: SimulatedResumer, random: Random) -> None:
        if ended in self.resumers:
            self.resumers.remove(ended)
        if ended.source.is_done:
            if not self._stopping and ended.is_newest:
                self._start_source()
        elif ended.is_newest:
            self._around.scheduler.after(
                random.randint(*RESTART_MS), lambda: self._start_resumer(ended.source, random)
            )

    # -- pauses -----------------------------------------------------------------------------------------

    def pause_a_client(self) -> None:
        """SIGSTOP for a while."""
        processes: list[tuple[str, Process]] = [
            *((producer.name, producer.process) for producer in self.producers),
            *((resumer.name, resumer.process) for resumer in self.resumers),
            *(named for sink in self.sinks for named in sink.processes),
            *(named for flow in self.flows for named in flow.processes),
            *(named for world in self._worlds for named in world.processes),
        ]
        processes += [(lessee.name, lessee.process) for lessee in self._lessees]
        if processes and self._around.counts.bites(Fault.CLIENT_PAUSE, self._random, 1.0):
            name, process = self._random.choice(processes)
            pause_ms = self._random.randint(*CLIENT_PAUSE_MS)
            process.stop_for(pause_ms)
            self._around.trace.note(name, f"paused for {pause_ms} ms")

    def _stream(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")
