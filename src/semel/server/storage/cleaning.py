"""Compacts one partition's log: of each key the newest record stays (Kafka's ``LogCleaner``).

It is a change in parts: reading and writing go aside, a few megabytes at a time, and between two parts other changes
have their turn. So each part begins by asking whether what it works on is still there.

Invariants:
- What is cleaned is full, synced, and what its producers' windows rest on is synced, too: no power cut can take the
  newer batches for whose sake older ones went.
- Of a segment that was cleaned no row is left that was aborted, so it has no index of aborted transactions.
- Readers find a segment as it was, or as it is; what they hold open stays (:mod:`semel.server.storage.replacing`).
- A log that is damaged is left alone until the next start; one that could not be written comes round again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.core.log.cleaning import Dirty, find_dirty, in_groups
from semel.core.log.config import NO_LAG_MAX
from semel.core.log.names import CLEANED_SUFFIX
from semel.core.log.policy import POSITION_MAX
from semel.core.log.transactions import ABORTED_ENTRY
from semel.core.producer_state.sorted_rows import SortedRows
from semel.core.producer_state.state import FrozenProducers
from semel.errors import CorruptRecordBatch
from semel.record.batch import BatchHeader, decode_header, scan_batches
from semel.server.storage.appending import Appending
from semel.server.storage.aside import Change, Pause, aside, in_parts
from semel.server.storage.checkpoints import CleanedEnds
from semel.server.storage.filesystem import File, FileSystem
from semel.server.storage.log_state import LogState
from semel.server.storage.replacing import let_it_count, put_in_place, remove_drafts
from semel.server.storage.segment import DamagedLog, Segment
from semel.server.storage.syncing import Syncing
from semel.types import NO_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from semel.core.log.cleaning_pass import CleaningPass, Kept
    from semel.record.keys import KeyHash

_CHUNK_BYTES: Final = 4 << 20
_UNTOLD_MAX: Final = 1000


class Failure(NamedTuple):
    """A log that could not be compacted; ``is_final``: nor will it be tried again before the next start."""

    partition: TopicPartition
    reason: str
    is_final: bool


class Cleaner:
    """What the partitions of one data folder share for it, and what has come of it since the start."""

    def __init__(
        self, file_system: FileSystem, data_dir: Path, map_bytes: int, new_secret: Callable[[], bytes]
    ) -> None:
        self.cleaned_to: Final = CleanedEnds(file_system, data_dir)
        self.map_bytes = map_bytes
        self.passes = 0
        self.read_bytes = 0  # of logs, in passes that have ended
        self.written_bytes = 0  # of these, what stayed
        self.failures = 0
        self.untold: deque[Failure] = deque(maxlen=_UNTOLD_MAX)  # not logged yet
        self.left_alone: set[TopicPartition] = set()
        self._new_secret = new_secret
        self._keys: KeyHash | None = None

    @property
    def keys(self) -> KeyHash:
        from semel.record.keys import KeyHash  # numpy: in a server that compacts

        if self._keys is None:
            self._keys = KeyHash(self._new_secret())
        return self._keys

    def failed(self, partition: TopicPartition, reason: str, *, is_final: bool) -> None:
        self.failures += 1
        self.untold.append(Failure(partition, reason, is_final))
        if is_final:
            self.left_alone.add(partition)

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """They are gone, and others may have their names. ``OSError``: as :meth:`OffsetCheckpoint.forget`."""
        self.left_alone.difference_update(partitions)
        self.cleaned_to.forget(partitions)


class _Overtaken(Exception):
    """The log was trimmed, deleted or is not to be compacted any more: what was begun is given up."""


class Cleaning:
    """Of one log."""

    def __init__(self, log: LogState, appending: Appending, syncing: Syncing, cleaner: Cleaner) -> None:
        self._log = log
        self._appending = appending
        self._syncing = syncing
        self._cleaner = cleaner
        self._is_under_way = False

    def clean(self, now_ms: int) -> Iterator[Callable[[], Change[None]]]:
        """Compact the log, if it is due. In parts, of which the first one finds out."""
        if self._log.config.is_compacted:
            yield from in_parts(partial(self._clean_if_due, now_ms))

    async def _clean_if_due(self, now_ms: int) -> None:
        log, cleaner = self._log, self._cleaner
        is_ready = log.is_online and log.config.is_compacted and log.name not in cleaner.left_alone
        if not is_ready or self._is_under_way:  # by an upkeep that is not over yet
            return
        self._is_under_way = True
        try:
            self._roll_if_idle(now_ms)
            await self._sync_to(log.segments.all[-1].base_offset)
            dirty = self._find_dirty(now_ms)
            if dirty is None or not dirty.is_due(log.config):
                return
            segments = [one for one in log.segments.all if one.base_offset < dirty.end_offset]
            known = log.producers.state.freeze()
            await self._sync_to(known.end_offset)
            log.segments.cool_down(log.marks.synced.offset)
            await self._clean(segments, dirty, known, now_ms)
        except DamagedLog as damage:
            cleaner.failed(log.name, str(damage), is_final=True)
        except OSError as error:
            cleaner.failed(log.name, str(error), is_final=False)
        except _Overtaken:
            pass
        else:
            return
        finally:
            self._is_under_way = False
        if log.is_online:
            with suppress(OSError):  # else the next start does it, or the next pass
                await aside(remove_drafts, log.files.file_system, log.folder)

    async def _sync_to(self, offset: int) -> None:
        """``_Overtaken``: the log went offline."""
        marks = self._log.marks
        if marks.synced.offset < offset:
            await aside(self._syncing.sync)
        if marks.synced.offset < offset:
            raise _Overtaken

    def _roll_if_idle(self, now_ms: int) -> None:
        """Where there is a largest lag an idle log must not keep its last records from being compacted."""
        config, active = self._log.config, self._log.segments.all[-1]
        if config.max_compaction_lag_ms < NO_LAG_MAX and now_ms - active.created_ms >= config.roll_ms:
            self._appending.roll(now_ms)

    def _find_dirty(self, now_ms: int) -> Dirty | None:
        log = self._log
        segments = log.segments
        cleaned_to = self._cleaner.cleaned_to.find(log.name)
        has_lag_max = log.config.max_compaction_lag_ms < NO_LAG_MAX
        return find_dirty(
            segments.facts,
            log.config,
            cleaned_to=cleaned_to,
            log_start_offset=log.log_start_offset,
            readable_to=log.last_stable_offset,
            first_times_ms=[
                one.first_timestamp_ms if has_lag_max and one.end_offset > (cleaned_to or 0) else NO_TIMESTAMP
                for one in segments.all[:-1]
            ],
            now_ms=now_ms,
        )

    async def _clean(
        self, segments: Sequence[Segment], dirty: Dirty, known: FrozenProducers, now_ms: int
    ) -> None:
        log, cleaner = self._log, self._cleaner
        aborted = await self._read_aborted(segments)
        cleaning = await aside(self._begin, dirty, known, aborted, now_ms)
        await self._read_keys(cleaning, segments, dirty.from_offset)
        end_offset = cleaning.read_to
        left = [one for one in segments if one.base_offset < end_offset]
        facts = [(one, one.facts) for one in left]
        read_bytes = sum(one.size_bytes for one in left)
        written_bytes = 0
        for group in list(in_groups(facts, left[-1].end_offset, log.config.segment_bytes)):
            fresh = await self._rewrite(cleaning, group, left)
            written_bytes += fresh.size_bytes
            del left[: len(group)]
        await aside(cleaner.cleaned_to.raise_to, log.name, end_offset)
        cleaner.passes += 1
        cleaner.read_bytes += read_bytes
        cleaner.written_bytes += written_bytes

    async def _read_aborted(self, segments: Sequence[Segment]) -> bytes:
        """The entries of all aborted transactions of which there are rows in these segments."""
        log = self._log
        parts = []
        for segment in segments:
            if segment.aborted.count:
                parts.append(await aside(segment.aborted.read, segment.aborted.opened()))
        end_offset = segments[-1].end_offset
        later = log.segments.aborted_in(end_offset - 1, end_offset)  # and end behind them
        parts += [ABORTED_ENTRY.pack(*entry) for entry in later]
        await self._let_others_come(segments)
        return b"".join(parts)

    def _begin(self, dirty: Dirty, known: FrozenProducers, aborted: bytes, now_ms: int) -> CleaningPass:
        from semel.core.log.aborted_rows import AbortedRows
        from semel.core.log.cleaning_pass import CleaningPass  # numpy: in a server that compacts
        from semel.core.log.offset_map import OffsetMap

        return CleaningPass(
            SortedRows(known.in_order()),
            OffsetMap(self._cleaner.map_bytes, dirty.end_offset - dirty.from_offset),
            self._cleaner.keys,
            from_offset=dirty.from_offset,
            delete_retention_ms=self._log.config.delete_retention_ms,
            now_ms=now_ms,
            aborted=AbortedRows(aborted),
        )

    async def _read_keys(self, cleaning: CleaningPass, segments: Sequence[Segment], from_offset: int) -> None:
        """Up to where the map is full."""
        for segment in segments:
            if segment.end_offset <= from_offset:
                continue
            position = segment.position_of(from_offset) if from_offset > segment.base_offset else 0
            reader = _Reader(segment, position)
            while reader.has_more:
                if not await aside(_read_keys, cleaning, reader):
                    return
                await self._let_others_come(segments)

    async def _rewrite(
        self, cleaning: CleaningPass, group: Sequence[Segment], left: Sequence[Segment]
    ) -> Segment:
        """Put what stays of some segments in their place; ``left`` are all that are still as they were."""
        log = self._log
        file_system, folder = log.files.file_system, log.folder
        fresh = await aside(
            Segment.create,
            log.files,
            folder,
            group[0].base_offset,
            now_ms=group[-1].created_ms,  # the age of records that tell no time
            draft=CLEANED_SUFFIX,
        )
        for segment in group:
            reader = _Reader(segment, 0)
            while reader.has_more:
                await aside(self._write_next, fresh, cleaning, reader)
                await self._let_others_come(left)
        await aside(self._end, fresh, cleaning.end())
        assert fresh.end_offset == group[-1].end_offset, "offsets were lost"
        try:
            await aside(let_it_count, file_system, folder, fresh)
            log.segments.replace(group, fresh)
            await aside(put_in_place, file_system, folder, fresh, group)
        except OSError as error:
            log.go_offline(f"a compacted segment could not take its place: {error}")
            raise
        fresh.cool()
        return fresh

    def _write_next(self, fresh: Segment, cleaning: CleaningPass, reader: _Reader) -> None:
        self._write(fresh, cleaning.write(reader.read()))

    def _write(self, fresh: Segment, kept: Iterator[Kept]) -> None:
        batches = list(kept)
        data = b"".join([one.batch for one in batches])
        if fresh.size_bytes + len(data) > POSITION_MAX:
            raise OSError(f"{len(data)} bytes more are too many for one segment")
        fresh.write([memoryview(data)])
        interval_bytes = self._log.config.index_interval_bytes
        for batch, last_offset, max_timestamp_ms in batches:
            fresh.note(len(batch), last_offset, max_timestamp_ms, index_interval_bytes=interval_bytes)

    def _end(self, fresh: Segment, kept: Iterator[Kept]) -> None:
        self._write(fresh, kept)
        fresh.flush_indexes()
        fresh.freeze()
        fresh.sync(with_indexes=True)

    async def _let_others_come(self, left: Sequence[Segment]) -> None:
        """And go on only if they have left everything as it was: a trim takes segments from the front."""
        await Pause()
        log = self._log
        is_there = any(one is left[0] for one in log.segments.all)
        if not (log.is_online and log.config.is_compacted and is_there):
            raise _Overtaken


def _read_keys(cleaning: CleaningPass, reader: _Reader) -> bool:
    return cleaning.read(reader.read())


class _Reader:
    """The batches of a full segment from ``position`` on, checked, a few megabytes at a time."""

    def __init__(self, segment: Segment, position: int) -> None:
        self._file: File = segment.file
        self._name: Final = segment.held.path.name
        self._end: Final = segment.size_bytes
        self._position = position
        self._due = segment.base_offset if position == 0 else None

    @property
    def has_more(self) -> bool:
        return self._position < self._end

    def read(self) -> list[tuple[memoryview, BatchHeader]]:
        """The next ones, one at least; :class:`DamagedLog` if they are not what they were."""
        size_bytes = min(_CHUNK_BYTES, self._end - self._position)
        batches: list[tuple[memoryview, BatchHeader]] = []
        try:
            data = self._file.pread(size_bytes, self._position)
            batches += scan_batches(data, allow_partial_tail=True)
            if not batches:  # one that is larger
                size_bytes = min(decode_header(data).size_bytes, self._end - self._position)
                batches += scan_batches(self._file.pread(size_bytes, self._position))
        except CorruptRecordBatch as error:
            raise self._damaged(str(error)) from error
        if not batches:
            raise self._damaged("the file ends")
        for batch, header in batches:
            if self._due not in (None, header.base_offset):
                raise self._damaged(f"offset {header.base_offset} where {self._due} is due")
            self._due = header.last_offset + 1
            self._position += len(batch)
        return batches

    def _damaged(self, reason: str) -> DamagedLog:
        return DamagedLog(self._name, self._position, self._due or 0, reason)
