from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from semel.errors import StorageError
from semel.server.storage.filesystem import OsFileSystem, read_file, replace_file, write_whole

FS = OsFileSystem()


def test_a_file_is_read_and_written_by_position(tmp_path: Path) -> None:
    file = FS.open(tmp_path / "f", create=True)
    write_whole(file, b"hello world", 0)
    assert file.pread(5, 6) == b"world"
    assert file.pread(50, 6) == b"world"
    file.truncate(5)
    file.fdatasync()
    assert file.size() == 5


def test_a_file_is_closed_when_nobody_holds_it(tmp_path: Path) -> None:
    file = FS.open(tmp_path / "f", create=True)
    descriptor = file.fileno()
    del file
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_removed_file_can_still_be_read(tmp_path: Path) -> None:
    file = FS.open(tmp_path / "f", create=True)
    write_whole(file, b"kept", 0)
    FS.unlink(tmp_path / "f")
    assert file.pread(4, 0) == b"kept"


def test_a_replaced_file_is_whole(tmp_path: Path) -> None:
    assert read_file(FS, tmp_path / "f") is None
    replace_file(FS, tmp_path / "f", b"a longer first version")
    replace_file(FS, tmp_path / "f", b"second")
    assert read_file(FS, tmp_path / "f") == b"second"
    assert FS.listdir(tmp_path) == ["f"]


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    held = FS.lock(tmp_path / ".lock")
    with pytest.raises(StorageError, match="in use by another process"):
        FS.lock(tmp_path / ".lock")
    del held
    FS.lock(tmp_path / ".lock")
