from __future__ import annotations

from pathlib import Path

from semel.core.log.leader_epochs import LeaderEpoch
from semel.server.storage.epoch_file import EpochFile
from semel.server.storage.filesystem import OsFileSystem


def test_the_epochs_are_read_back_and_a_damaged_file_says_nothing(tmp_path: Path) -> None:
    epochs = EpochFile(OsFileSystem(), tmp_path)
    epochs.load()
    assert (epochs.epochs, epochs.latest, epochs.at(0)) == ((), 0, None)
    epochs.begin(0, 0)
    epochs.begin(2, 10)
    epochs.begin(2, 20)  # the same leader goes on
    again = EpochFile(OsFileSystem(), tmp_path)
    again.load()
    assert again.epochs == (LeaderEpoch(0, 0), LeaderEpoch(2, 10))
    assert (again.latest, again.at(9), again.at(10)) == (2, 0, 2)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"garbage")
    again.load()
    assert again.epochs == ()


def test_a_start_cuts_again_what_a_trim_has_left_in_the_file(tmp_path: Path) -> None:
    epochs = EpochFile(OsFileSystem(), tmp_path)
    epochs.begin(0, 0)
    epochs.begin(1, 10)
    epochs.cut_start(15)
    assert epochs.epochs == (LeaderEpoch(1, 15),)
    epochs.load()
    assert epochs.epochs == (LeaderEpoch(0, 0), LeaderEpoch(1, 10))
    epochs.cut_end(10)
    assert epochs.epochs == (LeaderEpoch(0, 0),)
