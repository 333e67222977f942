"""The aborted transactions of one segment, in its ``.txnindex`` (Kafka's ``TransactionIndex``).

Invariants:
- There is an entry for each abort marker in the segment that ended a transaction, in the order of the markers. Without
  one there is no file; so a file that is missing says that there are none, and it alone of the indexes is believed in
  that. It is on the disk, name and all, before the recovery point passes its segment.
- Entries are in memory while the segment grows, and in the file once it is full, as with the other indexes.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Final

from semel.core.log.transactions import ABORTED_ENTRY, ABORTED_VERSION, AbortedTxn
from semel.server.storage.filesystem import File, read_file, replace_file, write_whole
from semel.server.storage.open_files import HeldFile, OpenFiles

_ENTRY_BYTES: Final = ABORTED_ENTRY.size
_READ_BYTES: Final = 256 * _ENTRY_BYTES


class TxnIndex:
    """Entries by the offsets of their markers, rising."""

    __slots__ = ("_files", "_growing", "_path", "_written_bytes", "count", "held", "is_synced")

    def __init__(self, files: OpenFiles, path: Path, content: bytes = b"") -> None:
        """``content`` is what the file holds, if there is one."""
        self._files = files
        self._path = path
        self.held: HeldFile | None = files.hold(path) if content else None
        self.is_synced = True  # what is in the file, and its name
        self._growing: bytearray | None = bytearray(content)
        self._written_bytes = len(content)
        self.count = len(content) // _ENTRY_BYTES

    @classmethod
    def load(cls, files: OpenFiles, path: Path, base_offset: int) -> TxnIndex | None:
        """The index in the file, or one without entries; ``None`` when it cannot have been written for the segment."""
        content = read_file(files.file_system, path) or b""
        if len(content) % _ENTRY_BYTES:
            return None
        entries = [AbortedTxn._make(each) for each in ABORTED_ENTRY.iter_unpack(content)]
        is_good = all(
            one.version == ABORTED_VERSION
            and one.producer_id >= 0
            and 0 <= one.first_offset < one.last_offset
            and base_offset <= one.last_offset
            for one in entries
        ) and all(one.last_offset < after.last_offset for one, after in pairwise(entries))
        return cls(files, path, content) if is_good else None

    def append(self, entry: AbortedTxn) -> None:
        assert self._growing is not None, "a complete index does not grow"
        self._growing += ABORTED_ENTRY.pack(*entry)
        self.count += 1

    def entry_at(self, n: int) -> AbortedTxn:
        return self._entries(n, 1)[0]

    def entries(self) -> list[AbortedTxn]:
        return self._entries(0, self.count)

    def overlapping(self, from_offset: int, end_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Those of which something lies from ``from_offset`` to ``end_offset`` (exclusive), and whether there can be
        no more of them in later segments (``TransactionIndex.collectAbortedTxns``).
        """
        found: list[AbortedTxn] = []
        n = bisect_left(range(self.count), from_offset, key=lambda n: self.entry_at(n).last_offset)
        while n < self.count:
            some = self._entries(n, min(self.count - n, _READ_BYTES // _ENTRY_BYTES))
            for entry in some:
                if entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found, True
            n += len(some)
        return found, False

    def opened(self) -> File | None:
        """Its file, open, for :meth:`read` in another thread; of a full segment that has entries."""
        return None if self.held is None else self.held.get()

    def read(self, file: File | None) -> bytes:
        """All entries as the file has them."""
        size_bytes = self.count * _ENTRY_BYTES
        if file is None or self._growing is not None:
            return bytes(self._growing or b"")
        data = file.pread(size_bytes, 0)
        if len(data) < size_bytes:
            raise OSError(f"{self._path.name} ends within {size_bytes} bytes")
        return data

    def _entries(self, n: int, count: int) -> list[AbortedTxn]:
        start, size_bytes = n * _ENTRY_BYTES, count * _ENTRY_BYTES
        if self._growing is not None:
            data = bytes(self._growing[start : start + size_bytes])
        elif not size_bytes:
            return []
        else:
            assert self.held is not None, "entries without a file"
            data = self.held.get().pread(size_bytes, start)
            if len(data) < size_bytes:
                raise OSError(f"{self._path.name} ends within {size_bytes} bytes from {start}")
        return [AbortedTxn._make(each) for each in ABORTED_ENTRY.iter_unpack(data)]

    def flush(self) -> None:
        """Write what is new to the file, which is made for the first entry. ``OSError``: nothing has changed."""
        if self._growing is None or self._written_bytes == len(self._growing):
            return
        self.is_synced = False
        if self.held is None:
            held = self._files.hold(self._path, create=True)
            held.get().truncate(0)
            self.held = held
        write_whole(self.held.get(), bytes(self._growing[self._written_bytes :]), self._written_bytes)
        self._written_bytes = len(self._growing)

    def replace(self) -> None:
        """Put the entries in the place of whatever file there is, durably and in one step; the folder's sync follows.

        While it is not done, the file that could not be believed is still there to say so.
        """
        file_system, path = self._files.file_system, self._path
        if self._growing:
            replace_file(file_system, path, bytes(self._growing))
            self.held = self._files.hold(path)
            self._written_bytes = len(self._growing)
        elif file_system.exists(path):
            file_system.unlink(path)

    def freeze(self) -> None:
        """The segment is full, and every entry flushed: keep them in the file only."""
        assert self._growing is None or self._written_bytes == len(self._growing), "entries not flushed"
        self._growing = None

    def cool(self) -> None:
        if self.held is not None:
            self.held.cool()

    def close(self) -> None:
        if self.held is not None:
            self.held.close()

    def fdatasync(self) -> None:
        if self.held is not None:
            self.held.get().fdatasync()
        self.is_synced = True
