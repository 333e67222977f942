"""One index file of a segment: entries in memory while it grows, in the file once it is complete.

Invariant: the file is always a prefix of the entries. No append waits for it: after an unclean stop the indexes
of all segments that may have changed are built anew from the log. Those of a segment below the recovery point are
believed then, so they are on the disk before that point passes the segment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final, Generic, TypeVar

from semel.core.log.index import OFFSET_ENTRY, TIME_ENTRY, OffsetEntry, TimeEntry
from semel.server.storage.filesystem import write_whole
from semel.server.storage.open_files import HeldFile, OpenFiles

EntryT = TypeVar("EntryT", OffsetEntry, TimeEntry)


@dataclass(frozen=True, slots=True)
class IndexKind(Generic[EntryT]):
    """How an entry looks as bytes and as a value."""

    layout: Struct
    entry: Callable[..., EntryT]


OFFSETS: Final = IndexKind(OFFSET_ENTRY, OffsetEntry)
TIMES: Final = IndexKind(TIME_ENTRY, TimeEntry)


class IndexFile(Generic[EntryT]):
    """The entries of one index, in order."""

    __slots__ = ("_entry", "_growing", "_layout", "_written_bytes", "count", "held", "is_synced", "last")

    def __init__(self, held: HeldFile, kind: IndexKind[EntryT], content: bytes) -> None:
        """``content`` is what the file holds; the index may grow from there."""
        self.held = held
        self.is_synced = True  # what is in the file
        self._layout = kind.layout
        self._entry: Callable[..., EntryT] = kind.entry
        self._growing: bytearray | None = bytearray(content)
        self._written_bytes = len(content)
        self.count = len(content) // kind.layout.size
        self.last: EntryT | None = self.entry_at(self.count - 1) if self.count else None

    @classmethod
    def create(cls, files: OpenFiles, path: Path, kind: IndexKind[EntryT]) -> IndexFile[EntryT]:
        """An empty index, whatever was in the file."""
        held = files.hold(path, create=True)
        held.get().truncate(0)
        fresh = cls(held, kind, b"")
        fresh.is_synced = False
        return fresh

    @classmethod
    def load(cls, files: OpenFiles, path: Path, kind: IndexKind[EntryT]) -> IndexFile[EntryT] | None:
        """The index in the file; ``None`` when there is none, or its length is not one of whole entries."""
        if not files.file_system.exists(path):
            return None
        held = files.hold(path)
        file = held.get()
        size_bytes = file.size()
        return None if size_bytes % kind.layout.size else cls(held, kind, file.pread(size_bytes, 0))

    def append(self, entry: EntryT) -> None:
        assert self._growing is not None, "a complete index does not grow"
        self._growing += self._layout.pack(*entry)
        self.count += 1
        self.last = entry

    def entry_at(self, n: int) -> EntryT:
        return self._entry(*self.tuple_at(n))

    def tuple_at(self, n: int) -> tuple[int, int]:
        """The same without the fields' names, for searches."""
        layout = self._layout
        if self._growing is not None:
            return layout.unpack_from(self._growing, n * layout.size)
        return layout.unpack(self.held.get().pread(layout.size, n * layout.size))

    def below(self, relative_offset: int) -> tuple[int, int] | None:
        """The last entry of a time index that is about an offset below this one."""
        n = bisect_left(range(self.count), relative_offset, key=lambda n: self.tuple_at(n)[1])
        return self.tuple_at(n - 1) if n else None

    def entries(self) -> list[EntryT]:
        return [self.entry_at(n) for n in range(self.count)]

    def flush(self) -> None:
        """Write what is new to the file."""
        if self._growing is None or self._written_bytes == len(self._growing):
            return
        self.is_synced = False
        write_whole(self.held.get(), bytes(self._growing[self._written_bytes :]), self._written_bytes)
        self._written_bytes = len(self._growing)

    def freeze(self) -> None:
        """The segment is full, and every entry flushed: keep them in the file only."""
        assert self._growing is None or self._written_bytes == len(self._growing), "entries not flushed"
        self._growing = None

    def fdatasync(self) -> None:
        self.held.get().fdatasync()
        self.is_synced = True
