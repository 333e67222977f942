"""What appending, reading, syncing and trimming of one partition share.

Invariants:
- ``log_start_offset`` <= ``high_watermark``, and never goes back; how far the log goes, and for whom,
  :mod:`semel.core.log.watermarks` says.
- Once offline, for ever: no write, no sync and no read of what may be wrong follows until it is opened anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from semel.core.log.config import LogConfig
from semel.core.log.watermarks import Watermarks
from semel.server.storage.epoch_file import EpochFile
from semel.server.storage.known_producers import KnownProducers
from semel.server.storage.log_segments import LogSegments
from semel.server.storage.open_files import OpenFiles
from semel.types import TopicPartition


@dataclass(slots=True)
class LogState:
    """One partition's, as its folder was opened."""

    name: TopicPartition
    config: LogConfig
    files: OpenFiles
    folder: Path
    segments: LogSegments
    marks: Watermarks
    epochs: EpochFile
    leader_epoch: int
    producers: KnownProducers
    log_start_offset: int
    offline_reason: str | None = None
    is_folder_dirty: bool = True  # its names, or some of them, may not be durable yet

    @property
    def last_stable_offset(self) -> int:
        """Up to where whoever wants no open transaction's records reads; one that began before the log's start does
        not hold it back behind that.
        """
        return max(self.marks.last_stable_offset, self.log_start_offset)

    @property
    def is_online(self) -> bool:
        return self.offline_reason is None

    def go_offline(self, reason: str) -> None:
        if self.offline_reason is None:
            self.offline_reason = reason
