"""All file I/O of the log goes through this small protocol: the simulator puts a faulty disk below it.

What a caller may rely on is what POSIX promises and no more: written bytes survive a power cut only after
``fdatasync`` of their file, and a new, renamed or removed name only after ``fsync_dir`` of its folder.

A :class:`File` closes itself when its last holder lets go of it. So a reader that is still sending a segment,
or a thread that is syncing it, never finds its descriptor closed or, worse, given to another file.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

from semel.errors import StorageError

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")  # Linux has it


class File(Protocol):
    """One open file, read and written by position."""

    def fileno(self) -> int:
        """The descriptor, for ``sendfile``; a simulated file may raise ``OSError``."""

    def size(self) -> int: ...

    def pread(self, length: int, position: int) -> bytes:
        """Up to ``length`` bytes; fewer only at the end of the file."""

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        """Write in order; returns how many bytes went in, which may be fewer than were given."""

    def truncate(self, size_bytes: int) -> None: ...

    def fdatasync(self) -> None: ...


class FileSystem(Protocol):
    """The folder operations; every path is absolute or relative to the process, as for ``open``."""

    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading and writing. ``create`` makes an empty file when there is none."""

    def exists(self, path: Path) -> bool: ...

    def listdir(self, path: Path) -> list[str]:
        """Names in the folder, sorted."""

    def mkdir(self, path: Path) -> None:
        """Make the folder and its parents; no error when it is there."""

    def rmdir(self, path: Path) -> None: ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` in one step."""

    def unlink(self, path: Path) -> None: ...

    def fsync_dir(self, path: Path) -> None: ...

    def room(self, path: Path) -> tuple[int, int]:
        """Bytes of the disk that the folder is on, and those of them that may still be written."""

    def lock(self, path: Path) -> File:
        """Hold ``path`` against other processes until the file is let go; ``StorageError`` when taken."""

    def boot_id(self) -> str:
        """Of the machine since it was started: as long as it is the same, what a process has written is there,
        synced or not. Where the machine does not tell, every process has another one.
        """


class OsFile:
    """A real file. See the module: it is closed when nobody holds it any more."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]  # a signal or the 2 GiB limit of one call cut it short
        got = len(data)
        while got < length and (data := os.pread(self._descriptor, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        return os.pwritev(self._descriptor, buffers, position)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def fdatasync(self) -> None:
        _fdatasync(self._descriptor)

    def __del__(self) -> None:
        os.close(self._descriptor)


class OsFileSystem:
    """The operating system's own files."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False) -> OsFile:
        return OsFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def listdir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 - names, not paths

    def mkdir(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def fsync_dir(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def room(self, path: Path) -> tuple[int, int]:
        disk = os.statvfs(path)
        return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text().strip()
        except OSError:
            return uuid4().hex

    def lock(self, path: Path) -> OsFile:
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _process_id_in(path)
            raise StorageError(f"data folder {path.parent} is in use by another process{holder}") from None
        with suppress(OSError):  # on a full disk the lock holds, too; it only does not say whose it is
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), b"%d\n" % os.getpid(), 0)
        return file


def _process_id_in(lock: Path) -> str:
    """Who holds a lock, as it wrote there itself: a number in the holder's own terms, if it is in a container."""
    with suppress(OSError):
        text = lock.read_bytes()[:20].strip()
        if text.isdigit():
            return f", {int(text)}"
    return ""


def _full_sync(descriptor: int) -> None:
    """macOS has no ``fdatasync``, and its ``fsync`` reaches the platter only by this detour."""
    fcntl.fcntl(descriptor, getattr(fcntl, "F_FULLFSYNC", 51))


_fdatasync: Callable[[int], object] = getattr(os, "fdatasync", _full_sync)


def write_whole(file: File, data: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of ``data``, going on after short writes; ``OSError`` when the file takes no more."""
    rest = memoryview(data)
    while rest:
        written = file.pwritev([rest], position)
        if written <= 0:
            raise OSError("the file took no more bytes")
        rest = rest[written:]
        position += written


def read_file(file_system: FileSystem, path: Path) -> bytes | None:
    """The whole content of a small file; ``None`` when it does not exist."""
    if not file_system.exists(path):
        return None
    file = file_system.open(path)
    return file.pread(file.size(), 0)


def write_file(file_system: FileSystem, path: Path, content: bytes | memoryview) -> File:
    """Put ``content`` at ``path``; a power cut may take it or tear it. The file, for who wants it synced."""
    file = file_system.open(path, create=True)
    file.truncate(0)
    write_whole(file, content, 0)
    return file


def replace_file(file_system: FileSystem, path: Path, content: bytes | memoryview) -> None:
    """Put ``content`` at ``path`` so that after a power cut there is the old or the new file, whole.

    Durable when it returns.
    """
    draft = path.with_name(path.name + ".tmp")
    write_file(file_system, draft, content).fdatasync()
    file_system.rename(draft, path)
    file_system.fsync_dir(path.parent)
