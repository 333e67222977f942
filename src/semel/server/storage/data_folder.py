"""The folder below which one server keeps everything: whose it is, in which form, and the folders of its partitions.

What is taken away goes out of sight in one durable step, and is emptied then; what cannot be emptied now, the next
start empties. A folder that no server made is never touched.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from semel.core.log.names import (
    CLEAN_SHUTDOWN,
    FOLDER_PROPERTIES,
    LOCK,
    PARTITION_METADATA,
    folder_of,
    hidden_folder,
    is_hidden_folder,
    is_partition_file,
    partition_of,
)
from semel.errors import StorageError
from semel.server.storage.filesystem import FileSystem, read_file, replace_file, write_file
from semel.types import TopicPartition

# Of 1, committed offsets had no end, and groups no members; up to 2, named identities were in the metadata log.
FORMAT_VERSION: Final = 3
_READABLE_VERSIONS: Final = range(1, FORMAT_VERSION + 1)
_VERSION_PROPERTY: Final = "semel.format.version"


class DataFolder:
    """One folder, which is this server's until :meth:`let_go`."""

    def __init__(self, file_system: FileSystem, path: Path, new_uuid: Callable[[], UUID]) -> None:
        """``OSError`` if it cannot be had, ``StorageError`` if it is another program's, or a later semel's."""
        self.path: Final = path
        self._file_system = file_system
        self._new_uuid = new_uuid
        self._make()
        self._lock: object | None = file_system.lock(path / LOCK)
        self.is_new: Final = not file_system.exists(path / FOLDER_PROPERTIES)
        self.cluster_id, self.version = self._read_properties()
        self.was_clean: Final = self._take_clean_marker()

    def _make(self) -> None:
        """Durably: its name stands in a folder that nobody else would sync."""
        made = [folder for folder in (self.path, *self.path.parents) if not self._file_system.exists(folder)]
        self._file_system.mkdir(self.path)
        for folder in dict.fromkeys((self.path, *made)):
            self._file_system.fsync_dir(folder.parent)

    def _read_properties(self) -> tuple[str, int]:
        """The cluster id, which is made when there is none, and the version of the format."""
        content = read_file(self._file_system, self.path / FOLDER_PROPERTIES)
        if content is None:
            cluster_id = base64.urlsafe_b64encode(self._new_uuid().bytes).decode().rstrip("=")
            self._write_properties(cluster_id)
            return cluster_id, FORMAT_VERSION
        lines = content.decode(errors="replace")
        properties = dict(line.split("=", 1) for line in lines.splitlines() if "=" in line)
        version = properties.get(_VERSION_PROPERTY)
        if version is None or version not in map(str, _READABLE_VERSIONS):
            found = "another program's" if version is None else f"of format version {version}"
            raise StorageError(
                f"data folder {self.path} is {found}; this semel reads format versions "
                f"{_READABLE_VERSIONS[0]} to {FORMAT_VERSION} ({FOLDER_PROPERTIES})"
            )
        return properties.get("cluster.id", "semel"), int(version)

    def _write_properties(self, cluster_id: str) -> None:
        lines = f"version=1\ncluster.id={cluster_id}\n{_VERSION_PROPERTY}={FORMAT_VERSION}\n"
        replace_file(self._file_system, self.path / FOLDER_PROPERTIES, lines.encode())

    def note_taken_over(self) -> None:
        """All in it is of this version now, durably: an older semel refuses it."""
        self._write_properties(self.cluster_id)
        self.version = FORMAT_VERSION

    def _take_clean_marker(self) -> bool:
        path = self.path / CLEAN_SHUTDOWN
        if not self._file_system.exists(path):
            return False
        self._file_system.unlink(path)
        self._file_system.fsync_dir(self.path)
        return True

    def leave_clean_marker(self) -> bool:
        """Say that the next start need not scan; whether it is said."""
        try:
            replace_file(self._file_system, self.path / CLEAN_SHUTDOWN, b"semel\n")
        except OSError:
            return False
        return True

    def let_go(self) -> None:
        self._lock = None

    def room(self) -> tuple[int, int]:
        """Bytes of the disk under it, and those that are free; ``OSError`` when it does not say."""
        return self._file_system.room(self.path)

    # -- partitions

    def has(self, name: TopicPartition) -> bool:
        return self._file_system.exists(self.path / folder_of(name))

    def make(self, name: TopicPartition, topic_id: UUID) -> None:
        """A partition's folder; durable with the next :meth:`sync`."""
        folder = self.path / folder_of(name)
        self._file_system.mkdir(folder)
        encoded_id = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        metadata = f"version: 0\ntopic_id: {encoded_id}\n".encode()
        write_file(self._file_system, folder / PARTITION_METADATA, metadata)

    def make_internal(self, name: TopicPartition) -> None:
        """That of a partition of the server's own, durably; it may be there."""
        self._file_system.mkdir(self.path / folder_of(name))
        self.sync()

    def sync(self) -> None:
        """The names in it."""
        self._file_system.fsync_dir(self.path)

    def remove(self, names: Iterable[TopicPartition]) -> None:
        """Take the partitions' folders out of sight, each in one step, then empty them."""
        hidden = [self._hide(folder_of(one)) for one in names]
        gone = [folder for folder in hidden if folder is not None]
        if gone:
            self.sync()
        for folder in gone:
            with suppress(OSError):
                self._empty(folder)

    def _hide(self, folder: str) -> Path | None:
        if not self._file_system.exists(self.path / folder):
            return None
        hidden = self.path / hidden_folder(folder, self._new_uuid().hex)
        self._file_system.rename(self.path / folder, hidden)
        return hidden

    def _empty(self, folder: Path) -> None:
        for name in self._file_system.listdir(folder):
            self._file_system.unlink(folder / name)
        self._file_system.rmdir(folder)

    def partitions(self) -> Iterator[TopicPartition]:
        """Those that have a folder, which may be somebody's ``backup-2024``. What is out of sight is emptied."""
        for entry in self._file_system.listdir(self.path):
            if is_hidden_folder(entry):
                with suppress(OSError):
                    self._empty(self.path / entry)
                continue
            name = partition_of(entry)
            if name is not None:
                yield name

    def remove_orphan(self, name: TopicPartition) -> None:
        """Of a topic that nobody knows; what is not a partition's stays."""
        with suppress(OSError):
            if all(map(is_partition_file, self._file_system.listdir(self.path / folder_of(name)))):
                self.remove([name])
