"""A disk that fails when it is told to."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from semel.server.storage.filesystem import File, OsFile, OsFileSystem
from semel.wire.frames import Buffer


class Disk(OsFileSystem):
    """The real file system; its syncs and writes fail once told to, and what is in ``bad_folder`` is never opened.

    Under another ``boot`` its machine has lost what was not synced: that is the test's to take away.
    """

    def __init__(self, bad_folder: str | None = None, boot: str = "the first") -> None:
        self.bad_folder = bad_folder
        self._boot = boot
        self.sync_error: OSError | None = None
        self.write_error: OSError | None = None

    def boot_id(self) -> str:
        return self._boot

    def open(self, path: Path, *, create: bool = False) -> File:  # type: ignore[override]
        if path.parent.name == self.bad_folder:
            raise OSError(errno.EIO, "input/output error")
        return DiskFile(super().open(path, create=create), self)


class DiskFile:
    def __init__(self, file: OsFile, disk: Disk) -> None:
        self.fileno, self.size, self.pread, self.truncate = file.fileno, file.size, file.pread, file.truncate
        self._file, self._disk = file, disk

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        if self._disk.write_error is not None:
            raise self._disk.write_error
        return self._file.pwritev(buffers, position)

    def fdatasync(self) -> None:
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        self._file.fdatasync()
