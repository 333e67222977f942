"""The producer snapshots of one partition: semel's and Kafka's side by side, the two newest of each.

A snapshot is never needed for being right, only for being quick, as long as the log goes back to its first
batch. So one that is torn, or was never durable, is passed over for the one before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from semel.core.log.names import KAFKA_SNAPSHOT_SUFFIX, SNAPSHOT_SUFFIX, file_name, offset_of
from semel.core.producer_state.kafka_snapshot import decode_kafka_snapshot, encode_kafka_snapshot
from semel.core.producer_state.snapshot import decode_snapshot, encode_snapshot, rows_of
from semel.core.producer_state.state import FrozenProducers, ProducerState
from semel.server.storage.filesystem import FileSystem, read_file, replace_file

_KEPT: Final = 2


class SnapshotFiles:
    """The snapshots in one partition's folder."""

    __slots__ = ("_file_system", "_folder")

    def __init__(self, file_system: FileSystem, folder: Path) -> None:
        self._file_system = file_system
        self._folder = folder

    def write(self, frozen: FrozenProducers) -> None:
        """Keep it, durably, and let go of the snapshots that are not needed any more. In any thread.

        Only for a state whose batches are all synced: a snapshot must never know more than the log.
        """
        own = encode_snapshot(frozen)
        kafkas = encode_kafka_snapshot(rows_of(own))
        for suffix, content in ((KAFKA_SNAPSHOT_SUFFIX, kafkas), (SNAPSHOT_SUFFIX, own)):
            replace_file(self._file_system, self._folder / file_name(frozen.end_offset, suffix), content)
            for end_offset in self._offsets(suffix)[:-_KEPT]:
                self._file_system.unlink(self._folder / file_name(end_offset, suffix))

    def newest_end_offset(self) -> int:
        """Up to where the newest of semel's snapshots speaks; 0 when there is none."""
        return max(self._offsets(SNAPSHOT_SUFFIX), default=0)

    def load_newest(self, *, now_ms: int) -> ProducerState | None:
        """The state of the newest of semel's snapshots that can be read."""
        for end_offset in reversed(self._offsets(SNAPSHOT_SUFFIX)):
            content = read_file(self._file_system, self._folder / file_name(end_offset, SNAPSHOT_SUFFIX))
            state = decode_snapshot(content or b"", now_ms=now_ms)
            if isinstance(state, ProducerState) and state.end_offset == end_offset:
                return state
        return None

    def load_kafkas_oldest(self, *, now_ms: int) -> ProducerState | None:
        """Kafka's snapshot with the longest tail behind it, from which the windows fill up again."""
        for end_offset in self._offsets(KAFKA_SNAPSHOT_SUFFIX):
            path = self._folder / file_name(end_offset, KAFKA_SNAPSHOT_SUFFIX)
            content = read_file(self._file_system, path)
            state = decode_kafka_snapshot(content or b"", end_offset=end_offset, now_ms=now_ms)
            if isinstance(state, ProducerState):
                return state
        return None

    def drop_above(self, log_end_offset: int) -> None:
        """Remove the snapshots that stand for more than the log holds; durable before new batches go in."""
        dropped = False
        for suffix in (SNAPSHOT_SUFFIX, KAFKA_SNAPSHOT_SUFFIX):
            for end_offset in self._offsets(suffix):
                if end_offset > log_end_offset:
                    self._file_system.unlink(self._folder / file_name(end_offset, suffix))
                    dropped = True
        if dropped:
            self._file_system.fsync_dir(self._folder)

    def _offsets(self, suffix: str) -> list[int]:
        names = self._file_system.listdir(self._folder)
        found = (offset_of(name, suffix) for name in names if name.endswith(suffix))  # of many a few
        return sorted(offset for offset in found if offset is not None)
