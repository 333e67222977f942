"""One log's leader epochs and their checkpoint file (Kafka's ``LeaderEpochFileCache``).

What they say is decided in :mod:`semel.core.log.leader_epochs`; here is when it is written. Trimming cuts ``epochs``
and leaves the file to the next epoch: a start cuts them again.
"""

from __future__ import annotations

from pathlib import Path

from semel.core.log import leader_epochs as epochs_of
from semel.core.log.leader_epochs import LeaderEpochs
from semel.core.log.names import LEADER_EPOCH_CHECKPOINT
from semel.server.storage.filesystem import FileSystem, read_file, replace_file, write_file


class EpochFile:
    """``epochs`` is one value, replaced as a whole."""

    __slots__ = ("_file_system", "_path", "epochs")

    def __init__(self, file_system: FileSystem, folder: Path) -> None:
        self._file_system = file_system
        self._path = folder / LEADER_EPOCH_CHECKPOINT
        self.epochs: LeaderEpochs = ()

    @property
    def latest(self) -> int:
        """The newest leader epoch; 0 of a log that knows none."""
        return max(0, self.epochs[-1].leader_epoch) if self.epochs else 0

    def at(self, offset: int) -> int | None:
        """Which epoch wrote ``offset``."""
        found = [one.leader_epoch for one in self.epochs if one.start_offset <= offset]
        return found[-1] if found else None

    def load(self) -> None:
        """Take what the file says; nothing when it is damaged."""
        content = read_file(self._file_system, self._path)
        self.epochs = () if content is None else epochs_of.decode_checkpoint(content) or ()

    def begin(self, leader_epoch: int, start_offset: int) -> None:
        """The leader of ``leader_epoch`` writes from ``start_offset`` on."""
        epochs = epochs_of.assign(self.epochs, leader_epoch, start_offset)
        if epochs != self.epochs or not self.epochs:
            self.epochs = epochs
            # The first one says nothing that its absence does not say: it need not be durable.
            put = replace_file if epochs[-1].leader_epoch > 0 else write_file
            put(self._file_system, self._path, epochs_of.encode_checkpoint(epochs))

    def cut_start(self, start_offset: int) -> None:
        self.epochs = epochs_of.cut_start(self.epochs, start_offset)

    def cut_end(self, end_offset: int) -> None:
        self.epochs = epochs_of.cut_end(self.epochs, end_offset)
