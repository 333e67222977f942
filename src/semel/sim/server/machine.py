"""The server's machine: a disk and a clock that stay, and one process after another on it.

Invariant: a process that has ended never acts again. Its clock is the machine's: it may be wrong, step either
way or stand still, and nothing but the age of records may depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from semel.config import ServerSettings
from semel.core.decision import Decision, StateRecord
from semel.core.group.groups import OffsetSettings
from semel.core.group.membership import GroupSettings
from semel.core.log.config import LogConfig
from semel.core.transaction.records import encode_key
from semel.errors import StorageError
from semel.record.batch import assign_offsets, encode_batch
from semel.server.broker import Broker
from semel.server.storage.aside import Change, at_once
from semel.server.storage.observer import NOBODY
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.clients.producer import VETERAN, VETERAN_LAST_SEQUENCE
from semel.sim.server.batch_limit import BatchLimit
from semel.sim.server.compaction import Compaction
from semel.sim.server.process import ServerProcess
from semel.sim.server.room_settings import ProducersMax
from semel.sim.server.topic_codec import TopicCodec
from semel.sim.server.witness import Witness
from semel.sim.world.disk import Disk, Killed, Mount, PowerCut, ProcessEnd
from semel.sim.world.faults import Counts, Fault, FaultMix
from semel.sim.world.history import History, Promise
from semel.sim.world.network import Link, Network
from semel.sim.world.process import Standstill
from semel.sim.world.scheduler import Event, Scheduler
from semel.sim.world.trace import Trace
from semel.types import TopicPartition

DATA_DIR: Final = Path("/data")
RESTART_MS: Final = (20, 3_000)
PAUSE_MS: Final = (1_200, 8_000)
MAINTAIN_EVERY_MS: Final = 3_000
LEASE_TICK_MS: Final = 300
STEPS_UNTIL_CRASH_MAX: Final = 25
STEPS_OF_RECOVERY_MAX: Final = 60
CLOCK_STEP_MS_MAX: Final = 3_600_000
CLOCK_FREEZE_MS: Final = (1_000, 20_000)


class Clock:
    """The machine's wall clock."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._ahead_ms = 0
        self._frozen_at_ms = 0
        self._frozen_until_ms = 0

    def now_ms(self) -> int:
        if self._scheduler.now_ms < self._frozen_until_ms:
            return self._frozen_at_ms
        return self._scheduler.now_ms + self._ahead_ms

    def step_to(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def freeze(self, for_ms: int) -> None:
        self._frozen_at_ms = self.now_ms()
        self._frozen_until_ms = self._scheduler.now_ms + for_ms


class SimulatedServer:
    """Starts, serves, ends, comes back."""

    def __init__(
        self,
        disk: Disk,
        config: LogConfig,
        random: Random,
        scheduler: Scheduler,
        network: Network,
        trace: Trace,
        counts: Counts,
        mix: Callable[[], FaultMix],
        history: History,
        witness: Witness,
        *,
        durable: bool,
        lease_ms: int,
        producers_max: ProducersMax,
        batch_limit: BatchLimit,
        topic_codec: TopicCodec,
        compaction: Compaction | None = None,
        maintain_every_ms: int = MAINTAIN_EVERY_MS,
        other_topics: Sequence[tuple[str, int, Mapping[str, str]]] = (),
        group_settings: GroupSettings | None = None,
        offset_settings: OffsetSettings | None = None,
    ) -> None:
        self._disk = disk
        self._other_topics = other_topics
        self._settings = StorageSettings(
            durable=durable,
            default_config=config,
            producer_lease_ms=lease_ms,
            offsets=offset_settings or OffsetSettings(),
            groups=group_settings or GroupSettings(),
        )
        self._maintain_every_ms = maintain_every_ms
        if compaction is not None:
            self._settings = replace(self._settings, cleaner_map_bytes=compaction.map_bytes)
            self._maintain_every_ms = compaction.maintain_every_ms
        self._producers_max = producers_max
        self.batch_limit: Final = batch_limit
        self._topic_config = batch_limit.topic_config | topic_codec.topic_config
        if compaction is not None:
            self._topic_config |= compaction.topic_config
        self._random = random
        self._scheduler = scheduler
        self._network = network
        self._trace = trace
        self._counts = counts
        self._mix = mix
        self._history = history
        self._witness = witness
        self._process: ServerProcess | None = None
        self._mount: Mount | None = None
        self._standstill = Standstill(scheduler)
        self._lost_ms = -1
        self.storage: Storage | None = None
        self.clock: Final = Clock(scheduler)
        self.tps: Final = witness.tps

    @property
    def lease_ms(self) -> int:
        return self._settings.producer_lease_ms

    @property
    def is_short_of_room(self) -> bool:
        """Whether it may remember fewer producers than there are."""
        return self._producers_max.is_short

    @property
    def is_durable(self) -> bool:
        return self._settings.durable

    @property
    def is_up(self) -> bool:
        return self.storage is not None

    @property
    def is_idle(self) -> bool:
        """Up, with nothing begun that is not done."""
        return self._process is not None and self._process.is_idle

    @property
    def is_healthy(self) -> bool:
        """Up, with every partition online."""
        return self.storage is not None and all(partition.is_online for partition in self.storage)

    def log_end_offset(self, tp: TopicPartition) -> int:
        assert self.storage is not None
        partition = self.storage.partition(tp.topic, tp.partition)
        assert partition is not None
        return partition.log_end_offset

    # -- life -------------------------------------------------------------------------------------------

    def prepare(self, begin: Callable[[Storage, int], None] = lambda storage, now_ms: None) -> None:
        """Before the faults begin: the data folder, the topic with all its partitions, and what ``begin`` makes."""
        storage = self._open_storage(self._disk.mount())
        events = (self.tps[0].topic, len(self.tps), self._topic_config)
        for topic, partition_count, config in (events, *self._other_topics):
            at_once(storage.create_topic(topic, partition_count, config, now_ms=self.clock.now_ms()))
        begin(storage, self.clock.now_ms())
        storage.close(now_ms=self.clock.now_ms())
        for tp in self.tps:
            self._write_past_of_veteran(tp)

    def _write_past_of_veteran(self, tp: TopicPartition) -> None:
        """One batch from long ago, so that its producer's sequences wrap in this history."""
        value = f"past/{tp.partition}:0".encode()
        record = self._history.sent(value, tp)
        record.promise = Promise.UNKNOWN
        batch = encode_batch(
            [record.as_row(self._scheduler.now_ms)],
            producer_id=VETERAN.producer_id,
            producer_epoch=VETERAN.producer_epoch,
            base_sequence=VETERAN_LAST_SEQUENCE,
        )
        assign_offsets(memoryview(batch), 0, 0)
        file = self._disk.mount().open(DATA_DIR / str(tp) / f"{0:020}.log")
        file.pwritev([batch], 0)
        file.fdatasync()

    def start(self) -> None:
        """A new process: recover, show the witness what was found, listen."""
        self._lost_ms = self.lost_ms
        mount = self._mount = self._disk.mount()
        if self._random.random() < self._mix().crash_in_recovery and self._counts.occurs(
            Fault.CRASH_IN_RECOVERY
        ):
            mount.end_inside_step(self._random.randint(0, STEPS_OF_RECOVERY_MAX), self._drawn_end())
        try:
            storage = self._open_storage(mount)
            mount.end_inside_step(-1)
            self._witness.recovered(storage, self._disk.failed)
        except ProcessEnd as end:
            self._counts.bit(Fault.CRASH_IN_RECOVERY)
            self._ended(end)
            return
        except StorageError as error:
            self._witness.not_recovered(str(error), disk_failed=bool(self._disk.failed))
            mount.alive = False
            self._restart_later()
            return
        self.storage = storage
        self._process = ServerProcess(
            Broker(ServerSettings(), storage),
            mount,
            self._random,
            self._counts,
            self._mix,
            self.clock.now_ms,
            lambda tps: self._witness.synced(storage, tps),
            self._later,
            lambda: self._scheduler.now_ms,
        )
        self._network.listener = self
        self._maintain_later()
        self._expire_leases_later()

    def _open_storage(self, mount: Mount) -> Storage:
        return Storage.open(
            DATA_DIR,
            mount,
            replace(self._settings, producers_max=self._producers_max.of_next_process()),
            now_ms=self.clock.now_ms(),
            new_uuid=lambda: UUID(int=self._random.getrandbits(128)),
            monotonic_ms=lambda: self._scheduler.now_ms,
            observer=NOBODY if self._history.is_rotten or self._history.promises_end else self._witness,
        )

    def _maintain_later(self) -> None:
        def maintain() -> None:
            if self._process is not None:
                self._process.maintain()
                self._maintain_later()

        self._later(self._random.randint(1, 2 * self._maintain_every_ms), maintain)

    def _expire_leases_later(self) -> None:
        def expire() -> None:
            if self._process is not None:
                self._process.expire_leases()
                self._expire_leases_later()

        self._later(self._random.randint(1, 2 * LEASE_TICK_MS), expire)

    # -- death ------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """End the process: at once, or (more searching) inside one of its next file operations."""
        if self._process is None or self._mount is None:
            return
        is_power_cut = self._drawn_end() is PowerCut
        if self._random.random() < self._mix().crash_in_step:
            fault = Fault.CRASH_IN_STEP if is_power_cut else Fault.KILL_IN_STEP
            if self._counts.occurs(fault):
                steps = self._random.randint(0, STEPS_UNTIL_CRASH_MAX)
                self._mount.end_inside_step(steps, PowerCut if is_power_cut else Killed)
        elif is_power_cut:
            if self._counts.occurs(Fault.POWER_CUT):
                self.power_cut()
        elif self._counts.occurs(Fault.KILL):
            self._counts.bit(Fault.KILL)
            self.kill()

    def _drawn_end(self) -> type[ProcessEnd]:
        """Where the page cache is trusted, a power cut voids every promise: only ``kill -9`` happens there."""
        is_power_cut = self.is_durable and self._random.random() < self._mix().power_cut_share
        return PowerCut if is_power_cut else Killed

    @property
    def lost_ms(self) -> int:
        """When it last may have lost what was written and not durable; -1: never."""
        return self._scheduler.now_ms if self._disk.failed else self._lost_ms

    def power_cut(self) -> None:
        self._counts.bit(Fault.POWER_CUT)
        self._trace.note("server", "power cut")
        self._ended(PowerCut())

    def forgo_end_in_step(self) -> None:
        """One that was due inside a file operation, and has not come to it."""
        if self._mount is not None:
            self._mount.end_inside_step(-1)

    def kill(self) -> None:
        """kill -9: the page cache survives."""
        if self._process is not None:
            self._trace.note("server", "killed")
            self._ended(Killed())

    def stop(self) -> None:
        """In good order: all that was written is synced, and the next process believes the indexes."""
        assert self.storage is not None
        self._trace.note("server", "stopped")
        self.storage.close(now_ms=self.clock.now_ms())
        self._ended(Killed())

    def pause(self) -> None:
        """The process stands still; what arrives waits."""
        if self._process is not None and self._counts.occurs(Fault.PAUSE):
            self._counts.bit(Fault.PAUSE)
            self._standstill.stop_for(self._random.randint(*PAUSE_MS))
            self._trace.note("server", f"paused until {self._standstill.until_ms - self._scheduler.start_ms}")

    def turn_clock(self) -> None:
        """Step the clock, or stop it for a while."""
        if self._random.random() < 0.5:
            if self._counts.bites(Fault.CLOCK_STEP, self._random, 1.0):
                self.clock.step_to(self._random.randint(-CLOCK_STEP_MS_MAX, CLOCK_STEP_MS_MAX))
                self._trace.note("server", f"the clock says {self.clock.now_ms()}")
        elif self._counts.bites(Fault.CLOCK_FREEZE, self._random, 1.0):
            self.clock.freeze(self._random.randint(*CLOCK_FREEZE_MS))
            self._trace.note("server", "the clock stands still")

    def forget_names(self, chosen: Callable[[str], bool], fault: Fault = Fault.SINK_NAME_FORGOTTEN) -> None:
        """Named identities are gone as if nobody had ever had them; no producer id is given out again."""

        def forget(process: ServerProcess) -> None:
            assert self.storage is not None
            names = [
                each.transactional_id for each in self.storage.transactions if chosen(each.transactional_id)
            ]
            records = tuple(StateRecord(encode_key(name), None) for name in names)
            submitted = self.storage.transaction_log.submit(Decision(records, None), self.clock.now_ms())
            if records and submitted.error_message is None:
                self._counts.bit(fault)
                self._trace.note("server", f"forgets {names}")

        self._in_process(forget)

    def change(self, begin: Callable[[Storage, int], Change[object]]) -> None:
        """Carry out what a request could ask for, when its turn comes; nobody is told what became of it."""

        def in_turn(process: ServerProcess) -> None:
            process.change(lambda storage: begin(storage, self.clock.now_ms()))

        self._in_process(in_turn)

    def _ended(self, end: ProcessEnd) -> None:
        if self._mount is not None:
            self._mount.alive = False
        process, self._process, self.storage = self._process, None, None
        self._network.listener = None
        self._standstill = Standstill(self._scheduler)
        if process is not None:
            for link in process.links:
                self._network.died(link)
        if isinstance(end, PowerCut):
            self._lost_ms = self._scheduler.now_ms
            self._disk.power_cut()
        self._restart_later()

    def _restart_later(self) -> None:
        self._scheduler.after(self._random.randint(*RESTART_MS), self.start)

    # -- the network's side -----------------------------------------------------------------------------

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        self._in_process(lambda process: process.bytes_arrived(link, data))

    def link_closed(self, link: Link) -> None:
        self._in_process(lambda process: process.link_closed(link))

    def _in_process(self, action: Callable[[ServerProcess], None]) -> None:
        process = self._process
        if process is not None:
            self._standstill.come(lambda: self._if_still(process, action))

    def _later(self, delay_ms: int, action: Callable[[], None]) -> Event:
        mount = self._mount

        def run() -> None:
            if self._mount is mount:
                self._in_process(lambda _: action())

        return self._scheduler.after(delay_ms, run)

    def _if_still(self, process: ServerProcess, action: Callable[[ServerProcess], None]) -> None:
        if self._process is process:
            try:
                action(process)
            except ProcessEnd as end:
                self._counts.bit(Fault.CRASH_IN_STEP if isinstance(end, PowerCut) else Fault.KILL_IN_STEP)
                self._ended(end)
