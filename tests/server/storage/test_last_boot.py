"""The boot that a data folder was used under last."""

from __future__ import annotations

from pathlib import Path

from tests.server.failing_disk import Disk

from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.last_boot import LastBoot


def test_it_is_this_one_once_it_was_noted(tmp_path: Path) -> None:
    assert not LastBoot(Disk(), tmp_path).is_this, "nobody knows"
    LastBoot(Disk(), tmp_path).note()
    assert LastBoot(Disk(), tmp_path).is_this
    assert not LastBoot(Disk(boot="the second"), tmp_path).is_this


def test_a_failed_sync_takes_the_note_away(tmp_path: Path) -> None:
    last = LastBoot(Disk(), tmp_path)
    last.note()
    last.forget()
    assert not last.is_this
    assert not LastBoot(Disk(), tmp_path).is_this
    last.forget()
    last.note()
    assert LastBoot(Disk(), tmp_path).is_this


def test_a_machine_has_one_for_all_its_processes() -> None:
    assert OsFileSystem().boot_id() == OsFileSystem().boot_id() != ""
