"""Takes the front of one partition's log away: by a wish (DeleteRecords) or by age and size.

Invariant: what is known of the producers outlives their batches, and a new start is durable before a file goes. Its
slow work is put aside (:mod:`semel.server.storage.aside`): appends go on meanwhile.
"""

from __future__ import annotations

from contextlib import suppress

from semel.core.log.policy import count_below, count_expired, is_expired
from semel.errors import ErrorCode
from semel.server.storage.appending import Appending
from semel.server.storage.aside import aside
from semel.server.storage.checkpoints import LogStarts
from semel.server.storage.log_state import LogState
from semel.server.storage.observer import StorageObserver
from semel.server.storage.reading import Reading
from semel.server.storage.syncing import Syncing


class Trimming:
    """``log_starts``: where the log starts of all partitions are kept."""

    def __init__(
        self,
        log: LogState,
        appending: Appending,
        reading: Reading,
        syncing: Syncing,
        log_starts: LogStarts,
        observer: StorageObserver,
    ) -> None:
        self._log = log
        self._appending = appending
        self._reading = reading
        self._syncing = syncing
        self._log_starts = log_starts
        self._observer = observer

    async def delete_records(self, before_offset: int) -> ErrorCode:
        """Raise the log start to ``before_offset``, durably; -1 means the high watermark."""
        log = self._log
        target = log.marks.high_watermark if before_offset == -1 else before_offset
        is_there = 0 <= target <= log.marks.high_watermark
        code = ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE
        if not log.is_online:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        elif is_there:
            try:
                await self._raise_log_start(target)
            except OSError:
                code = ErrorCode.KAFKA_STORAGE_ERROR
        self._observer.trimmed(log.name, code)
        return code

    async def apply_retention(self, now_ms: int) -> int:
        """Remove the segments that are too old or too many; how many went."""
        log = self._log
        if not log.is_online:
            return 0
        is_deleted = log.config.is_deleted
        if is_deleted and is_expired(log.segments.all[-1].facts, config=log.config, now_ms=now_ms):
            with suppress(OSError):
                self._appending.roll(now_ms)  # an idle log must not keep its last records for ever
        count = count_expired(
            log.segments.facts, config=log.config, high_watermark=log.marks.high_watermark, now_ms=now_ms
        )
        with suppress(OSError):  # it comes round again
            await self._raise_log_start(log.segments.all[count].base_offset)
        self._observer.retention_applied(log.name, count)
        return count

    async def _raise_log_start(self, target: int) -> None:
        """The new start is durable before a file goes: a half-done removal must not look like a hole.

        And what lies above it is durable before the new start is. Appends go on meanwhile, and readers never
        find a segment whose files are going.
        """
        log = self._log
        if target > log.log_start_offset:
            self._observer.trims(self._reading, target)
            if target > log.marks.synced.offset:
                await aside(self._syncing.sync)
            if log.offline_reason is not None:
                raise OSError(log.offline_reason)
            await aside(self._log_starts.raise_to, log.name, target)
            log.log_start_offset = target
            self._observer.log_start_raised(log.name, target)
            log.epochs.cut_start(target)
        gone = count_below(log.segments.facts, log.log_start_offset)
        if gone:
            await self._outlive(log.segments.all[gone].base_offset)
            log.segments.cut_front(gone)
        if log.segments.has_going:
            await aside(self._remove_going)

    async def _outlive(self, base_offset: int) -> None:
        """What is known of the producers must not go with the batches below ``base_offset``."""
        syncing = self._syncing
        if syncing.snapshot_offset < base_offset:
            syncing.owe_snapshot()
            await aside(syncing.sync_with_snapshot)
        if syncing.snapshot_offset < base_offset:
            raise OSError(self._log.offline_reason or "the producer snapshot could not be written")

    def _remove_going(self) -> None:
        log = self._log
        try:
            log.segments.remove_going(log.files.file_system, log.folder)
        finally:
            log.is_folder_dirty = True
