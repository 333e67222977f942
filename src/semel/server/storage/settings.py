"""What a data folder is opened with."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.core.log.config import LogConfig

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """``durable``: nothing is seen or acknowledged before it is synced. Else the page cache is trusted."""

    durable: bool = True
    default_config: LogConfig = field(default_factory=LogConfig)
    producer_id_expiration_ms: int = _DAY_MS
    producers_max: int = 1_000_000  # of all partitions
    producer_lease_ms: int = _DAY_MS
    offset_metadata_bytes_max: int = 4096
    cold_files_max: int = 1000  # of full segments, held open; the others are opened when they are read
    topics_max: int = 10_000
    partitions_max: int = 100_000  # of all topics
