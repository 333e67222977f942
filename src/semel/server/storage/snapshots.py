"""The producer snapshots of one partition: semel's and Kafka's side by side, the two newest of each.

A snapshot is never needed for being right, only for being quick, as long as the log goes back to its first
batch. So one that cannot be read is passed over for the one before it, if the log goes back to that one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from semel.core.log.names import KAFKA_SNAPSHOT_SUFFIX, SNAPSHOT_SUFFIX, file_name, offset_of
from semel.core.producer_state.kafka_snapshot import decode_kafka_snapshot, encode_kafka_snapshot
from semel.core.producer_state.snapshot import decode_snapshot, encode_snapshot, rows_of
from semel.core.producer_state.state import FrozenProducers, ProducerState
from semel.server.storage.filesystem import FileSystem, read_file, replace_file
from semel.server.storage.segment import DamagedLog

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

    def load_newest(self, *, now_ms: int, end_offset_max: int | None = None) -> ProducerState | None:
        """The state of the newest of semel's snapshots that can be read, and stands for no more than that."""
        for end_offset in reversed(self._offsets(SNAPSHOT_SUFFIX)):
            if end_offset_max is not None and end_offset > end_offset_max:
                continue
            content = read_file(self._file_system, self._folder / file_name(end_offset, SNAPSHOT_SUFFIX))
            state = decode_snapshot(content or b"", now_ms=now_ms)
            if isinstance(state, ProducerState) and state.end_offset == end_offset:
                return state
        return None

    def check_newest(self, known: ProducerState | None, from_offset: int) -> None:
        """A log that begins at ``from_offset`` lacks what ``known`` does not know: raise if some snapshot knows it.

        Raises :class:`DamagedLog`: nothing is guessed of who wrote what was trimmed. Whoever removes the file goes
        on by what Kafka's says, which lies beside it: each producer's last batch.
        """
        end_offset = max(self._offsets(SNAPSHOT_SUFFIX), default=0)
        if end_offset > (0 if known is None else known.end_offset):
            reason = (
                "it cannot be read, and it alone knows who wrote what was trimmed; without this file the last batch "
                "of each producer is known, by the .snapshot file beside it"
            )
            raise DamagedLog(file_name(end_offset, SNAPSHOT_SUFFIX), 0, from_offset, reason)

    def load_kafkas_oldest(self, from_offset: int, *, now_ms: int) -> ProducerState | None:
        """Kafka's snapshot with the longest tail behind it, in a log that begins at ``from_offset``.

        From that tail the windows fill up again.
        """
        for end_offset in self._offsets(KAFKA_SNAPSHOT_SUFFIX):
            if end_offset < from_offset:
                continue
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
