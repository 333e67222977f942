"""What the low-level client answers: plain values, named as Kafka names them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from semel.errors import ErrorCode
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    partition: int
    leader: int  # node id, -1 when none
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    topic_id: UUID | None  # None: the brokers are too old to have any
    partitions: dict[int, PartitionMetadata]
    error_code: ErrorCode
    is_internal: bool  # to be read by those who name it only


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    brokers: dict[int, BrokerAddress]
    topics: dict[str, TopicMetadata]
    controller_id: int
    cluster_id: str | None


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """``offset`` is -1 when no record has the timestamp asked for, or a later one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """One partition's records as raw batches; the first may begin before the offset asked for."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]  # (producer id, first offset)
    error_code: ErrorCode
    is_elsewhere: bool = False  # the leader has read nothing, and names another broker to ask
    common_end: int | None = None  # the log was cut here, behind rows that were read: nothing is read then


@dataclass(frozen=True, slots=True)
class Produced:
    error_code: ErrorCode
    base_offset: int  # -1 when it is not known
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """``offset`` is the next one to read; -1 when none was committed."""

    offset: int
    leader_epoch: int
    metadata: str | None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: dict[int, BrokerAddress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transactional id. ``state`` is Kafka's word: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit …"""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int  # node id


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id, and what its holder has open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int | None  # by the coordinator's clock, of the newest transaction; None: there was none
    partitions: tuple[TopicPartition, ...]  # that the open one has written to
    coordinator: int  # node id
