"""The checkpoints of one data folder that tell an offset of each partition, in Kafka's format.

``log-start-offset-checkpoint``: where a log starts, where no file name tells: DeleteRecords may begin in the middle of
a segment. ``cleaner-offset-checkpoint``: up to where a log has been compacted. The first must be right; the second is
a hint, and without it all is compacted anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from semel.core.log.checkpoint import decode_offsets, encode_offsets
from semel.core.log.names import CLEANER_CHECKPOINT, LOG_START_CHECKPOINT
from semel.errors import StorageError
from semel.server.storage.filesystem import FileSystem, read_file, replace_file
from semel.types import TopicPartition


class OffsetCheckpoint:
    """One file; empty when it is not there."""

    def __init__(self, file_system: FileSystem, path: Path, *, must_be_right: bool) -> None:
        self._file_system = file_system
        self._path = path
        content = read_file(file_system, path)
        offsets = {} if content is None else decode_offsets(content)
        if offsets is None and must_be_right:
            raise StorageError(f"{path} cannot be read")
        self._offsets: dict[TopicPartition, int] = offsets or {}

    def find(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    def raise_to(self, partition: TopicPartition, offset: int) -> None:
        """Durable when it returns; ``OSError``: perhaps not."""
        before = self._offsets.get(partition)
        self._offsets[partition] = offset
        try:
            self._save()
        except OSError:
            if before is None:
                del self._offsets[partition]
            else:
                self._offsets[partition] = before
            raise

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are gone, and others of the same names start at 0.

        Durable when it returns; ``OSError``: perhaps not, and whoever asks again writes it again.
        """
        known = {tp: self._offsets[tp] for tp in partitions if tp in self._offsets}
        if not known:
            return
        for partition in known:
            del self._offsets[partition]
        try:
            self._save()
        except OSError:
            self._offsets |= known
            raise

    def _save(self) -> None:
        replace_file(self._file_system, self._path, encode_offsets(self._offsets))


class LogStarts(OffsetCheckpoint):
    """Where logs start."""

    def __init__(self, file_system: FileSystem, data_dir: Path) -> None:
        super().__init__(file_system, data_dir / LOG_START_CHECKPOINT, must_be_right=True)

    def get(self, partition: TopicPartition) -> int:
        return self._offsets.get(partition, 0)


class CleanedEnds(OffsetCheckpoint):
    """Up to where logs have been compacted."""

    def __init__(self, file_system: FileSystem, data_dir: Path) -> None:
        super().__init__(file_system, data_dir / CLEANER_CHECKPOINT, must_be_right=False)
