"""The open files of full segments: as many as there may be, and the others are opened when they are read.

A partition may have any number of segments, a process only so many open files; a server that cannot open
its segments could not even start again. So a file is held open while its segment grows and until that is
synced; from then on it is *cold*: of all cold files only the last used stay open.

Only the thread that appends and reads may use cold files; any thread may close what is out of its reach.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock

from semel.server.storage.filesystem import File, FileSystem


class HeldFile:
    """One file by its name, opened anew when it is cold and was closed meanwhile."""

    __slots__ = ("_file", "_is_cold", "_pool", "path")

    def __init__(self, pool: OpenFiles, path: Path, file: File) -> None:
        self._pool = pool
        self._file: File | None = file
        self._is_cold = False
        self.path = path

    def get(self) -> File:
        """The open file; whoever keeps it keeps it open."""
        file = self._file
        if not self._is_cold and file is not None:
            return file
        if file is None:
            file = self._file = self._pool.file_system.open(self.path)
        self._pool.used(self)
        return file

    def cool(self) -> None:
        """From now on it need not stay open."""
        if not self._is_cold:
            self._is_cold = True
            self._pool.used(self)

    def close(self) -> None:
        """It will not be used again: its segment is removed."""
        self._pool.forget(self)
        self.let_go()

    def let_go(self) -> None:
        """Close it, unless somebody else holds it."""
        self._file = None


class OpenFiles:
    """Opens files, and bounds those that are cold."""

    def __init__(self, file_system: FileSystem, cold_files_max: int) -> None:
        self.file_system = file_system
        self._cold_files_max = cold_files_max
        self._cold: OrderedDict[HeldFile, None] = OrderedDict()  # the last used last
        self._lock = Lock()

    def hold(self, path: Path, *, create: bool = False) -> HeldFile:
        return HeldFile(self, path, self.file_system.open(path, create=create))

    def used(self, held: HeldFile) -> None:
        """A cold file is open and was just used."""
        with self._lock:
            self._cold[held] = None
            self._cold.move_to_end(held)
            if len(self._cold) > self._cold_files_max:
                oldest, _ = self._cold.popitem(last=False)
                oldest.let_go()

    def forget(self, held: HeldFile) -> None:
        with self._lock:
            self._cold.pop(held, None)
