"""Opening a partition: what its files hold, after a clean stop or any crash.

After a clean stop the indexes are believed and only the last few batches are read. Otherwise that goes for the
segments before the one that holds the recovery point: they were synced when they were full. Every other one is read
whole, its CRCs checked, its indexes built anew (that of aborted transactions at the end, when it is known where the log
ends: :mod:`semel.server.storage.txn_rebuild`) and the log cut at the first batch that is not good
(:mod:`semel.core.log.recovery`); what is kept is then written AGAIN and synced. Written again, because a failed
fsync leaves pages that look clean and are not on the disk: reading them back proves nothing.

A cut is durable before the partition takes an append: else a tail that was cut could come back behind it.

What has rotted in a segment that is believed shows when it is replayed, or read. It was synced once, so it is
damage too: the verdict is of this partition alone, and no error leaves :func:`open_log` for it. So is a snapshot of
the producers that cannot be read, if the log does not go back to the one before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.core.log import index as log_index
from semel.core.log.config import LogConfig
from semel.core.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    offset_of,
)
from semel.core.log.recovery import Bad, Cut, Damaged, NeedMore, Sound, decide_cut, examine
from semel.core.producer_state.entry import coordinator_epoch_in
from semel.core.producer_state.state import ProducerState
from semel.errors import CorruptRecordBatch
from semel.record.batch import HEADER_BYTES, decode_header, validate_batch
from semel.server.storage.filesystem import FileSystem, write_whole
from semel.server.storage.index_file import OFFSETS, TIMES, IndexFile
from semel.server.storage.open_files import OpenFiles
from semel.server.storage.outcome import Unopened
from semel.server.storage.replacing import finish_replacing
from semel.server.storage.segment import DamagedLog, Segment, damage_at, remove_segment_files
from semel.server.storage.snapshots import SnapshotFiles
from semel.server.storage.txn_index import TxnIndex
from semel.server.storage.txn_rebuild import rebuild_aborted
from semel.types import NO_LEADER_EPOCH

_SCAN_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A partition's files, and what can be said of them."""

    segments: tuple[Segment, ...]
    producers: ProducerState
    verdict: Sound | Cut | Damaged | Unopened
    cut_bytes: int  # taken off the end
    scanned_bytes: int
    snapshot_offset: int = 0  # up to here the snapshot speaks that was read
    leader_epoch: int = NO_LEADER_EPOCH  # the newest of the batches that were read, the last one among them

    @classmethod
    def unopened(cls, log_start_offset: int, error: OSError) -> OpenedLog:
        """The disk failed: the partition is offline, the others are not."""
        return cls((), ProducerState(end_offset=log_start_offset), Unopened(str(error)), 0, 0)


def open_log(
    files: OpenFiles,
    folder: Path,
    snapshots: SnapshotFiles,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    clean: bool,
    now_ms: int,
) -> OpenedLog:
    """Open all segments of ``folder``, of which everything below ``recovery_point`` was synced once.

    The name of a first segment that is made here is durable only once ``folder`` has been synced.
    """
    finish_replacing(files.file_system, folder)
    known = snapshots.load_newest(now_ms=now_ms)
    not_needed_below = 0 if known is None else min(log_start_offset, known.end_offset)
    bases = _segment_bases(files.file_system, folder, not_needed_below)
    if not bases:
        missing = decide_cut(None, at_offset=log_start_offset, recovery_point=recovery_point)
        if isinstance(missing, Damaged):
            return OpenedLog((), ProducerState(end_offset=log_start_offset), missing, 0, 0)
    opening = _Opening(files, folder, config, now_ms)
    verdict: Sound | Cut | Damaged
    if bases:
        trusted = len(bases) if clean else sum(1 for base in bases[1:] if base < recovery_point)
        verdict = opening.open_all(
            bases, log_start_offset=log_start_offset, trusted=trusted, recovery_point=recovery_point
        )
    else:
        verdict = opening.begin(log_start_offset, recovery_point)
    segments = tuple(opening.segments)
    cut_bytes, scanned_bytes = opening.cut_bytes, opening.scanned_bytes
    if not isinstance(verdict, Damaged):
        snapshots.drop_above(opening.end_offset)
        if known is not None and known.end_offset > opening.end_offset:
            known = snapshots.load_newest(now_ms=now_ms)
        snapshot_offset = 0 if known is None else known.end_offset
        try:
            rebuild_aborted(
                files,
                folder,
                segments,
                opening.scanned,
                snapshots,
                have_markers=opening.has_markers,
                now_ms=now_ms,
            )
            producers = _producers(segments, snapshots, known, opening.scanned, now_ms)
        except DamagedLog as damage:
            verdict = Damaged(damage.offset, str(damage))
        else:
            return OpenedLog(
                segments,
                producers,
                verdict,
                cut_bytes,
                scanned_bytes,
                snapshot_offset,
                opening.leader_epoch,
            )
    empty = ProducerState(end_offset=log_start_offset)
    return OpenedLog(segments, empty, verdict, cut_bytes, scanned_bytes)


class _Opening:
    """The segments found good so far."""

    def __init__(self, files: OpenFiles, folder: Path, config: LogConfig, now_ms: int) -> None:
        self.files = files
        self.file_system = files.file_system
        self.folder = folder
        self.config = config
        self.now_ms = now_ms
        self.segments: list[Segment] = []
        self.scanned: list[Segment] = []  # of these: the ones whose every CRC was checked
        self.end_offset = 0
        self.cut_bytes = 0
        self.scanned_bytes = 0
        self.has_markers = False  # what was read has: perhaps of aborted transactions
        self.leader_epoch = NO_LEADER_EPOCH  # the newest of what was read

    def begin(self, log_start_offset: int, recovery_point: int) -> Sound | Cut | Damaged:
        """There is no segment: make the first one, unless there must have been some."""
        self.end_offset = log_start_offset
        verdict = decide_cut(None, at_offset=log_start_offset, recovery_point=recovery_point)
        if not isinstance(verdict, Damaged):
            self.segments.append(
                Segment.create(self.files, self.folder, log_start_offset, now_ms=self.now_ms)
            )
        return verdict

    def open_all(
        self, bases: list[int], *, log_start_offset: int, trusted: int, recovery_point: int
    ) -> Sound | Cut | Damaged:
        """Open the first ``trusted`` segments by their indexes and scan the others; then cut."""
        if bases[0] > log_start_offset:
            return Damaged(log_start_offset, f"no segment holds it; the first begins at {bases[0]}")
        self.end_offset = bases[0]
        bad: Bad | None = None
        scanned = self.scanned
        for n, base_offset in enumerate(bases):
            if base_offset != self.end_offset:
                bad = Bad(f"no segment holds offset {self.end_offset}")
                break
            if self.segments:  # it will not grow any more, for another begins where it ends
                self.segments[-1].flush_indexes()
                self.segments[-1].freeze()
                self.segments[-1].cool()
            segment = self._load(base_offset) if n < trusted else None
            if segment is None:
                segment, bad = self._scan(base_offset)
                scanned.append(segment)
            self.segments.append(segment)
            self.end_offset = segment.end_offset
            if bad is not None:
                log_name = file_name(base_offset, LOG_SUFFIX)
                bad = Bad(damage_at(log_name, segment.size_bytes, bad.reason))
                break
        verdict = decide_cut(bad, at_offset=self.end_offset, recovery_point=recovery_point)
        if isinstance(verdict, Damaged):
            return verdict
        if isinstance(verdict, Cut):
            self._cut(bases)
        for segment in scanned:
            self._write_again(segment, recovery_point)
        if scanned or isinstance(verdict, Cut):
            self.file_system.fsync_dir(self.folder)
        return verdict

    def _load(self, base_offset: int) -> Segment | None:
        """The segment by its indexes; ``None`` when they, or the batches they lead to, cannot be believed."""
        index = IndexFile.load(self.files, self.folder / file_name(base_offset, INDEX_SUFFIX), OFFSETS)
        times = IndexFile.load(self.files, self.folder / file_name(base_offset, TIME_INDEX_SUFFIX), TIMES)
        aborted = TxnIndex.load(
            self.files, self.folder / file_name(base_offset, TXN_INDEX_SUFFIX), base_offset
        )
        if index is None or times is None or aborted is None:
            return None
        held = self.files.hold(self.folder / file_name(base_offset, LOG_SUFFIX))
        size_bytes = held.get().size()
        if not log_index.offsets_rise(index.entries(), size_bytes) or not log_index.times_rise(
            times.entries()
        ):
            return None
        segment = Segment(base_offset, held, index, times, aborted, now_ms=self.now_ms)
        try:
            good = segment.resume() and self._read_on(segment) is None and segment.is_timed()
            good = good and (
                not aborted.count or aborted.entry_at(aborted.count - 1).last_offset < segment.end_offset
            )
        except DamagedLog:  # the scan tells more of it
            return None
        return segment if good else None

    def _scan(self, base_offset: int) -> tuple[Segment, Bad | None]:
        """Read the whole segment, build its indexes, and stop at the first batch that is not good."""
        held = self.files.hold(self.folder / file_name(base_offset, LOG_SUFFIX))
        index_path = self.folder / file_name(base_offset, INDEX_SUFFIX)
        times_path = self.folder / file_name(base_offset, TIME_INDEX_SUFFIX)
        index = IndexFile.create(self.files, index_path, OFFSETS)
        times = IndexFile.create(self.files, times_path, TIMES)
        aborted = TxnIndex(self.files, self.folder / file_name(base_offset, TXN_INDEX_SUFFIX))
        segment = Segment(base_offset, held, index, times, aborted, now_ms=self.now_ms)
        bad = self._read_on(segment)
        self.scanned_bytes += segment.size_bytes
        return segment, bad

    def _read_on(self, segment: Segment) -> Bad | None:
        """Check and note what the file holds behind what is noted already, up to the first bad batch."""
        file = segment.file
        file_bytes = file.size()
        chunk, chunk_at = memoryview(b""), 0
        while segment.size_bytes < file_bytes:
            position = segment.size_bytes
            found = examine(
                chunk,
                position - chunk_at,
                expected_offset=segment.end_offset,
                file_left_bytes=file_bytes - position,
            )
            if isinstance(found, NeedMore):
                wanted = max(found.bytes_min, _SCAN_CHUNK_BYTES)
                chunk, chunk_at = memoryview(file.pread(wanted, position)), position
                if len(chunk) < found.bytes_min:
                    return Bad("the file is shorter than it says")
                continue
            if isinstance(found, Bad):
                return found
            header = found.header
            self.has_markers |= header.is_control
            self.leader_epoch = max(self.leader_epoch, header.partition_leader_epoch)
            segment.note(
                header.size_bytes,
                header.last_offset,
                header.max_timestamp,
                index_interval_bytes=self.config.index_interval_bytes,
            )
        return None

    def _cut(self, bases: list[int]) -> None:
        """Take off everything behind the last good batch, newest file first."""
        last = self.segments[-1]
        kept = {segment.base_offset for segment in self.segments}
        for base_offset in reversed([base for base in bases if base not in kept]):
            path = self.folder / file_name(base_offset, LOG_SUFFIX)
            self.cut_bytes += self.file_system.open(path).size()
            remove_segment_files(self.file_system, self.folder, base_offset)
        self.cut_bytes += last.file.size() - last.size_bytes
        file = last.file
        file.truncate(last.size_bytes)
        file.fdatasync()

    def _write_again(self, segment: Segment, recovery_point: int) -> None:
        position = segment.position_of(recovery_point) if recovery_point > segment.base_offset else 0
        file = segment.file
        while position < segment.size_bytes:
            data = file.pread(min(_SCAN_CHUNK_BYTES, segment.size_bytes - position), position)
            write_whole(file, data, position)
            position += len(data)
        segment.sync(with_indexes=segment is not self.segments[-1])


def _segment_bases(file_system: FileSystem, folder: Path, not_needed_below: int) -> list[int]:
    """The segments' base offsets; those that nobody needs are removed, for their unlink was lost.

    Needed is also what lies below the log's start, as long as no snapshot speaks for its producers.
    """
    found = (offset_of(name, LOG_SUFFIX) for name in file_system.listdir(folder))
    bases = sorted(offset for offset in found if offset is not None)
    while len(bases) > 1 and bases[1] <= not_needed_below:
        remove_segment_files(file_system, folder, bases.pop(0))
    return bases


def _producers(
    segments: Sequence[Segment],
    snapshots: SnapshotFiles,
    known: ProducerState | None,
    scanned: Collection[Segment],
    now_ms: int,
) -> ProducerState:
    """The newest good snapshot, which is ``known``, with the tail of the log applied to it; else all of the log.

    All that is in the files counts, also what lies below the log's start: who wrote what was trimmed has
    still written it.
    """
    first_offset, state = segments[0].base_offset, known
    if first_offset > (0 if known is None else known.end_offset):
        snapshots.check_newest(known, first_offset)
        state = snapshots.load_kafkas_oldest(first_offset, now_ms=now_ms)
        state = known if state is None else state
    if state is None:
        state = ProducerState(end_offset=first_offset)
    for segment in segments:
        if segment.end_offset > state.end_offset:
            _replay(segment, state, now_ms, is_checked=segment in scanned)
    return state


def _replay(segment: Segment, state: ProducerState, now_ms: int, *, is_checked: bool) -> None:
    """Apply the batches that the state does not know; of a segment that was not scanned with their CRCs."""
    position = segment.position_of(max(state.end_offset, segment.base_offset))
    for place in segment.walk(position, segment.size_bytes):
        if place.base_offset < state.end_offset:
            continue
        wanted = HEADER_BYTES if is_checked else place.size_bytes
        batch = segment.file.pread(wanted, place.position)
        try:
            header = decode_header(batch) if is_checked else validate_batch(batch)
            if header.is_control:
                coordinator_epoch = coordinator_epoch_in(segment.file.pread(place.size_bytes, place.position))
                state.apply_marker(header, header.base_offset, coordinator_epoch, now_ms)
            else:
                state.apply(header, header.base_offset, now_ms)
        except CorruptRecordBatch as error:
            log_name = segment.held.path.name
            raise DamagedLog(log_name, place.position, place.base_offset, str(error)) from error
