"""What bounds one producer's pipeline, and what was chosen for it."""

from __future__ import annotations

from dataclasses import dataclass

from semel.core.client.transaction import TransactionSettings
from semel.record.compression import Compression


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Bounds and choices of one producer; the names are Kafka's where Kafka has one."""

    batch_bytes: int = 262_144
    linger_ms: int = 5
    compression: Compression = Compression.NONE
    in_flight_max: int = 5
    request_bytes_max: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 50
    retry_backoff_ms_max: int = 1_000
    strict: bool = False  # a partition stops at its first failure for good
    transactions: TransactionSettings | None = None  # then strict too, until the transaction is aborted
    lease: bool = False
    raises_epoch: bool = True  # of an id without a name: the epochs of a name are its coordinator's to give
