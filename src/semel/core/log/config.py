"""A topic's settings: Kafka's names, defaults and bounds (``TopicConfig``, ``LogConfig``).

Only what semel really does is listed. A setting that is not here is refused, never ignored, except for
those in :data:`FIXED`, which may be given with the one value that is true anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from semel.record.compression import Compression

UNLIMITED: Final = -1
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
PRODUCERS_COMPRESSION: Final = "producer"  # ``compression.type``: a batch is stored as it came
_COMPRESSIONS: Final = {  # ``BrokerCompressionType``
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_NO_LZ4_LEVEL: Final = 9  # Kafka's default is its fast compressor, the other levels its high one


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's settings, each under Kafka's name with dots for underscores."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    retention_ms: int = 604_800_000
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = PRODUCERS_COMPRESSION
    compression_gzip_level: int = -1  # zlib's own default
    compression_lz4_level: int = _NO_LZ4_LEVEL
    compression_zstd_level: int = 3

    @property
    def compression(self) -> Compression | None:
        """What every batch is compressed with; ``None``: what its producer chose."""
        return _COMPRESSIONS.get(self.compression_type)

    @property
    def compression_level(self) -> int | None:
        """At which level, where its codec has any."""
        match self.compression:
            case Compression.GZIP:
                return self.compression_gzip_level
            case Compression.LZ4:
                return None if self.compression_lz4_level == _NO_LZ4_LEVEL else self.compression_lz4_level
            case Compression.ZSTD:
                return self.compression_zstd_level
        return None


_BOUNDS: Final = {
    "segment_bytes": (1024, _INT32_MAX),
    "segment_ms": (1, _INT64_MAX),
    "retention_bytes": (UNLIMITED, _INT64_MAX),
    "retention_ms": (UNLIMITED, _INT64_MAX),
    "index_interval_bytes": (0, _INT32_MAX),
    "max_message_bytes": (0, _INT32_MAX),
    "message_timestamp_after_max_ms": (0, _INT64_MAX),
    "compression_gzip_level": (-1, 9),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131_072, 22),
}
_CHOICES: Final = {
    "message_timestamp_type": (CREATE_TIME, LOG_APPEND_TIME),
    "compression_type": (*_COMPRESSIONS, PRODUCERS_COMPRESSION),
}
FIXED: Final = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "1",
    "message.format.version": "3.0-IV1",
    "unclean.leader.election.enable": "false",
}
NAMES: Final = tuple(field.name.replace("_", ".") for field in fields(LogConfig))


@dataclass(frozen=True, slots=True)
class BadConfig:
    """A setting was refused."""

    name: str
    reason: str


def parse_config(settings: Mapping[str, str | None], base: LogConfig) -> LogConfig | BadConfig:
    """``base`` with ``settings`` by Kafka's names on top of it; ``None`` keeps the base's value."""
    changes: dict[str, int | str] = {}
    for name, text in settings.items():
        if text is None:
            continue
        if name in FIXED:
            if text != FIXED[name]:
                return BadConfig(name, f"only {FIXED[name]!r} is supported, not {text!r}")
            continue
        if name not in NAMES:
            return BadConfig(name, "unknown or not supported")
        field_name = name.replace(".", "_")
        if field_name in _CHOICES:
            if text not in _CHOICES[field_name]:
                return BadConfig(name, f"must be {' or '.join(_CHOICES[field_name])}, not {text!r}")
            changes[field_name] = text
            continue
        low, high = _BOUNDS[field_name]
        try:
            value = int(text)
        except ValueError:
            return BadConfig(name, f"{text!r} is not a whole number")
        if not low <= value <= high or (field_name == "compression_gzip_level" and not value):
            return BadConfig(name, f"{value} is not within {low} to {high}")
        changes[field_name] = value
    return replace(base, **changes)  # type: ignore[arg-type]


def describe_config(config: LogConfig) -> dict[str, str]:
    """Every setting by Kafka's name, as text."""
    shown = {field.name.replace("_", "."): str(getattr(config, field.name)) for field in fields(LogConfig)}
    return FIXED | shown
