"""One segment: a run of batches in a ``.log`` file with its indexes (Kafka's ``LogSegment``).

Invariants:
- The file holds whole batches with dense offsets (some of them empty, where compaction took the records), from
  ``base_offset`` to ``end_offset`` (exclusive). A write that fails half-way is taken back before anything else
  happens; if not even that works, it is a :class:`TornWrite`.
- Every search starts from an index and ends by walking batch headers, so that a short index only costs time,
  and so does an entry that no batch bears out. (Not so of the index of aborted transactions: see
  :mod:`semel.server.storage.txn_index`.) Headers that cannot follow each other are a :class:`DamagedLog`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from semel.core.log.index import (
    OffsetEntry,
    TimeEntry,
    floor_of_offset,
    floor_of_position,
    floor_of_time,
)
from semel.core.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, file_name
from semel.core.log.policy import SegmentFacts
from semel.record.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC, leader_epoch_in
from semel.server.storage.filesystem import File, FileSystem
from semel.server.storage.index_file import OFFSETS, TIMES, IndexFile
from semel.server.storage.open_files import HeldFile, OpenFiles
from semel.server.storage.txn_index import TxnIndex
from semel.types import NO_TIMESTAMP

_WALK: Final = struct.Struct(
    ">qi11xi8xq14xi"
)  # base offset, length, last offset delta, max timestamp, records
_START: Final = struct.Struct(">qi4xb")  # base offset, length, magic
_OFFSET: Final = struct.Struct(">q")
_WALK_CHUNK_BYTES: Final = 8192
_READERS_MAX: Final = 64


class TornWrite(OSError):
    """A failed write could not be taken back: the end of the file is not known any more."""


class DamagedLog(OSError):
    """The file does not hold what was written to it: what is to be read is not served, and nothing is guessed."""

    def __init__(self, log_name: str, position: int, offset: int, reason: str) -> None:
        super().__init__(damage_at(log_name, position, reason))
        self.offset = offset  # that is due there


def damage_at(log_name: str, position: int, reason: str) -> str:
    return f"{log_name}, byte {position}: {reason}"


class BatchPlace(NamedTuple):
    """Where one batch lies in its segment."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    record_count: int

    @property
    def is_dense(self) -> bool:
        """Whether each offset has its record: compaction has taken none."""
        return self.record_count == self.last_offset - self.base_offset + 1


def walk_file(
    file: File, log_name: str, file_base_offset: int, position: int, end_position: int
) -> Iterator[BatchPlace]:
    """The batches of a log from ``position``, where one starts, to ``end_position``, where one ends."""
    chunk, chunk_at = b"", 0
    due = file_base_offset if position == 0 else None

    def damaged(reason: str) -> DamagedLog:
        return DamagedLog(log_name, position, file_base_offset if due is None else due, reason)

    while position < end_position:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.pread(_WALK_CHUNK_BYTES, position), position, 0
            if len(chunk) < HEADER_BYTES:
                raise damaged("the file ends")
        base_offset, length, last_offset_delta, max_timestamp_ms, count = _WALK.unpack_from(chunk, at)
        if base_offset != due and due is not None:
            raise damaged(f"offset {base_offset} where {due} is due")
        size_bytes = length + LOG_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES or position + size_bytes > end_position or last_offset_delta < 0:
            raise damaged(f"impossible length {length}, or records {last_offset_delta}")
        last_offset = base_offset + last_offset_delta
        yield BatchPlace(position, size_bytes, base_offset, last_offset, max_timestamp_ms, count)
        due = last_offset + 1
        position += size_bytes


class Segment:
    """One segment, full or growing."""

    __slots__ = (
        "_bytes_since_index",
        "_offset_of_max_timestamp",
        "_read_to",
        "aborted",
        "base_offset",
        "created_ms",
        "end_offset",
        "held",
        "index",
        "max_timestamp_ms",
        "size_bytes",
        "time_index",
    )

    def __init__(
        self,
        base_offset: int,
        held: HeldFile,
        index: IndexFile[OffsetEntry],
        time_index: IndexFile[TimeEntry],
        aborted: TxnIndex,
        *,
        now_ms: int,
    ) -> None:
        """An empty segment; :meth:`note` tells it what its file holds already."""
        self.base_offset = self.end_offset = self._offset_of_max_timestamp = base_offset
        self.held = held
        self.index = index
        self.time_index = time_index
        self.aborted = aborted
        self.size_bytes = self._bytes_since_index = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self.created_ms = now_ms
        self._read_to: dict[int, int] = {}  # offset -> position where reads ended and will go on

    @classmethod
    def create(
        cls, files: OpenFiles, folder: Path, base_offset: int, *, now_ms: int, draft: str = ""
    ) -> Segment:
        """A new segment; its name is durable only once ``folder`` has been synced.

        A ``draft`` has this behind its files' names.
        """
        held = files.hold(folder / (file_name(base_offset, LOG_SUFFIX) + draft), create=True)
        held.get().truncate(0)
        index_path = folder / (file_name(base_offset, INDEX_SUFFIX) + draft)
        times_path = folder / (file_name(base_offset, TIME_INDEX_SUFFIX) + draft)
        index = IndexFile.create(files, index_path, OFFSETS)
        time_index = IndexFile.create(files, times_path, TIMES)
        aborted = TxnIndex(files, folder / (file_name(base_offset, TXN_INDEX_SUFFIX) + draft))
        return cls(base_offset, held, index, time_index, aborted, now_ms=now_ms)

    @property
    def file(self) -> File:
        """The log file, open."""
        return self.held.get()

    @property
    def facts(self) -> SegmentFacts:
        return SegmentFacts(self.base_offset, self.size_bytes, self.created_ms, self.max_timestamp_ms)

    # Growing

    def write(self, buffers: Sequence[memoryview]) -> None:
        """Put ``buffers`` at the end of the file. ``OSError``: none of it is in, unless it is a TornWrite."""
        position = self.size_bytes
        left = sum(map(len, buffers))
        file = self.file
        try:
            written = file.pwritev(buffers, position)
            while written < left:
                if written <= 0:
                    raise OSError("the file took no more bytes")
                left -= written
                position += written
                buffers = _after(buffers, written)
                written = file.pwritev(buffers, position)
        except OSError as error:
            try:
                file.truncate(self.size_bytes)
            except OSError as second:
                raise TornWrite(f"{error}, and then {second}") from error
            raise

    def note(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, *, index_interval_bytes: int
    ) -> None:
        """One more batch is in the file: count it, and index it when enough bytes went by."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self._offset_of_max_timestamp = last_offset
        if self._bytes_since_index > index_interval_bytes:
            self.index.append(OffsetEntry(last_offset - self.base_offset, self.size_bytes))
            self._index_time()
            self._bytes_since_index = 0
        self._bytes_since_index += size_bytes
        self.end_offset = last_offset + 1  # before the size: see Partition.sync
        self.size_bytes += size_bytes

    def flush_indexes(self) -> None:
        """Bring the index files up to date. ``OSError``: the segment may grow on as before."""
        self._index_time()
        self.aborted.flush()
        self.time_index.flush()
        self.index.flush()

    @property
    def first_timestamp_ms(self) -> int:
        """The largest one of the first batch."""
        return next(self.walk(0, self.size_bytes)).max_timestamp_ms

    @property
    def owes_index_sync(self) -> bool:
        """Whether a file of its indexes may not be on the disk as it is."""
        return not (self.index.is_synced and self.time_index.is_synced and self.aborted.is_synced)

    def freeze(self) -> None:
        """The segment will not grow any more, and its indexes are in their files."""
        self.index.freeze()
        self.time_index.freeze()
        self.aborted.freeze()

    def cool(self) -> None:
        """It is full and synced: its files need not stay open."""
        for held in (self.held, self.index.held, self.time_index.held):
            held.cool()
        self.aborted.cool()

    def close(self) -> None:
        """It is removed. In any thread; closing a large file that has no name any more takes its time."""
        for held in (self.held, self.index.held, self.time_index.held):
            held.close()
        self.aborted.close()

    def sync(self, *, with_indexes: bool) -> None:
        self.file.fdatasync()
        if with_indexes:
            self.aborted.fdatasync()
            self.time_index.fdatasync()
            self.index.fdatasync()

    def resume(self) -> bool:
        """Take up the counts of the loaded indexes, up to where batches are still to be noted.

        Whether a batch bears the last entry out; of the newest time that is asked at the end (:meth:`is_timed`).
        """
        last_time, last = self.time_index.last, self.index.last
        if last_time is not None:
            self.max_timestamp_ms = last_time.timestamp_ms
            self._offset_of_max_timestamp = self.base_offset + last_time.relative_offset
        if last is not None:
            found = self._base_offset_at(last)
            if found is None:
                return False
            self.size_bytes, self.end_offset = last.position, found
        return True

    def is_timed(self) -> bool:
        """Whether a batch bears out the newest time that the time index tells; retention goes by it."""
        return self.time_index.last is None or self._bears_out(self.time_index.last)

    def _index_time(self) -> None:
        last = self.time_index.last
        if self.max_timestamp_ms >= 0 and (last is None or self.max_timestamp_ms > last.timestamp_ms):
            relative_offset = self._offset_of_max_timestamp - self.base_offset
            self.time_index.append(TimeEntry(self.max_timestamp_ms, relative_offset))

    # Searching

    def walk(self, position: int, end_position: int, file: File | None = None) -> Iterator[BatchPlace]:
        """The batches from ``position``, where one starts, to ``end_position``, where one ends.

        Another thread than the one that reads brings the ``file`` along, which that one has opened.
        """
        file = self.file if file is None else file
        return walk_file(file, self.held.path.name, self.base_offset, position, end_position)

    def offset_at(self, position: int) -> int:
        """The offset at which the batch there begins; the end offset for the end of the file."""
        if position >= self.size_bytes:
            return self.end_offset
        (base_offset,) = _OFFSET.unpack(self.file.pread(_OFFSET.size, position))
        return int(base_offset)

    def leader_epoch_at(self, position: int) -> int:
        """The leader epoch of the batch that begins there."""
        head = self.file.pread(HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            raise self._damaged(position, self.base_offset, "the file ends")
        return leader_epoch_in(head)

    def position_of(self, offset: int) -> int:
        """Where the batch that holds ``offset`` starts; the end of the file for the end offset."""
        if offset >= self.end_offset:
            return self.size_bytes
        known = self._read_to.get(offset)
        if known is not None:
            return known
        for place in self.walk(self._start_for(offset - self.base_offset), self.size_bytes):
            if place.last_offset >= offset:
                return place.position
        raise self._damaged(self.size_bytes, offset, "no batch holds the offset")

    def trim(self, start: int, limit: int, *, bytes_max: int, at_least_one: bool) -> int:
        """The end of the last whole batch within ``bytes_max`` of ``start`` and below ``limit``."""
        if limit - start <= bytes_max:
            return limit
        entry = floor_of_position(self.index.tuple_at, self.index.count, start + bytes_max)
        end = start if entry is None or self._base_offset_at(entry) is None else max(start, entry[1])
        for place in self.walk(end, limit):
            place_end = place.position + place.size_bytes
            if place_end - start <= bytes_max:
                end = place_end
            elif end == start and at_least_one:
                return self._remember(place.last_offset + 1, place_end)
            else:
                return self._remember(place.base_offset, end)
        return end

    def _remember(self, offset: int, position: int) -> int:
        """A read ends here: whoever asked for it will most likely go on with ``offset``."""
        if len(self._read_to) >= _READERS_MAX:
            del self._read_to[next(iter(self._read_to))]
        self._read_to[offset] = position
        return position

    def at_or_after(self, timestamp_ms: int, from_offset: int) -> Iterator[BatchPlace]:
        """The batches that end at or after ``from_offset`` and claim a record as new as ``timestamp_ms``."""
        if self.max_timestamp_ms < timestamp_ms:
            return
        entry = floor_of_time(self.time_index.tuple_at, self.time_index.count, timestamp_ms)
        older_to = 0 if entry is None or not self._bears_out(entry) else entry[1]
        start = self._start_for(max(older_to, from_offset - self.base_offset))
        for place in self.walk(start, self.size_bytes):
            if place.max_timestamp_ms >= timestamp_ms and place.last_offset >= from_offset:
                yield place

    def newest(self, from_offset: int, end_offset: int) -> tuple[int, int]:
        """Where to look for the first of the newest records within these offsets: from which position, and up to
        which offset (exclusive).

        What the index knows spares nearly all of it, unless the newest that it knows of has been trimmed. If the
        batch that holds ``from_offset`` begins before that, its newest may be out of reach: look on to the end.
        """
        known = self._offset_of_max_timestamp
        if from_offset <= known < end_offset:
            return self._start_for(known - self.base_offset), known + 1
        if known >= end_offset:  # what is indexed before the end is as new as anything before it
            entry = self.time_index.below(end_offset - self.base_offset)
            if entry is not None and entry[1] >= from_offset - self.base_offset and self._bears_out(entry):
                return self._start_for(entry[1]), end_offset
        return self._start_for(from_offset - self.base_offset), end_offset

    def _start_for(self, relative_offset: int) -> int:
        """Where to begin to look for an offset: at the beginning, if the entry for it is not borne out."""
        entry = floor_of_offset(self.index.tuple_at, self.index.count, relative_offset)
        return 0 if entry is None or self._base_offset_at(entry) is None else entry[1]

    def _base_offset_at(self, entry: tuple[int, int]) -> int | None:
        """Where the batch begins to which an entry of the offset index leads; ``None``: it leads to none.

        Kafka's entries may tell an offset behind that batch, so it need not be the last one in it.
        """
        relative_offset, position = entry
        header = self.file.pread(HEADER_BYTES, position)
        if len(header) < HEADER_BYTES:
            return None
        base_offset, length, magic = _START.unpack_from(header)
        is_batch = magic == MAGIC and length >= HEADER_BYTES - LOG_OVERHEAD_BYTES
        within = self.base_offset <= base_offset <= self.base_offset + relative_offset
        return int(base_offset) if is_batch and within else None

    def _bears_out(self, entry: tuple[int, int]) -> bool:
        """Whether the offset of an entry of the time index lies in a batch of its time."""
        timestamp_ms, relative_offset = entry
        offset = self.base_offset + relative_offset
        for place in self.walk(self._start_for(relative_offset), self.size_bytes):
            if place.last_offset >= offset:
                return place.base_offset <= offset and place.max_timestamp_ms == timestamp_ms
        return False

    def _damaged(self, position: int, due_offset: int, reason: str) -> DamagedLog:
        return DamagedLog(self.held.path.name, position, due_offset, reason)


def remove_segment_files(file_system: FileSystem, folder: Path, base_offset: int) -> None:
    """Unlink one segment: the log first, so that no log is ever without its indexes for long."""
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        path = folder / file_name(base_offset, suffix)
        if file_system.exists(path):
            file_system.unlink(path)


def _after(buffers: Sequence[memoryview], written: int) -> list[memoryview]:
    """What is left of ``buffers`` when the first ``written`` bytes are in."""
    rest = []
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
        else:
            rest.append(buffer[written:])
            written = 0
    return rest
