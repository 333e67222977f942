"""Appends to one partition's log: judged, counted and written, all batches of a request or none.

Invariant: the producer state speaks for exactly what is in the files; a write that failed leaves no trace in it. One
that could not be taken back takes the partition offline.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from semel.core.lease import LiveLeases
from semel.core.log.admission import inadmissible
from semel.core.log.config import LOG_APPEND_TIME
from semel.core.log.policy import room_in
from semel.core.producer_state.entry import coordinator_epoch_in
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
from semel.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, assign_offsets
from semel.record.control import is_abort
from semel.server.storage.append_group import AppendGroup
from semel.server.storage.log_state import LogState
from semel.server.storage.observer import StorageObserver
from semel.server.storage.outcome import NO_OFFSET, AppendOutcome, Incoming
from semel.server.storage.segment import Segment, TornWrite, remove_segment_files
from semel.server.storage.syncing import Syncing
from semel.types import LEASED_IDS_FROM, NO_PRODUCER_ID, NO_TIMESTAMP

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OF_TRANSACTIONS: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_UNSYNCED_SEGMENTS_MAX: Final = 32  # full ones, whose files are held open until they are synced


class Appending:
    """``no_room``: why the last write was refused, when the disk is only full."""

    def __init__(
        self, log: LogState, syncing: Syncing, leases: LiveLeases, observer: StorageObserver
    ) -> None:
        self.no_room: str | None = None
        self._log = log
        self._syncing = syncing
        self._leases = leases
        self._observer = observer

    def append_all(self, incoming: Sequence[Incoming], now_ms: int) -> list[AppendOutcome]:
        """Append several requests' batches in order, as far as possible with one write."""
        reason = self._log.offline_reason
        if reason is None:
            outcomes = self._append_all(incoming, now_ms)
        else:
            outcomes = [self._storage_error(reason)] * len(incoming)
        self._observer.judged(self._log.name, incoming, outcomes)
        return outcomes

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty. ``OSError``: nothing changed."""
        log = self._log
        segments, end_offset = log.segments, log.marks.log_end_offset
        active = segments.all[-1]
        if active.size_bytes == 0:
            return
        segments.cool_down(log.marks.synced.offset)
        if segments.warm > _UNSYNCED_SEGMENTS_MAX:
            raise OSError(f"{_UNSYNCED_SEGMENTS_MAX} full segments wait for the disk to sync them")
        active.flush_indexes()
        log.is_folder_dirty = True
        try:
            fresh = Segment.create(log.files, log.folder, end_offset, now_ms=now_ms)
        except OSError:
            self._remove_half_made(end_offset)
            raise
        active.freeze()
        self._syncing.owe_snapshot()
        segments.add(fresh)
        segments.cool_down(log.marks.synced.offset)

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
        self._log.producers.count()
        return outcomes

    def _new_group(self, now_ms: int) -> AppendGroup:
        log = self._log
        return AppendGroup(log.marks.log_end_offset, room_in(log.segments.all[-1].facts, log.config, now_ms))

    def _admit(self, incoming: Incoming, group: AppendGroup, slot: int, now_ms: int) -> AppendOutcome:
        """Judge one request's batches and add them to the group; a refusal of one is a refusal of all."""
        log = self._log
        config, known = log.config, log.producers
        append_time_ms = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else None
        producers = known.state
        base_offset, batches_before = group.end_offset, len(group.buffers)
        rest = incoming.batches
        for header in incoming.headers:
            refused = inadmissible(header, config, now_ms, incoming.origin)
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
                if begins and known.is_one_too_many(producer_id, group.new_leases):
                    group.take_back(batches_before, producers)
                    return self._refuse_unknown(header)
                if header.is_control:
                    epoch = coordinator_epoch_in(batch)
                    before = producers.apply_marker(header, group.end_offset, epoch, now_ms)
                else:
                    before = producers.apply(header, group.end_offset, now_ms)
            batch_offset = group.end_offset
            group.add(batch, header, before)
            assign_offsets(batch, batch_offset, log.leader_epoch, append_time_ms=append_time_ms)
        group.slots.append(slot)
        return AppendOutcome(
            ErrorCode.NONE,
            base_offset,
            NO_TIMESTAMP if append_time_ms is None else append_time_ms,
            log.log_start_offset,
            group.end_offset,
            None,
            APPEND,
        )

    def _write_group(self, group: AppendGroup, outcomes: list[AppendOutcome], now_ms: int) -> None:
        """Write what was admitted; when that fails, none of it ever happened."""
        if not group.buffers:
            return
        log = self._log
        try:
            self._write(group.buffers)
        except OSError as error:
            group.take_back(0, log.producers.state)
            for slot in group.slots:
                outcomes[slot] = self._not_written(error)
            return
        if group.new_leases:
            log.producers.note_leases(group.new_leases)
        config, marks = log.config, log.marks
        append_time_ms = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else NO_TIMESTAMP
        active, interval_bytes = log.segments.all[-1], config.index_interval_bytes
        for batch, header in zip(group.buffers, group.headers, strict=True):
            if header.attributes & _OF_TRANSACTIONS and header.producer_id != NO_PRODUCER_ID:
                self._note_transaction(batch, header, marks.log_end_offset)
            last_offset = marks.log_end_offset + header.last_offset_delta
            timestamp_ms = header.max_timestamp if append_time_ms == NO_TIMESTAMP else append_time_ms
            active.note(header.size_bytes, last_offset, timestamp_ms, index_interval_bytes=interval_bytes)
            marks.appended(last_offset + 1)

    def _note_transaction(self, batch: memoryview, header: BatchHeader, offset: int) -> None:
        """A batch of one was written at ``offset``, or the marker that ends one."""
        segments, marks = self._log.segments, self._log.marks
        transactions = marks.transactions
        if not header.is_control:
            transactions.began(header.producer_id, offset)
            return
        aborted = transactions.end(
            header.producer_id, offset, aborted=is_abort(batch), high_watermark=marks.high_watermark
        )
        if aborted is not None:
            segments.note_aborted(aborted)

    def _write(self, buffers: Sequence[memoryview]) -> None:
        """``OSError``: nothing of it is in the log. Unless the disk is only full: offline."""
        log = self._log
        if log.offline_reason is not None:  # since the group was begun
            raise OSError(log.offline_reason)
        try:
            log.epochs.save()
            log.segments.all[-1].write(buffers)
        except TornWrite as error:
            log.go_offline(f"a torn write could not be taken back: {error}")
            raise
        except OSError as error:
            if error.errno not in _NO_ROOM:
                log.go_offline(f"write failed: {error}")
            raise
        self.no_room = None

    def _remove_half_made(self, base_offset: int) -> None:
        """A stray file would tell the next start that the segment before it is complete."""
        log = self._log
        try:
            remove_segment_files(log.files.file_system, log.folder, base_offset)
        except OSError as error:
            log.go_offline(f"a half-made segment could not be removed: {error}")

    # -- refusals ---------------------------------------------------------------------------------------

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

    def _refuse_unknown(self, header: BatchHeader) -> AppendOutcome:
        """Leased ids share their sequence with all others: between any two there are some that nobody was leased."""
        share = self._log.producers.share
        if share.is_forged(header.producer_id):
            return self._refuse(header, UnknownProducer(header.producer_id, header.base_sequence), 0)
        return self._outcome(ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=share.refusal)

    def _not_written(self, error: OSError) -> AppendOutcome:
        if error.errno in _NO_ROOM and self._log.is_online:
            self.no_room = str(error)
        return self._storage_error(str(error))

    def _storage_error(self, reason: str) -> AppendOutcome:
        return self._outcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=reason)

    def _outcome(self, code: ErrorCode, **fields: object) -> AppendOutcome:
        return AppendOutcome(code, log_start_offset=self._log.log_start_offset, **fields)  # type: ignore[arg-type]
