"""Makes one partition's log durable, with a snapshot of its producers where one is due.

A failed sync is never tried again: the pages look clean then and are lost. The partition goes offline.

Threads: :meth:`Syncing.sync` and :meth:`Syncing.write_snapshot` run beside the event loop, which appends meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from threading import Lock

from semel.core.producer_state.slot_index import FEW_ROWS
from semel.core.producer_state.state import FrozenProducers
from semel.server.storage.log_state import LogState
from semel.server.storage.recovery_point import RecoveryPoint
from semel.server.storage.segment import Segment
from semel.server.storage.snapshots import SnapshotFiles


class Syncing:
    """``snapshot_offset``: up to where the newest snapshot on the disk speaks."""

    def __init__(
        self,
        log: LogState,
        snapshots: SnapshotFiles,
        recovery_point: RecoveryPoint | None,
        sync_failed: Callable[[], None],
        *,
        snapshot_offset: int,
    ) -> None:
        self.snapshot_offset = snapshot_offset
        self._log = log
        self._snapshots = snapshots
        self._recovery_point = recovery_point
        self._sync_failed = sync_failed
        self._sync_lock = Lock()
        self._snapshot_lock = Lock()  # taken before the other where both are
        self._snapshot_due: FrozenProducers | None = None

    def owe_snapshot(self) -> None:
        """Of what is known now, once all of that is synced. (While nobody appends: on the event loop.)"""
        self._snapshot_due = self._log.producers.state.freeze()

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
            if owed is not None and self._log.segments.all:
                self._write_snapshot(owed)

    def sync_with_snapshot(self) -> None:
        """However large the one is that is due."""
        self.sync()
        self.write_snapshot()

    def close(self) -> None:
        """Leave everything so that the next start need not scan."""
        log = self._log
        active = log.segments.all[-1]
        try:
            active.flush_indexes()
            log.is_folder_dirty |= not active.aborted.is_synced  # its file may be new
            active.sync(with_indexes=True)
        except OSError as error:
            self._sync_failed()
            log.go_offline(f"closing failed: {error}")
        self.owe_snapshot()
        self.sync_with_snapshot()
        self.save_recovery_point(durable=True)

    def save_recovery_point(self, *, durable: bool = False) -> None:
        """Up to what is synced the next start need not scan. (None could be opened: then it is offline.)"""
        if self._recovery_point is not None:
            self._recovery_point.save(self._log.marks.synced.offset, durable=durable)

    def let_go(self) -> None:
        """Close the files, once a sync or a snapshot that is under way has ended."""
        with self._snapshot_lock, self._sync_lock:
            self._log.segments.close()

    def _owed_snapshot(self) -> FrozenProducers | None:
        """It must not know more than what is synced; a sync writes the small ones itself."""
        due = self._snapshot_due
        if due is None or len(due) <= FEW_ROWS or due.end_offset > self._log.marks.synced.offset:
            return None
        return due

    def _sync(self) -> None:
        """Appends go on meanwhile, so the order of reads matters: the target, then the segments that hold it.

        Likewise a segment's size before its end: an append sets them the other way round, so that a size that
        is too large shows in an end that is not the target.
        """
        log = self._log
        snapshot = self._snapshot_due  # before the target: it must not know more than what is synced
        target, segments = log.marks.log_end_offset, log.segments.all
        if not log.is_online or not segments:
            return
        size_bytes = segments[-1].size_bytes
        position = size_bytes if segments[-1].end_offset == target else None
        try:
            if log.is_folder_dirty:
                log.is_folder_dirty = False  # before the sync: a name made meanwhile sets it again
                log.files.file_system.fsync_dir(log.folder)
            for segment in self._unsynced_of(segments):
                segment.sync(with_indexes=segment is not segments[-1])
        except OSError as error:
            self._sync_failed()
            log.go_offline(f"sync failed: {error}")
            return
        if snapshot is not None and len(snapshot) <= FEW_ROWS:
            self._write_snapshot(snapshot)
        log.marks.synced_to(target, position)
        self.save_recovery_point()

    def _unsynced_of(self, segments: Sequence[Segment]) -> list[Segment]:
        """The last one, and those full ones that no sync has covered with their indexes; oldest first."""
        synced_offset = self._log.marks.synced.offset
        full = takewhile(
            lambda segment: segment.end_offset > synced_offset or segment.owes_index_sync,
            islice(reversed(segments), 1, None),
        )
        return [*reversed(list(full)), segments[-1]]

    def _write_snapshot(self, snapshot: FrozenProducers) -> None:
        with suppress(OSError):  # it stays due; without it the next start is slower, not wrong
            self._snapshots.write(snapshot)
            self.snapshot_offset = max(self.snapshot_offset, snapshot.end_offset)
            if self._snapshot_due is snapshot:
                self._snapshot_due = None
