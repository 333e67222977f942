"""One partition's log: append, sync, read, trim (Kafka's ``UnifiedLog``).

Its parts are :mod:`~semel.server.storage.appending`, :mod:`~semel.server.storage.reading`,
:mod:`~semel.server.storage.syncing`, :mod:`~semel.server.storage.trimming` and
:mod:`~semel.server.storage.cleaning`, over one
:class:`~semel.server.storage.log_state.LogState`; here it is opened, asked and closed.

One thread appends and reads (the event loop); others may be in :meth:`Partition.sync` and
:meth:`Partition.write_snapshot` at the same time, and one may do the work that a trim puts aside
(:mod:`semel.server.storage.aside`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from semel.core.lease import LiveLeases
from semel.core.log.config import LogConfig
from semel.core.log.leader_epochs import LEADER_EPOCH_MAX, LeaderEpochs
from semel.core.log.names import folder_of
from semel.core.log.recovery import Damaged
from semel.core.log.transactions import OpenTransactions
from semel.core.log.watermarks import Synced, Watermarks
from semel.core.producer_state.entry import ProducerEntry
from semel.core.producer_state.slab import SlabBytes
from semel.core.producer_state.state import FrozenProducers, OpenTransaction
from semel.record.batch import BatchHeader
from semel.server.storage.appending import Appending
from semel.server.storage.checkpoints import LogStarts
from semel.server.storage.cleaning import Cleaner, Cleaning
from semel.server.storage.epoch_file import EpochFile
from semel.server.storage.epoch_rebuild import epochs_in_log
from semel.server.storage.known_producers import KnownProducers
from semel.server.storage.log_segments import LogSegments
from semel.server.storage.log_state import LogState
from semel.server.storage.observer import StorageObserver
from semel.server.storage.open_files import OpenFiles
from semel.server.storage.opening import OpenedLog, open_log
from semel.server.storage.outcome import AppendOutcome, Incoming, RecoveryReport, Unopened
from semel.server.storage.producer_bound import ProducerBound
from semel.server.storage.reading import Reading
from semel.server.storage.recovery_point import RecoveryPoint
from semel.server.storage.snapshots import SnapshotFiles
from semel.server.storage.syncing import Syncing
from semel.server.storage.trimming import Trimming
from semel.types import TopicPartition

# No partition of this server can be opened then, and none must be taken for damaged.
_NOT_ITS_FAULT: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS}
)


class Partition:
    """One partition's log, usable from any thread that is the only one."""

    def __init__(
        self,
        files: OpenFiles,
        data_dir: Path,
        name: TopicPartition,
        config: LogConfig,
        *,
        durable: bool,
        clean: bool,
        leader_epoch: int,
        log_starts: LogStarts,
        producer_bound: ProducerBound,
        leases: LiveLeases,
        now_ms: int,
        observer: StorageObserver,
        cleaner: Cleaner,
        sync_failed: Callable[[], None],
    ) -> None:
        """Open the partition's folder, recover what is in it, and be ready.

        ``leader_epoch`` is the server's (:mod:`semel.server.storage.leader_epoch`).
        ``sync_failed`` hears of that, in any thread: what was written since the last one may be gone.
        """
        self.name = name
        folder = data_dir / folder_of(name)
        snapshots = SnapshotFiles(files.file_system, folder)
        epochs = EpochFile(files.file_system, folder)
        recovery_point: RecoveryPoint | None = None
        log_start_offset = log_starts.get(name)
        try:
            recovery_point = RecoveryPoint(files.file_system, folder)
            opened = open_log(
                files,
                folder,
                snapshots,
                config,
                log_start_offset=log_start_offset,
                recovery_point=max(recovery_point.load(), log_start_offset),
                clean=clean,
                now_ms=now_ms,
            )
            epochs.load(opened.leader_epoch, partial(epochs_in_log, opened.segments, opened.leader_epoch))
        except OSError as error:
            if error.errno in _NOT_ITS_FAULT:
                raise
            opened = OpenedLog.unopened(log_start_offset, error)
        first, last = (opened.segments[0], opened.segments[-1]) if opened.segments else (None, None)
        start_offset = log_start_offset if first is None else max(log_start_offset, first.base_offset)
        end = Synced(log_start_offset, 0) if last is None else Synced(last.end_offset, last.size_bytes)
        # Also of a folder that has come here from another server.
        leader_epoch = min(max(leader_epoch, epochs.latest + 1), LEADER_EPOCH_MAX)
        epochs.cut_start(start_offset)
        epochs.cut_end(end.offset)
        epochs.begin(leader_epoch, end.offset)
        transactions = OpenTransactions(
            (one.producer_id, one.first_offset) for one in opened.producers.open_transactions()
        )
        producers = KnownProducers(opened.producers, producer_bound, leases)
        self._log = log = LogState(
            name,
            config,
            files,
            folder,
            LogSegments(opened.segments),
            Watermarks(end, durable=durable, transactions=transactions),
            epochs,
            leader_epoch,
            producers,
            start_offset,
        )
        self._closed_well: bool | None = None
        self._acknowledged_offset = 0  # exclusive end of what was acknowledged before it was synced
        self._syncing = syncing = Syncing(
            log, snapshots, recovery_point, sync_failed, snapshot_offset=opened.snapshot_offset
        )
        self._appending = appending = Appending(log, syncing, leases, observer)
        self._reading = reading = Reading(log)
        trimming = Trimming(log, appending, reading, syncing, log_starts, observer)
        cleaning = Cleaning(log, appending, syncing, cleaner)
        # What its parts do for it.
        self.append_all, self.roll = appending.append_all, appending.roll
        self.read, self.offset_for_timestamp = reading.read, reading.offset_for_timestamp
        self.aborted_in = reading.aborted_in
        self.newest_record, self.leader_epoch_at = reading.newest_record, reading.leader_epoch_at
        self.end_offset_for_leader_epoch = reading.end_offset_for_leader_epoch
        self.parts_from = reading.parts_from
        self.sync, self.write_snapshot = syncing.sync, syncing.write_snapshot
        self.delete_records, self.apply_retention = trimming.delete_records, trimming.apply_retention
        self.clean = cleaning.clean
        self.expire_producers, self.forget_leases = producers.expire, producers.forget_leases
        self.recovery = self._recover(opened)

    def _recover(self, opened: OpenedLog) -> RecoveryReport:
        """What was found; a partition that cannot be served is offline from now on."""
        log, verdict = self._log, opened.verdict
        report = RecoveryReport(
            log.name,
            verdict,
            log.log_start_offset,
            log.marks.log_end_offset,
            opened.cut_bytes,
            opened.scanned_bytes,
        )
        if not isinstance(verdict, Damaged | Unopened):
            self._syncing.save_recovery_point()
            return report
        log.go_offline(str(report))
        return report

    # What is known

    @property
    def config(self) -> LogConfig:
        return self._log.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._log.config = config

    @property
    def is_online(self) -> bool:
        return self._log.offline_reason is None  # asked for at each request

    @property
    def offline_reason(self) -> str | None:
        return self._log.offline_reason

    @property
    def no_room(self) -> str | None:
        """Why the last write was refused, when the disk is only full."""
        return self._appending.no_room

    @property
    def leader_epoch(self) -> int:
        return self._log.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.marks.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what readers may see."""
        return self._log.marks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end of what readers may see that want no record of an open transaction."""
        return self._log.last_stable_offset

    @property
    def synced_offset(self) -> int:
        """Exclusive end of what a power cut cannot take."""
        return self._log.marks.synced.offset

    @property
    def needs_sync(self) -> bool:
        return self.synced_offset < self.log_end_offset and self.is_online

    @property
    def has_unseen(self) -> bool:
        """Whether something was appended that readers cannot see before a sync."""
        return self.high_watermark < self.log_end_offset and self.is_online

    @property
    def owes_sight(self) -> bool:
        """Whether rows that were acknowledged, as those of an open transaction are, cannot be seen before a sync."""
        return self.high_watermark < self._acknowledged_offset and self.is_online

    def note_acknowledged(self, end_offset: int) -> None:
        """All below it was acknowledged, though it is not synced."""
        self._acknowledged_offset = max(self._acknowledged_offset, end_offset)

    @property
    def wants_sync(self) -> bool:
        """Whether a full segment waits for the disk. Without a sync soon no further one can be begun."""
        return self.is_online and self._log.segments.all[-1].base_offset > self.synced_offset

    @property
    def owes_snapshot(self) -> bool:
        """Whether a large snapshot is due that may be written now."""
        return self._syncing.owes_snapshot

    @property
    def size_bytes(self) -> int:
        return self._log.segments.size_bytes

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        return self._log.segments.base_offsets

    @property
    def epochs(self) -> LeaderEpochs:
        return self._log.epochs.epochs

    def producers(self) -> list[tuple[int, ProducerEntry]]:
        """Every known producer id with what is known of it, by id."""
        return sorted(self._log.producers.state)

    def open_transactions(self) -> list[OpenTransaction]:
        """Each transaction that is open here, by its first offset: for who has to end it."""
        return self._log.producers.state.open_transactions()

    def has_open_transaction(self, producer_id: int) -> bool:
        """Whether it has written here in a transaction that no marker has ended."""
        entry = self._log.producers.state.get(producer_id)
        return entry is not None and entry.is_in_transaction

    def end_of_open_transaction(self, producer_id: int) -> int:
        """The offset behind its last row in a transaction that no marker has ended here; 0: there is none.

        Offsets that a coordinator writes have no sequences, and are none: they are durable when they are acknowledged.
        """
        entry = self._log.producers.state.get(producer_id)
        if entry is None or not entry.is_in_transaction:
            return 0
        return entry.window[-1].last_offset + 1 if entry.window else 0

    @property
    def producer_count(self) -> int:
        return len(self._log.producers.state)

    @property
    def slab_bytes(self) -> SlabBytes:
        """The memory of the rows of its producers."""
        return self._log.producers.state.slab_bytes

    def knows(self, producer_id: int) -> bool:
        """Whether a producer has written here, and is remembered."""
        return producer_id in self._log.producers.state

    def freeze_producers(self) -> FrozenProducers:
        """What is known now, for who takes longer to look at it."""
        return self._log.producers.state.freeze()

    # What is done to it as a whole

    def append(self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> AppendOutcome:
        """Append one request's batches, whose CRCs were checked: all of them or none."""
        return self.append_all([Incoming(batches, headers)], now_ms)[0]

    def close(self, *, now_ms: int) -> bool:
        """Sync and leave everything so that the next start need not scan; whether that worked, also when asked again.

        In any thread, where nothing else is done to it any more.
        """
        if self._closed_well is None:
            if self.is_online and self._log.segments.all:
                self._syncing.close()
            self._closed_well = self.is_online
            self._log.go_offline("closed")
            self.let_go()
        return self._closed_well

    def abandon(self, reason: str) -> None:
        """The partition is deleted: it answers nothing any more, and :meth:`let_go` may follow."""
        self._log.go_offline(reason)
        self._log.producers.forget_all(self.log_end_offset)

    def let_go(self) -> None:
        """Close the files of a partition that answers nothing any more; in any thread.

        A sync or a snapshot that is under way ends first: it writes into the folder by name, and the name may
        soon be that of another topic's partition.
        """
        self._syncing.let_go()
