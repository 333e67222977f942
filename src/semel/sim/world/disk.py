"""The disk: STORAGE's ``FileSystem`` protocol over inodes and folders that forget what was not synced.

A :class:`Disk` outlives its processes; each process sees it through a :class:`Mount` of its own, which dies
with the process: whatever a dead process still holds can neither read nor write. A new, renamed or removed
name is durable after ``fsync_dir`` of its folder, and a power cut keeps some prefix of the changes since
(file systems keep a journal of names, in order). A killed process loses nothing: the page cache survives.
What was synced stays as it was written, unless it rots (:meth:`Disk.rot`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from semel.errors import StorageError
from semel.sim.world.faults import Counts, Fault, FaultMix
from semel.sim.world.inode import Inode
from semel.sim.world.trace import Trace

DISK_FULL_WRITES_MAX: Final = 6


_DISK_BYTES: Final = 1 << 40


class ProcessEnd(BaseException):
    """The process ends inside a file operation. Not an ``Exception``: nobody may handle it but the world."""


class PowerCut(ProcessEnd):
    """Its machine ends with it."""


class Killed(ProcessEnd):
    """The machine goes on, with its page cache."""


class Folder:
    """Names as processes see them, and the changes since the last ``fsync_dir``."""

    __slots__ = ("_durable", "_pending", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode | Folder] = {}
        self._durable: dict[str, Inode | Folder] = {}
        self._pending: list[dict[str, Inode | Folder | None]] = []

    def change(self, changes: dict[str, Inode | Folder | None]) -> None:
        """Set or (None) remove names, in one step."""
        _apply(self.names, changes)
        self._pending.append(changes)

    def sync(self) -> None:
        self._durable = dict(self.names)
        self._pending.clear()

    def put_back(self, files: Mapping[str, bytes]) -> None:
        """What somebody copied away takes the place of all that is there, and is durable."""
        self.change(dict.fromkeys(self.names, None) | {name: Inode.of(data) for name, data in files.items()})
        self.sync()

    def power_cut(self, random: Random, counts: Counts) -> None:
        if self._pending:
            kept = random.choice((0, len(self._pending), random.randint(0, len(self._pending))))
            counts.bit(Fault.DIRECTORY_LOST, len(self._pending) - kept)
            for changes in self._pending[:kept]:
                _apply(self._durable, changes)
            self.names = dict(self._durable)
            self._pending.clear()
        for name in sorted(self.names):
            self.names[name].power_cut(random, counts)


def _apply(names: dict[str, Inode | Folder], changes: dict[str, Inode | Folder | None]) -> None:
    for name, node in changes.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


class Disk:
    """One server's disk, with its faults."""

    def __init__(self, random: Random, trace: Trace, counts: Counts, mix: Callable[[], FaultMix]) -> None:
        self.root = Folder()
        self.random: Final = random
        self.trace: Final = trace
        self.counts: Final = counts
        self.mix: Final = mix
        self.boots = 0  # of its machine
        self.full_writes = 0  # how many writes, or new files, still find the disk full
        self.failed: Final[set[Path]] = set()  # files and folders for which this process met an error

    def mount(self) -> Mount:
        """For a new process."""
        self.failed.clear()
        return Mount(self)

    def power_cut(self) -> None:
        self.boots += 1
        self.full_writes = 0
        self.root.power_cut(self.random, self.counts)

    def take_if_not_full(self, path: Path) -> None:
        """A write or a new file: refused for as long as the disk is full."""
        if self.full_writes:
            self.full_writes -= 1
            self.counts.bit(Fault.DISK_FULL)
            self.trace.note("disk", f"full: {path}")
            self.failed.add(path)
            raise OSError(errno.ENOSPC, "no space left on device")

    def sync_failed(self, what: str, path: Path) -> OSError:
        """The error of a sync of ``path``, to be raised."""
        self.trace.note("disk", f"EIO on fsync of {what}")
        self.failed.add(path)
        return OSError(errno.EIO, "input/output error")

    def rot(self, path: Path, position: int, bit: int) -> None:
        """One bit of what is on the platter changes, and nobody is told."""
        node = find(self.root, path)
        assert isinstance(node, Inode)
        node.cached[position] ^= 1 << bit
        self.trace.note("disk", f"bit {bit} of byte {position} of {path} has rotted")


def find(root: Folder, path: Path) -> Inode | Folder | None:
    """What ``path`` names."""
    node: Inode | Folder | None = root
    for part in _parts(path):
        if not isinstance(node, Folder):
            return None
        node = node.names.get(part)
    return node


class Mount:
    """One process's view of the disk (``semel.server.storage.filesystem.FileSystem``)."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._locks: set[Path] = set()
        self.alive = True
        self._steps_left = -1  # the step, counted from now, inside which the process ends; -1: never
        self._end: type[ProcessEnd] = PowerCut
        self.meanwhile: Callable[[], None] = _nothing  # what the process's other threads do during a sync

    def end_inside_step(self, steps: int, end: type[ProcessEnd] = PowerCut) -> None:
        """Let the process end inside a change that is so many steps ahead; -1: not at all."""
        self._steps_left, self._end = steps, end

    def step(self, what: str) -> None:
        """Before every change: the place where the process may end."""
        self.check()
        if self._steps_left >= 0:
            self._steps_left -= 1
            if self._steps_left < 0:
                self.alive = False
                self._disk.trace.note("disk", f"{self._end.__name__} inside {what}")
                raise self._end(what)

    def check(self) -> None:
        if not self.alive:
            raise Killed("the process is dead")

    def open(self, path: Path, *, create: bool = False) -> SimulatedFile:
        self.check()
        folder = self._folder(path.parent)
        node = folder.names.get(path.name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            self.step(f"create {path}")
            self._disk.take_if_not_full(path)
            node = Inode()
            folder.change({path.name: node})
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        return SimulatedFile(self, self._disk, node, path)

    def exists(self, path: Path) -> bool:
        self.check()
        return self._find(path) is not None

    def listdir(self, path: Path) -> list[str]:
        self.check()
        return sorted(self._folder(path).names)

    def mkdir(self, path: Path) -> None:
        self.check()
        folder = self._disk.root
        for part in _parts(path):
            node = folder.names.get(part)
            if node is None:
                self.step(f"mkdir {part}")
                node = Folder()
                folder.change({part: node})
            if not isinstance(node, Folder):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
            folder = node

    def rmdir(self, path: Path) -> None:
        self.check()
        if self._folder(path).names:
            raise OSError(errno.ENOTEMPTY, "folder not empty", str(path))
        self.step(f"rmdir {path}")
        self._folder(path.parent).change({path.name: None})

    def rename(self, source: Path, target: Path) -> None:
        self.check()
        if source.parent != target.parent:
            raise NotImplementedError("a rename between folders has two journals: not simulated")
        folder = self._folder(source.parent)
        node = folder.names.get(source.name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(source))
        self.step(f"rename {source} to {target.name}")
        folder.change({source.name: None, target.name: node})

    def unlink(self, path: Path) -> None:
        self.check()
        folder = self._folder(path.parent)
        if path.name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        self.step(f"unlink {path}")
        folder.change({path.name: None})

    def fsync_dir(self, path: Path) -> None:
        folder, disk = self._folder(path), self._disk
        self.step("fsync of a folder")
        if disk.counts.bites(Fault.FOLDER_SYNC_FAILED, disk.random, disk.mix().folder_sync_failed):
            raise disk.sync_failed(f"folder {path}", path)
        folder.sync()

    def room(self, path: Path) -> tuple[int, int]:
        self.check()
        return _DISK_BYTES, 0 if self._disk.full_writes else _DISK_BYTES

    def boot_id(self) -> str:
        self.check()
        return f"boot {self._disk.boots}"

    def lock(self, path: Path) -> SimulatedFile:
        file = self.open(path, create=True)
        if path in self._locks:
            raise StorageError(f"data folder {path.parent} is in use by another process")
        self._locks.add(path)
        return file

    def _find(self, path: Path) -> Inode | Folder | None:
        return find(self._disk.root, path)

    def _folder(self, path: Path) -> Folder:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
        return node


class SimulatedFile:
    """One open file of one process (``semel.server.storage.filesystem.File``)."""

    __slots__ = ("_disk", "_inode", "_mount", "_path")

    def __init__(self, mount: Mount, disk: Disk, inode: Inode, path: Path) -> None:
        self._mount = mount
        self._disk = disk
        self._inode = inode
        self._path = path

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor")

    def size(self) -> int:
        self._mount.check()
        return len(self._inode.cached)

    def pread(self, length: int, position: int) -> bytes:
        self._mount.check()
        return bytes(self._inode.cached[position : position + length])

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        disk, random = self._disk, self._disk.random
        data = memoryview(b"".join(buffers))
        mix, bites = disk.mix(), disk.counts.bites
        was_alive = self._mount.alive
        try:
            self._mount.step("a write")
        except ProcessEnd:
            if data and was_alive:
                self._inode.write(data[: random.randint(0, len(data))], position)
            raise
        disk.take_if_not_full(self._path)
        taken = len(data)
        if taken > 1 and random.random() < mix.disk_full and disk.counts.occurs(Fault.DISK_FULL):
            disk.full_writes = random.randint(1, DISK_FULL_WRITES_MAX)
            taken = random.randrange(1, taken)
        elif taken > 1 and bites(Fault.SHORT_WRITE, random, mix.short_write):
            taken = random.randrange(1, taken)
        self._inode.write(data[:taken], position)
        return taken

    def truncate(self, size_bytes: int) -> None:
        self._mount.step("a truncation")
        self._inode.truncate(size_bytes)

    def fdatasync(self) -> None:
        disk = self._disk
        self._mount.step("fsync of a file")
        if self._inode.is_clean:
            self._mount.meanwhile()
            return
        fails = disk.counts.bites(Fault.SYNC_FAILED, disk.random, disk.mix().sync_failed)
        self._inode.sync(self._mount.meanwhile, fails=fails)
        if fails:
            raise disk.sync_failed(str(self._path), self._path)


def _parts(path: Path) -> tuple[str, ...]:
    return path.parts[1:] if path.is_absolute() else path.parts


def _nothing() -> None:
    pass
