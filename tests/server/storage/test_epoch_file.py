from __future__ import annotations

from pathlib import Path

from semel.core.log.leader_epochs import LeaderEpoch, LeaderEpochs
from semel.server.storage.epoch_file import EpochFile
from semel.server.storage.filesystem import OsFileSystem


def from_log() -> LeaderEpochs:
    return (LeaderEpoch(2, 7),)


def test_the_epochs_are_read_back_and_a_damaged_file_says_nothing(tmp_path: Path) -> None:
    epochs = EpochFile(OsFileSystem(), tmp_path)
    epochs.load(-1, from_log)
    assert (epochs.epochs, epochs.latest, epochs.at(0)) == ((), -1, None)
    epochs.begin(0, 0)
    assert not list(tmp_path.iterdir()), "nothing was written in it yet"
    epochs.save()
    epochs.begin(2, 10)
    epochs.begin(2, 20)  # the same leader goes on
    epochs.save()
    again = EpochFile(OsFileSystem(), tmp_path)
    again.load(2, from_log)
    assert again.epochs == (LeaderEpoch(0, 0), LeaderEpoch(2, 10))
    assert (again.latest, again.at(9), again.at(10)) == (2, 0, 2)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"garbage")
    again.load(-1, from_log)
    assert again.epochs == ()
    again.load(2, from_log)
    assert again.epochs == from_log()


def test_a_start_cuts_again_what_a_trim_has_left_in_the_file(tmp_path: Path) -> None:
    epochs = EpochFile(OsFileSystem(), tmp_path)
    epochs.begin(0, 0)
    epochs.begin(1, 10)
    epochs.save()
    epochs.cut_start(15)
    assert epochs.epochs == (LeaderEpoch(1, 15),)
    epochs.load(1, from_log)
    assert epochs.epochs == (LeaderEpoch(0, 0), LeaderEpoch(1, 10))
    epochs.cut_end(10)
    assert epochs.epochs == (LeaderEpoch(0, 0),)
