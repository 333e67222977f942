"""A producer's settings: what each one bounds or chooses, and which values are refused."""

from __future__ import annotations

import os
from dataclasses import dataclass

from semel.client.identity import IdentityFile, IdentityStore, IdentityValue
from semel.core.client.pipeline import PipelineSettings
from semel.core.client.resume import SavedIdentity
from semel.errors import ConfigError
from semel.record.compression import Compression


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Bounds and choices of a producer. Times in milliseconds, sizes in bytes."""

    identity: str | SavedIdentity | None = None  # a value; or the name of the one in identity_store
    identity_store: str | os.PathLike[str] | IdentityStore | None = None  # a file, or another place
    compression: str = "none"
    linger_ms: int = 5
    batch_bytes: int = 262_144
    in_flight_max: int = 5
    buffer_bytes: int = 64 * 1024 * 1024
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 50
    save_interval_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    client_id: str = "semel"
    acks: str | int = "all"
    security_protocol: str = "PLAINTEXT"
    lease: bool = False  # write under ids that are leased anew in time; NotStored where there are no leases

    def __post_init__(self) -> None:
        if str(self.acks) not in ("all", "-1"):
            raise ConfigError(f"acks={self.acks!r}: an idempotent producer needs acks='all'")
        if not 1 <= self.in_flight_max <= 5:
            raise ConfigError(f"in_flight_max={self.in_flight_max}: the log remembers 5 batches, so 1 to 5")
        if self.compression.upper() not in Compression.__members__:
            names = ", ".join(name.lower() for name in Compression.__members__)
            raise ConfigError(f"compression={self.compression!r}: one of {names}")
        if isinstance(self.identity, str) and self.identity_store is None:
            raise ConfigError("identity needs identity_store, the file that the identity is saved in")
        if isinstance(self.identity, SavedIdentity) and self.identity_store is not None:
            raise ConfigError("identity is a value: it is kept by the caller, not in an identity_store")
        if self.lease and (self.identity is not None or self.identity_store is not None):
            raise ConfigError("lease=True gives an id that ends; an identity is one that is kept. Choose one")
        for name in (
            "batch_bytes",
            "buffer_bytes",
            "delivery_timeout_ms",
            "request_timeout_ms",
            "metadata_max_age_ms",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}={getattr(self, name)}: must be above 0")

    def pipeline(self) -> PipelineSettings:
        return PipelineSettings(
            batch_bytes=self.batch_bytes,
            linger_ms=self.linger_ms,
            compression=Compression[self.compression.upper()],
            in_flight_max=self.in_flight_max,
            request_bytes_max=max(1_048_576, self.batch_bytes),
            delivery_timeout_ms=self.delivery_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            strict=self.identity is not None or self.identity_store is not None,
            lease=self.lease,
        )

    def store(self) -> IdentityStore | None:
        """Where the identity is kept; None without one."""
        if isinstance(self.identity, SavedIdentity):
            return IdentityValue(self.identity)
        if isinstance(self.identity_store, str | os.PathLike):
            return IdentityFile(self.identity_store)
        return self.identity_store
