"""One partition's log: append, sync, read, trim (Kafka's ``UnifiedLog``).

Invariants:
- Offsets are dense. ``log_start_offset`` <= ``high_watermark``, and never goes back; how far the log goes, and for
  whom, :mod:`semel.core.log.watermarks` says.
- The producer state speaks for exactly what is in the files; a write that failed leaves no trace in it.
- A failed sync, or a write that could not be taken back, takes the partition offline until it is opened anew.
  It is never tried again: the pages of a failed sync look clean and are lost.

One thread appends and reads (the event loop); others may be in :meth:`Partition.sync` and
:meth:`Partition.write_snapshot` at the same time, and one may do the work that a trim puts aside
(:mod:`semel.server.storage.aside`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from threading import Lock
from typing import Final

from semel.core.lease import LiveLeases
from semel.core.log import leader_epochs as epochs_of
from semel.core.log.admission import inadmissible
from semel.core.log.config import LOG_APPEND_TIME, LogConfig
from semel.core.log.leader_epochs import LeaderEpoch, LeaderEpochs
from semel.core.log.names import folder_of
from semel.core.log.policy import count_below, count_expired, is_expired, room_in
from semel.core.log.recovery import Cut, Damaged
from semel.core.log.watermarks import FetchIsolation, Synced, Watermarks
from semel.core.producer_state.entry import ProducerEntry, coordinator_epoch_in
from semel.core.producer_state.leased_ids import LeasedIds
from semel.core.producer_state.slab import SlabBytes
from semel.core.producer_state.slot_index import FEW_ROWS
from semel.core.producer_state.state import FrozenProducers, ProducerState
from semel.core.producer_state.verdict import (
    APPEND,
    Duplicate,
    UnknownProducer,
    Verdict,
    error_code,
    explain,
    judge_lease,
)
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader, assign_offsets
from semel.server.storage.append_group import AppendGroup
from semel.server.storage.aside import aside
from semel.server.storage.epoch_file import EpochFile
from semel.server.storage.log_segments import LogSegments
from semel.server.storage.log_starts import LogStarts
from semel.server.storage.observer import StorageObserver
from semel.server.storage.open_files import OpenFiles
from semel.server.storage.opening import OpenedLog, open_log, remove_segment_files
from semel.server.storage.outcome import (
    NO_OFFSET,
    AppendOutcome,
    Incoming,
    OffsetOutOfRange,
    RecoveryReport,
    Slice,
    TimestampOffset,
    Unopened,
)
from semel.server.storage.producer_bound import BoundShare, ProducerBound
from semel.server.storage.recovery_point import RecoveryPoint
from semel.server.storage.segment import Segment, TornWrite
from semel.server.storage.snapshots import SnapshotFiles
from semel.server.storage.time_search import first_at_or_after, newest_in
from semel.types import LEASED_IDS_FROM, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

# No partition of this server can be opened then, and none must be taken for damaged.
_NOT_ITS_FAULT: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS}
)
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_UNSYNCED_SEGMENTS_MAX: Final = 32  # full ones, whose files are held open until they are synced


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
        log_starts: LogStarts,
        producer_bound: ProducerBound,
        leases: LiveLeases,
        now_ms: int,
        observer: StorageObserver,
    ) -> None:
        """Open the partition's folder, recover what is in it, and be ready."""
        self.name = name
        self.config = config
        self._files = files
        self._file_system = file_system = files.file_system
        self._folder = data_dir / folder_of(name)
        self._log_starts = log_starts
        self._leases = leases
        self._observer = observer
        self._snapshots = SnapshotFiles(file_system, self._folder)
        self._sync_lock = Lock()
        self._snapshot_lock = Lock()  # taken before the other where both are
        self._snapshot_due: FrozenProducers | None = None
        self._folder_dirty = True  # its names, or some of them, may not be durable yet
        self._offline_reason: str | None = None
        self.no_room: str | None = None  # why the last write was refused, when the disk is only full

        log_start_offset = log_starts.get(name)
        self._epochs = EpochFile(file_system, self._folder)
        self._snapshot_offset = 0  # up to where the newest snapshot on the disk speaks
        try:
            self._recovery_point = RecoveryPoint(file_system, self._folder)
            opened = open_log(
                files,
                self._folder,
                self._snapshots,
                config,
                log_start_offset=log_start_offset,
                recovery_point=max(self._recovery_point.load(), log_start_offset),
                clean=clean,
                now_ms=now_ms,
            )
            self._snapshot_offset = opened.snapshot_offset
            self._epochs.load()
        except OSError as error:
            if error.errno in _NOT_ITS_FAULT:
                raise
            opened = OpenedLog.unopened(log_start_offset, error)
        self._segments = LogSegments(opened.segments)
        self._producers: ProducerState = opened.producers
        self._share = BoundShare(producer_bound)
        self._share.update(len(self._producers))
        self._leased = LeasedIds(self._producers.leased_ids())
        self._share.use(self._leased)
        base_offset = opened.segments[0].base_offset if opened.segments else log_start_offset
        self.log_start_offset = max(log_start_offset, base_offset)
        last = opened.segments[-1] if opened.segments else None
        end = Synced(log_start_offset, 0) if last is None else Synced(last.end_offset, last.size_bytes)
        self._marks = Watermarks(end, durable=durable)
        self._epochs.cut_start(self.log_start_offset)
        self.leader_epoch = self._epochs.latest
        self.recovery = RecoveryReport(
            name,
            opened.verdict,
            self.log_start_offset,
            self.log_end_offset,
            opened.cut_bytes,
            opened.scanned_bytes,
        )
        if isinstance(opened.verdict, Damaged | Unopened):
            self._go_offline(str(self.recovery))
            return
        if isinstance(opened.verdict, Cut):
            # Whoever read what was cut must be able to see that these offsets are written anew (KIP-320).
            self._epochs.cut_end(self.log_end_offset)
            self.leader_epoch += 1
        try:
            self._epochs.begin(self.leader_epoch, self.log_end_offset)
        except OSError as error:
            if error.errno in _NOT_ITS_FAULT:
                raise
            self.recovery = replace(self.recovery, verdict=Unopened(str(error)))
            self._go_offline(str(self.recovery))
            return
        self._recovery_point.save(self.synced_offset)

    # What is known

    @property
    def is_online(self) -> bool:
        return self._offline_reason is None

    @property
    def offline_reason(self) -> str | None:
        return self._offline_reason

    @property
    def log_end_offset(self) -> int:
        return self._marks.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Exclusive end of what readers may see."""
        return self._marks.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._marks.last_stable_offset

    @property
    def synced_offset(self) -> int:
        """Exclusive end of what a power cut cannot take."""
        return self._marks.synced.offset

    @property
    def needs_sync(self) -> bool:
        return self.synced_offset < self.log_end_offset and self.is_online

    @property
    def has_unseen(self) -> bool:
        """Whether something was appended that readers cannot see before a sync."""
        return self.high_watermark < self.log_end_offset and self.is_online

    @property
    def wants_sync(self) -> bool:
        """Whether a full segment waits for the disk. Without a sync soon no further one can be begun."""
        return self.is_online and self._segments.all[-1].base_offset > self.synced_offset

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_base_offsets(self) -> tuple[int, ...]:
        return self._segments.base_offsets

    @property
    def epochs(self) -> LeaderEpochs:
        return self._epochs.epochs

    def producers(self) -> list[tuple[int, ProducerEntry]]:
        """Every known producer id with what is known of it, by id."""
        return sorted(self._producers)

    @property
    def producer_count(self) -> int:
        return len(self._producers)

    @property
    def slab_bytes(self) -> SlabBytes:
        """The memory of the rows of its producers."""
        return self._producers.slab_bytes

    def knows(self, producer_id: int) -> bool:
        """Whether a producer has written here, and is remembered."""
        return producer_id in self._producers

    def freeze_producers(self) -> FrozenProducers:
        """What is known now, for who takes longer to look at it."""
        return self._producers.freeze()

    # Appending

    def append(self, batches: memoryview, headers: Sequence[BatchHeader], now_ms: int) -> AppendOutcome:
        """Append one request's batches, whose CRCs were checked: all of them or none."""
        return self.append_all([Incoming(batches, headers)], now_ms)[0]

    def append_all(self, incoming: Sequence[Incoming], now_ms: int) -> list[AppendOutcome]:
        """Append several requests' batches in order, as far as possible with one write."""
        if self._offline_reason is None:
            outcomes = self._append_all(incoming, now_ms)
        else:
            outcomes = [self._storage_error(self._offline_reason)] * len(incoming)
        self._observer.judged(self.name, incoming, outcomes)
        return outcomes

    def _append_all(self, incoming: Sequence[Incoming], now_ms: int) -> list[AppendOutcome]:
        outcomes: list[AppendOutcome] = []
        group = self._new_group(now_ms)
        for one in incoming:
            if not group.fits(one):
                try:
                    self._write_group(group, outcomes, now_ms)
                    self.roll(now_ms)
                except OSError as error:
                    outcomes.append(self._not_written(error))
                    continue
                finally:
                    group = self._new_group(now_ms)
            outcomes.append(self._admit(one, group, len(outcomes), now_ms))
        self._write_group(group, outcomes, now_ms)
        self._share.update(len(self._producers))
        return outcomes

    def _new_group(self, now_ms: int) -> AppendGroup:
        return AppendGroup(self.log_end_offset, room_in(self._segments.all[-1].facts, self.config, now_ms))

    def _admit(self, incoming: Incoming, group: AppendGroup, slot: int, now_ms: int) -> AppendOutcome:
        """Judge one request's batches and add them to the group; a refusal of one is a refusal of all."""
        append_time_ms = now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else None
        producers = self._producers
        base_offset, batches_before = group.end_offset, len(group.buffers)
        rest = incoming.batches
        for header in incoming.headers:
            refused = inadmissible(header, self.config, now_ms, incoming.origin)
            if refused is not None:
                group.take_back(batches_before, producers)
                return self._outcome(refused.error_code, error_message=refused.reason)
            producer_id = header.producer_id
            bad_lease = judge_lease(header, self._leases) if producer_id >= LEASED_IDS_FROM else None
            before = None
            if header.base_sequence > 0 and producer_id != NO_PRODUCER_ID and bad_lease is None:
                before = producers.append_next(header, group.end_offset, now_ms)
            batch, rest = rest[: header.size_bytes], rest[header.size_bytes :]
            if before is None:
                verdict = bad_lease or producers.judge(header)
                if verdict is not APPEND:
                    group.take_back(batches_before, producers)
                    if group.bears(verdict, producer_id):
                        group.slots.append(slot)
                    return self._refuse(header, verdict, group.end_offset)
                # Only an id that begins, or is fenced, can be new here.
                begins = header.base_sequence <= 0 and producer_id != NO_PRODUCER_ID
                if begins and self._is_one_too_many(producer_id):
                    group.take_back(batches_before, producers)
                    return self._refuse_unknown(header)
                if header.is_control:
                    epoch = coordinator_epoch_in(batch)
                    before = producers.apply_marker(header, group.end_offset, epoch, now_ms)
                else:
                    before = producers.apply(header, group.end_offset, now_ms)
            batch_offset = group.end_offset
            group.add(batch, header, before)
            assign_offsets(batch, batch_offset, self.leader_epoch, append_time_ms=append_time_ms)
        group.slots.append(slot)
        return AppendOutcome(
            ErrorCode.NONE,
            base_offset,
            NO_TIMESTAMP if append_time_ms is None else append_time_ms,
            self.log_start_offset,
            group.end_offset,
            None,
            APPEND,
        )

    def _refuse(self, header: BatchHeader, verdict: Verdict, end_offset: int) -> AppendOutcome:
        """A duplicate's answer waits for everything before ``end_offset``: its original may not be synced.

        One of a marker is a success: the fence stands.
        """
        is_duplicate = isinstance(verdict, Duplicate)
        known = verdict.base_offset if isinstance(verdict, Duplicate) else None
        stands = is_duplicate and header.is_control
        return self._outcome(
            ErrorCode.NONE if stands else error_code(verdict),
            base_offset=NO_OFFSET if known is None else known,
            error_message=None if stands else explain(verdict),
            verdict=verdict,
            sync_offset=end_offset if is_duplicate else 0,
        )

    def _write_group(self, group: AppendGroup, outcomes: list[AppendOutcome], now_ms: int) -> None:
        """Write what was admitted; when that fails, none of it ever happened."""
        if not group.buffers:
            return
        try:
            self._write(group.buffers)
        except OSError as error:
            group.take_back(0, self._producers)
            for slot in group.slots:
                outcomes[slot] = self._not_written(error)
            return
        if group.new_leases:
            self._note_leases(group.new_leases)
        append_time_ms = now_ms if self.config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
        active, interval_bytes, marks = self._segments.all[-1], self.config.index_interval_bytes, self._marks
        for header in group.headers:
            last_offset = marks.log_end_offset + header.last_offset_delta
            timestamp_ms = header.max_timestamp if append_time_ms == NO_TIMESTAMP else append_time_ms
            active.note(header.size_bytes, last_offset, timestamp_ms, index_interval_bytes=interval_bytes)
            marks.appended(last_offset + 1)

    # Syncing

    def sync(self) -> None:
        """Make all that was appended before this call durable; on failure the partition goes offline."""
        with self._sync_lock:
            self._sync()

    @property
    def owes_snapshot(self) -> bool:
        """Whether a large snapshot is due that may be written now."""
        return self._owed_snapshot() is not None

    def write_snapshot(self) -> None:
        """Write what is due and takes too long for a sync, while others append, sync and are told."""
        with self._snapshot_lock:
            owed = self._owed_snapshot()
            if owed is not None and self._segments.all:
                self._write_snapshot(owed)

    def _owed_snapshot(self) -> FrozenProducers | None:
        """It must not know more than what is synced; a sync writes the small ones itself."""
        due = self._snapshot_due
        if due is None or len(due) <= FEW_ROWS or due.end_offset > self.synced_offset:
            return None
        return due

    def _sync_with_snapshot(self) -> None:
        self.sync()
        self.write_snapshot()

    def _sync(self) -> None:
        """Appends go on meanwhile, so the order of reads matters: the target, then the segments that hold it.

        Likewise a segment's size before its end: an append sets them the other way round, so that a size that
        is too large shows in an end that is not the target.
        """
        snapshot = self._snapshot_due  # before the target: it must not know more than what is synced
        target, segments = self.log_end_offset, self._segments.all
        if self._offline_reason is not None or not segments:
            return
        size_bytes = segments[-1].size_bytes
        position = size_bytes if segments[-1].end_offset == target else None
        try:
            if self._folder_dirty:
                self._folder_dirty = False  # before the sync: a name made meanwhile sets it again
                self._file_system.fsync_dir(self._folder)
            for segment in self._unsynced_of(segments):
                segment.sync(with_indexes=segment is not segments[-1])
        except OSError as error:
            self._go_offline(f"sync failed: {error}")
            return
        if snapshot is not None and len(snapshot) <= FEW_ROWS:
            self._write_snapshot(snapshot)
        self._marks.synced_to(target, position)
        self._recovery_point.save(self.synced_offset)

    def _unsynced_of(self, segments: Sequence[Segment]) -> list[Segment]:
        """The last one, and those full ones that no sync has covered with their indexes; oldest first."""
        full = takewhile(
            lambda segment: segment.end_offset > self.synced_offset or segment.owes_index_sync,
            islice(reversed(segments), 1, None),
        )
        return [*reversed(list(full)), segments[-1]]

    def _write_snapshot(self, snapshot: FrozenProducers) -> None:
        with suppress(OSError):  # it stays due; without it the next start is slower, not wrong
            self._snapshots.write(snapshot)
            self._snapshot_offset = max(self._snapshot_offset, snapshot.end_offset)
            if self._snapshot_due is snapshot:
                self._snapshot_due = None

    def close(self, *, now_ms: int) -> bool:
        """Sync and leave everything so that the next start need not scan; whether that worked."""
        if self._offline_reason is None and self._segments.all:
            active = self._segments.all[-1]
            try:
                active.flush_indexes()
                active.sync(with_indexes=True)
            except OSError as error:
                self._go_offline(f"closing failed: {error}")
            self._snapshot_due = self._producers.freeze()
            self._sync_with_snapshot()
            self._recovery_point.save(self.synced_offset, durable=True)
        clean = self._offline_reason is None
        self._go_offline("closed")
        self.let_go()
        return clean

    def abandon(self, reason: str) -> None:
        """The partition is deleted: it answers nothing any more, and :meth:`let_go` may follow."""
        self._go_offline(reason)
        self._producers = ProducerState(end_offset=self.log_end_offset)  # for upkeep that is under way
        self._leased = LeasedIds()
        self._share.update(0)

    def let_go(self) -> None:
        """Close the files of a partition that answers nothing any more; in any thread.

        A sync or a snapshot that is under way ends first: it writes into the folder by name, and the name may
        soon be that of another topic's partition.
        """
        with self._snapshot_lock, self._sync_lock:
            self._segments.close()

    # Reading

    def read(
        self,
        from_offset: int,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        *,
        at_least_one: bool = True,
    ) -> Slice | OffsetOutOfRange:
        """Whole batches from the one that holds ``from_offset``, up to where such a reader may read.

        At most ``max_bytes``, unless ``at_least_one`` batch is wanted and the first is larger.
        """
        limit_offset = self._marks.end_for(isolation)
        if not self.log_start_offset <= from_offset <= self.log_end_offset:
            return OffsetOutOfRange(from_offset, self.log_start_offset, self.log_end_offset)
        segment = self._segments.holding(from_offset)
        if segment is None:  # damaged, or deleted meanwhile
            return OffsetOutOfRange(from_offset, self.log_start_offset, self.log_end_offset)
        if from_offset >= limit_offset:
            return Slice(segment.file, 0, 0)
        start = segment.position_of(from_offset)
        limit = self._limit_position(segment, limit_offset)
        end = segment.trim(start, limit, bytes_max=max_bytes, at_least_one=at_least_one)
        return Slice(segment.file, start, end - start)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record below the high watermark that is at least as new."""
        found = first_at_or_after(
            self._segments.all,
            timestamp_ms,
            log_start_offset=self.log_start_offset,
            end_offset=self.high_watermark,
        )
        return None if found is None else TimestampOffset(*found, self.leader_epoch_at(found.offset))

    async def newest_record(self) -> TimestampOffset | None:
        """The first of the records below the high watermark with the largest timestamp. A change: it reads aside."""
        found = await newest_in(self._segments.all, self.log_start_offset, self.high_watermark)
        return None if found is None else TimestampOffset(*found, self.leader_epoch_at(found.offset))

    def leader_epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at ``offset``, or of the one that comes there."""
        leader_epoch = self._epochs.at(offset)
        return self.leader_epoch if leader_epoch is None else leader_epoch

    def end_offset_for_leader_epoch(self, leader_epoch: int) -> LeaderEpoch:
        """The end of the largest known leader epoch at or below the asked one."""
        return epochs_of.end_offset_of(self.epochs, leader_epoch, self.log_end_offset)

    # Trimming

    async def delete_records(self, before_offset: int) -> ErrorCode:
        """Raise the log start to ``before_offset``, durably; -1 means the high watermark."""
        target = self.high_watermark if before_offset == -1 else before_offset
        is_there = 0 <= target <= self.high_watermark
        code = ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE
        if self._offline_reason is not None:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        elif is_there:
            try:
                await self._raise_log_start(target)
            except OSError:
                code = ErrorCode.KAFKA_STORAGE_ERROR
        self._observer.trimmed(self.name, code)
        return code

    async def apply_retention(self, now_ms: int) -> int:
        """Remove the segments that are too old or too many; how many went."""
        if self._offline_reason is not None:
            return 0
        if is_expired(self._segments.all[-1].facts, config=self.config, now_ms=now_ms):
            with suppress(OSError):
                self.roll(now_ms)  # an idle log must not keep its last records for ever
        count = count_expired(
            self._segments.facts, config=self.config, high_watermark=self.high_watermark, now_ms=now_ms
        )
        with suppress(OSError):  # it comes round again
            await self._raise_log_start(self._segments.all[count].base_offset)
        self._observer.retention_applied(self.name, count)
        return count

    def expire_producers(self, before_ms: int) -> Iterator[int]:
        """Forget whoever appended nothing since ``before_ms``, and the leases that are over.

        In steps; each gives how many.
        """
        for expired in self._producers.expire(before_ms, self._leases.expired_below):
            self._share.update(len(self._producers))
            yield expired

    def forget_leases(self, expired_below: int, steps_max: int) -> int:
        """Forget leases that are over, the oldest first; how many steps that took, few more than were allowed."""
        leased, steps = self._leased, 0
        while steps < steps_max and (first := leased.first()) is not None and first < expired_below:
            steps += self._producers.forget(leased.pop())
        if steps:
            self._share.update(len(self._producers))
        return steps

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty. ``OSError``: nothing changed."""
        active = self._segments.all[-1]
        if active.size_bytes == 0:
            return
        self._segments.cool_down(self.synced_offset)
        if self._segments.warm > _UNSYNCED_SEGMENTS_MAX:
            raise OSError(f"{_UNSYNCED_SEGMENTS_MAX} full segments wait for the disk to sync them")
        active.flush_indexes()
        self._folder_dirty = True
        try:
            fresh = Segment.create(self._files, self._folder, self.log_end_offset, now_ms=now_ms)
        except OSError:
            self._remove_half_made(self.log_end_offset)
            raise
        active.freeze()
        self._snapshot_due = self._producers.freeze()
        self._segments.add(fresh)
        self._segments.cool_down(self.synced_offset)

    # Within

    def _remove_half_made(self, base_offset: int) -> None:
        """A stray file would tell the next start that the segment before it is complete."""
        try:
            remove_segment_files(self._file_system, self._folder, base_offset)
        except OSError as error:
            self._go_offline(f"a half-made segment could not be removed: {error}")

    def _write(self, buffers: Sequence[memoryview]) -> None:
        """``OSError``: nothing of it is in the log. Unless the disk is only full: offline."""
        if self._offline_reason is not None:  # since the group was begun
            raise OSError(self._offline_reason)
        try:
            self._segments.all[-1].write(buffers)
        except TornWrite as error:
            self._go_offline(f"a torn write could not be taken back: {error}")
            raise
        except OSError as error:
            if error.errno not in _NO_ROOM:
                self._go_offline(f"write failed: {error}")
            raise
        self.no_room = None

    def _limit_position(self, segment: Segment, limit_offset: int) -> int:
        if limit_offset >= segment.end_offset:
            return segment.size_bytes
        synced = self._marks.synced
        if limit_offset == synced.offset and synced.position is not None:
            return synced.position
        return segment.position_of(limit_offset)

    async def _raise_log_start(self, target: int) -> None:
        """The new start is durable before a file goes: a half-done removal must not look like a hole.

        And what lies above it is durable before the new start is. Appends go on meanwhile, and readers never
        find a segment whose files are going.
        """
        if target > self.log_start_offset:
            self._observer.trims(self, target)
            if target > self.synced_offset:
                await aside(self.sync)
            if self._offline_reason is not None:
                raise OSError(self._offline_reason)
            await aside(self._log_starts.raise_to, self.name, target)
            self.log_start_offset = target
            self._observer.log_start_raised(self.name, target)
            self._epochs.cut_start(target)
        gone = count_below(self._segments.facts, self.log_start_offset)
        if gone:
            await self._outlive(self._segments.all[gone].base_offset)
            self._segments.cut_front(gone)
        if self._segments.has_going:
            await aside(self._remove_going)

    async def _outlive(self, base_offset: int) -> None:
        """What is known of the producers must not go with the batches below ``base_offset``."""
        if self._snapshot_offset < base_offset:
            self._snapshot_due = self._producers.freeze()
            await aside(self._sync_with_snapshot)
        if self._snapshot_offset < base_offset:
            raise OSError(self._offline_reason or "the producer snapshot could not be written")

    def _remove_going(self) -> None:
        try:
            self._segments.remove_going(self._file_system, self._folder)
        finally:
            self._folder_dirty = True

    def _go_offline(self, reason: str) -> None:
        if self._offline_reason is None:
            self._offline_reason = reason

    def _note_leases(self, leased_ids: Sequence[int]) -> None:
        """These leases have written here for the first time."""
        self._share.use(leased_ids)
        for producer_id in leased_ids:
            self._leased.add(producer_id)

    def _is_one_too_many(self, producer_id: int) -> bool:
        """Whether a producer would be new here, and cannot be."""
        known = self._producers
        if producer_id in known or self._share.has_room(len(known), producer_id):
            return False
        if self._share.is_forged(producer_id):
            return True
        self._share.make_room(len(known))
        return not self._share.has_room(len(known), producer_id)

    def _refuse_unknown(self, header: BatchHeader) -> AppendOutcome:
        """Leased ids share their sequence with all others: between any two there are some that nobody was leased."""
        if self._share.is_forged(header.producer_id):
            return self._refuse(header, UnknownProducer(header.producer_id, header.base_sequence), 0)
        return self._outcome(ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=self._share.refusal)

    def _not_written(self, error: OSError) -> AppendOutcome:
        if error.errno in _NO_ROOM and self.is_online:
            self.no_room = str(error)
        return self._storage_error(str(error))

    def _storage_error(self, reason: str) -> AppendOutcome:
        return self._outcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=reason)

    def _outcome(self, code: ErrorCode, **fields: object) -> AppendOutcome:
        return AppendOutcome(code, log_start_offset=self.log_start_offset, **fields)  # type: ignore[arg-type]
