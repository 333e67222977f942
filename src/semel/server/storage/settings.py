"""What a data folder is opened with."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.core.group.groups import OffsetSettings
from semel.core.group.membership import GroupSettings
from semel.core.log.config import LogConfig
from semel.core.transaction.transactions import TransactionSettings

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """``durable``: nothing is seen or acknowledged before it is synced. Else the page cache is trusted."""

    durable: bool = True
    broker_id: int = 0  # whose settings are in force, of those that were changed while a server ran
    default_config: LogConfig = field(default_factory=LogConfig)
    producer_id_expiration_ms: int = _DAY_MS
    producers_max: int = 1_000_000  # of all partitions
    producer_lease_ms: int = _DAY_MS
    offsets: OffsetSettings = field(default_factory=OffsetSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    cold_files_max: int = 1000  # of full segments, held open; the others are opened when they are read
    topics_max: int = 10_000
    partitions_max: int = 100_000  # of all topics
    cleaner_map_bytes: int = 16 << 20  # in which compaction knows keys
