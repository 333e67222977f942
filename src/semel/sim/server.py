"""The server's machine: a disk that stays, and one process after another on it.

Invariants: a process that the power left never acts again; what the checkers are shown after a recovery is
the whole log as the files hold it, and the ledger that judges every later append is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from semel.config import ServerSettings
from semel.core.log.config import LogConfig
from semel.errors import StorageError
from semel.record.batch import Record, assign_offsets, decode_header, encode_batch
from semel.server.broker import Broker
from semel.server.storage.outcome import AppendOutcome, Incoming, Slice
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.checkers import Checker
from semel.sim.consumer import logged_batches
from semel.sim.disk import Disk, Mount, PowerCut
from semel.sim.faults import Counts, Fault, FaultMix
from semel.sim.history import History, LoggedBatch, Promise
from semel.sim.network import Link, Network
from semel.sim.producer import VETERAN, VETERAN_LAST_SEQUENCE
from semel.sim.reference import PartitionLedger
from semel.sim.scheduler import Event, Scheduler
from semel.sim.shell import ServerShell
from semel.sim.trace import Trace
from semel.types import TopicPartition

DATA_DIR: Final = Path("/data")
RESTART_MS: Final = (20, 3_000)
PAUSE_MS: Final = (500, 8_000)
STEPS_UNTIL_CRASH_MAX: Final = 25
STEPS_OF_RECOVERY_MAX: Final = 60


class SimulatedServer:
    """Starts, serves, crashes, comes back."""

    def __init__(
        self,
        disk: Disk,
        topic: str,
        partition_count: int,
        config: LogConfig,
        random: Random,
        scheduler: Scheduler,
        network: Network,
        trace: Trace,
        counts: Counts,
        mix: Callable[[], FaultMix],
        history: History,
        checkers: Sequence[Checker],
    ) -> None:
        self._disk = disk
        self._topic = topic
        self._settings = StorageSettings(default_config=config)
        self._random = random
        self._scheduler = scheduler
        self._network = network
        self._trace = trace
        self._counts = counts
        self._mix = mix
        self._history = history
        self._checkers = checkers
        self._shell: ServerShell | None = None
        self._storage: Storage | None = None
        self._mount: Mount | None = None
        self._ledgers: dict[TopicPartition, PartitionLedger] = {}
        self._paused_until_ms = 0
        self.tps: Final = [TopicPartition(topic, number) for number in range(partition_count)]

    @property
    def is_up(self) -> bool:
        return self._shell is not None

    @property
    def is_healthy(self) -> bool:
        """Up, with every partition online."""
        return self._storage is not None and all(partition.is_online for partition in self._storage)

    def log_end_offset(self, tp: TopicPartition) -> int:
        assert self._storage is not None
        partition = self._storage.partition(tp.topic, tp.partition)
        assert partition is not None
        return partition.log_end_offset

    # -- life and death ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Before the faults begin: the data folder, and the topic with all its partitions."""
        storage = self._open_storage(self._disk.mount())
        storage.create_topic(self._topic, len(self.tps), now_ms=self._scheduler.now_ms)
        storage.close(now_ms=self._scheduler.now_ms)
        for tp in self.tps:
            self._write_past_of_veteran(tp)

    def _write_past_of_veteran(self, tp: TopicPartition) -> None:
        """One batch from long ago, so that its producer's sequences wrap in this history."""
        value = f"past/{tp.partition}:0".encode()
        self._history.sent(value, tp).promise = Promise.UNKNOWN
        batch = encode_batch(
            [Record(0, self._scheduler.now_ms, None, value)],
            producer_id=VETERAN.producer_id,
            producer_epoch=VETERAN.producer_epoch,
            base_sequence=VETERAN_LAST_SEQUENCE,
        )
        assign_offsets(memoryview(batch), 0, 0)
        file = self._disk.mount().open(DATA_DIR / str(tp) / f"{0:020}.log")
        file.pwritev([batch], 0)
        file.fdatasync()

    def start(self) -> None:
        """A new process: recover, show the checkers what was found, listen."""
        mount = self._mount = self._disk.mount()
        in_recovery = self._random.random() < self._mix().crash_in_recovery
        if in_recovery:
            mount.crash_after_steps = self._random.randint(0, STEPS_OF_RECOVERY_MAX)
        try:
            storage = self._open_storage(mount)
            mount.crash_after_steps = -1
            self._show_recovered(storage)
        except PowerCut:
            self._counts.bit(Fault.CRASH_IN_RECOVERY)
            self._power_cut()
            return
        except StorageError as error:
            self._trace.note("server", f"does not start: {error}")
            mount.alive = False
            self._restart_later()
            return
        self._storage = storage
        self._shell = ServerShell(
            Broker(ServerSettings(), storage),
            mount,
            self._random,
            self._scheduler,
            self._counts,
            self._mix,
            self._after_sync,
            self._later,
        )
        self._network.listener = self

    def _open_storage(self, mount: Mount) -> Storage:
        return Storage.open(
            DATA_DIR,
            mount,
            self._settings,
            now_ms=self._scheduler.now_ms,
            new_uuid=lambda: UUID(int=self._random.getrandbits(128)),
        )

    def power_cut(self) -> None:
        """Now, or (more searching) inside one of the next file operations."""
        if self._shell is None or self._mount is None:
            return
        if self._random.random() < self._mix().crash_in_step:
            self._mount.crash_after_steps = self._random.randint(0, STEPS_UNTIL_CRASH_MAX)
            return
        self._counts.bit(Fault.POWER_CUT)
        self._trace.note("server", "power cut")
        self._power_cut()

    def kill(self) -> None:
        """kill -9: the page cache survives."""
        if self._shell is not None:
            self._counts.bit(Fault.KILL)
            self._trace.note("server", "killed")
            self._end()
            self._restart_later()

    def pause(self) -> None:
        """The process stands still; what arrives waits."""
        if self._shell is not None:
            self._counts.bit(Fault.PAUSE)
            self._paused_until_ms = self._scheduler.now_ms + self._random.randint(*PAUSE_MS)
            self._trace.note("server", f"paused until {self._paused_until_ms - self._scheduler.start_ms}")

    def _power_cut(self) -> None:
        self._end()
        self._disk.power_cut()
        self._restart_later()

    def _end(self) -> None:
        if self._mount is not None:
            self._mount.alive = False
        shell, self._shell, self._storage = self._shell, None, None
        self._network.listener = None
        self._paused_until_ms = 0
        if shell is not None:
            for link in shell.links:
                self._network.died(link)

    def _restart_later(self) -> None:
        self._scheduler.after(self._random.randint(*RESTART_MS), self.start)

    # -- the network's side -----------------------------------------------------------------------------

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        self._in_process(lambda shell: shell.bytes_arrived(link, data))

    def link_closed(self, link: Link) -> None:
        if self._shell is not None:
            self._shell.link_closed(link)

    def _in_process(self, action: Callable[[ServerShell], None]) -> None:
        shell = self._shell
        if shell is None:
            return
        wait_ms = self._paused_until_ms - self._scheduler.now_ms
        if wait_ms > 0:
            self._scheduler.after(wait_ms, lambda: self._if_still(shell, action))
            return
        self._if_still(shell, action)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> Event:
        mount = self._mount

        def run() -> None:
            if self._mount is mount:
                self._in_process(lambda _: action())

        return self._scheduler.after(delay_ms, run)

    def _if_still(self, shell: ServerShell, action: Callable[[ServerShell], None]) -> None:
        if self._shell is shell:
            try:
                action(shell)
            except PowerCut:
                self._counts.bit(Fault.CRASH_IN_STEP)
                self._power_cut()

    # -- what the checkers see --------------------------------------------------------------------------

    def _show_recovered(self, storage: Storage) -> None:
        logs: dict[TopicPartition, list[LoggedBatch]] = {}
        for tp in self.tps:
            partition = storage.partition(tp.topic, tp.partition)
            assert partition is not None, f"{tp} is gone"
            self._trace.note("server", str(partition.recovery))
            logs[tp] = batches = _whole_log(partition)
            ledger = self._ledgers[tp] = PartitionLedger()
            for batch in batches:
                ledger.appended(batch.header, batch.header.base_offset)
            producers = {
                producer_id: (
                    entry.producer_epoch,
                    entry.last_sequence,
                    tuple((span.base_sequence, span.base_offset) for span in entry.window),
                )
                for producer_id, entry in partition.producers()
            }
            for checker in self._checkers:
                checker.recovered(tp, producers, ledger)
                checker.watermark(tp, partition.high_watermark, partition.log_end_offset)
            self._observe(partition, ledger)
        for checker in self._checkers:
            checker.logs(self._history, logs)

    def show_logs(self) -> dict[TopicPartition, list[LoggedBatch]]:
        """The end: all logs, shown to the checkers once more."""
        assert self._storage is not None
        logs = {}
        for tp in self.tps:
            partition = self._storage.partition(tp.topic, tp.partition)
            assert partition is not None
            logs[tp] = _whole_log(partition)
        for checker in self._checkers:
            checker.logs(self._history, logs)
        return logs

    def _observe(self, partition: Partition, ledger: PartitionLedger) -> None:
        """Show the checkers every verdict, by standing in front of the one function that gives them."""
        append_all, tp = partition.append_all, partition.name

        def observed(incoming: Sequence[Incoming], now_ms: int) -> list[AppendOutcome]:
            outcomes = append_all(incoming, now_ms)
            for one, outcome in zip(incoming, outcomes, strict=True):
                self._judged(tp, ledger, one, outcome)
            return outcomes

        partition.append_all = observed  # type: ignore[method-assign]

    def _judged(
        self, tp: TopicPartition, ledger: PartitionLedger, incoming: Incoming, outcome: AppendOutcome
    ) -> None:
        header = decode_header(incoming.batches)
        if outcome.verdict is None:
            self._counts.verdict(outcome.error_code.name)
            self._trace.note("server", f"{tp} {outcome.error_code.name}: {outcome.error_message}")
            return
        verdict = type(outcome.verdict).__name__
        self._counts.verdict(verdict)
        sequences = (
            f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}+{header.record_count}"
        )
        self._trace.note("server", f"{tp} {sequences} {verdict} at {outcome.base_offset}")
        known_offset = outcome.base_offset if outcome.base_offset >= 0 else None
        for checker in self._checkers:
            checker.judged(tp, header, ledger, verdict, known_offset)
        if verdict == "Append":
            ledger.appended(header, outcome.base_offset)

    def _after_sync(self, tps: Sequence[TopicPartition]) -> None:
        if self._storage is None:
            return
        for tp in tps:
            partition = self._storage.partition(tp.topic, tp.partition)
            if partition is None:
                continue
            self._trace.note("server", f"{tp} synced to {partition.high_watermark}")
            for checker in self._checkers:
                checker.watermark(tp, partition.high_watermark, partition.log_end_offset)


def _whole_log(partition: Partition) -> list[LoggedBatch]:
    """Every batch from the log's start to its end, read as a consumer's answer would be."""
    batches: list[LoggedBatch] = []
    from_offset = partition.log_start_offset
    while from_offset < partition.log_end_offset:
        piece = partition.read(from_offset, 1 << 20, partition.log_end_offset)
        assert isinstance(piece, Slice)
        batches += logged_batches(piece.read())
        from_offset = batches[-1].header.last_offset + 1
    return batches
