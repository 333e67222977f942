"""One log's leader epochs and their checkpoint file (Kafka's ``LeaderEpochFileCache``).

What they say is decided in :mod:`semel.core.log.leader_epochs`; here is when it is written: an epoch with its first
batch, for a server that starts with many partitions would else write a file for each. The batches carry their epochs,
so the file need not be durable: what it lacks is read from them. Trimming and a lost end cut ``epochs`` and leave the
file to the next epoch: a start cuts them again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from semel.core.log import leader_epochs as epochs_of
from semel.core.log.leader_epochs import LeaderEpochs
from semel.core.log.names import LEADER_EPOCH_CHECKPOINT
from semel.server.storage.filesystem import FileSystem, read_file, write_file
from semel.types import NO_LEADER_EPOCH


class EpochFile:
    """``epochs`` is one value, replaced as a whole."""

    __slots__ = ("_file_system", "_is_saved", "_path", "epochs")

    def __init__(self, file_system: FileSystem, folder: Path) -> None:
        self._file_system = file_system
        self._path = folder / LEADER_EPOCH_CHECKPOINT
        self._is_saved = True
        self.epochs: LeaderEpochs = ()

    @property
    def latest(self) -> int:
        """The newest leader epoch; ``NO_LEADER_EPOCH`` of a log that knows none."""
        return self.epochs[-1].leader_epoch if self.epochs else NO_LEADER_EPOCH

    def at(self, offset: int) -> int | None:
        """Which epoch wrote ``offset``."""
        return epochs_of.epoch_at(self.epochs, offset)

    def load(self, newest_in_log: int, read_log: Callable[[], LeaderEpochs]) -> None:
        """Take what the file says; where the log has a newer epoch than that, what its batches say."""
        content = read_file(self._file_system, self._path)
        self.epochs = () if content is None else epochs_of.decode_checkpoint(content) or ()
        if self.latest < newest_in_log:
            self.epochs = read_log()

    def begin(self, leader_epoch: int, start_offset: int) -> None:
        """The leader of ``leader_epoch`` writes from ``start_offset`` on; its first batch waits for :meth:`save`."""
        self.epochs = epochs_of.assign(self.epochs, leader_epoch, start_offset)
        self._is_saved = False

    def save(self) -> None:
        """Write the file, if it lacks the newest epoch."""
        if not self._is_saved:
            write_file(self._file_system, self._path, epochs_of.encode_checkpoint(self.epochs))
            self._is_saved = True

    def cut_start(self, start_offset: int) -> None:
        self.epochs = epochs_of.cut_start(self.epochs, start_offset)

    def cut_end(self, end_offset: int) -> None:
        self.epochs = epochs_of.cut_end(self.epochs, end_offset)
