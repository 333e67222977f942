"""Where each partition's log starts, in Kafka's ``log-start-offset-checkpoint``.

Only for starts that a file name does not tell: DeleteRecords may begin in the middle of a segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from semel.core.log.checkpoint import decode_offsets, encode_offsets
from semel.core.log.names import LOG_START_CHECKPOINT
from semel.errors import StorageError
from semel.server.storage.filesystem import FileSystem, read_file, replace_file
from semel.types import TopicPartition


class LogStarts:
    """The checkpoint of one data folder."""

    def __init__(self, file_system: FileSystem, data_dir: Path) -> None:
        self._file_system = file_system
        self._path = data_dir / LOG_START_CHECKPOINT
        content = read_file(file_system, self._path)
        offsets = {} if content is None else decode_offsets(content)
        if offsets is None:
            raise StorageError(f"{self._path} cannot be read")
        self._offsets: dict[TopicPartition, int] = offsets

    def get(self, partition: TopicPartition) -> int:
        return self._offsets.get(partition, 0)

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
