"""A topic's settings: Kafka's names, defaults and bounds (``TopicConfig``, ``LogConfig``).

What semel really does is listed here. Of Kafka's other settings those in :mod:`semel.core.log.kept` are kept and told,
as nothing depends on them; those in :data:`FIXED` may be given with the one value that is true anyway. Any other is
refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from semel.core.log.kept import KEPT
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
DELETE: Final = "delete"  # ``cleanup.policy``: what is too old goes
COMPACT: Final = "compact"  # of each key the newest record stays
CLEANUP_POLICIES: Final = (DELETE, COMPACT, f"{COMPACT},{DELETE}", f"{DELETE},{COMPACT}")
NO_LAG_MAX: Final = _INT64_MAX


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
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = PRODUCERS_COMPRESSION
    compression_gzip_level: int = -1  # zlib's own default
    compression_lz4_level: int = _NO_LZ4_LEVEL
    compression_zstd_level: int = 3
    cleanup_policy: str = DELETE
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LAG_MAX
    delete_retention_ms: int = 86_400_000

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether age and size take segments."""
        return DELETE in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Age at which a segment is full: one that grows is not compacted (``LogConfig.maxSegmentMs``)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def looks_into_records(self) -> bool:
        """Whether what is produced may have to be looked into before it is stored."""
        return self.judges_records or self.compression is not None

    @property
    def judges_records(self) -> bool:
        """Whether a batch's header does not say all that it is judged by."""
        return self.is_compacted or (
            self.message_timestamp_before_max_ms != _INT64_MAX
            and self.message_timestamp_type != LOG_APPEND_TIME
        )

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
    "message_timestamp_before_max_ms": (0, _INT64_MAX),
    "message_timestamp_after_max_ms": (0, _INT64_MAX),
    "compression_gzip_level": (-1, 9),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131_072, 22),
    "min_compaction_lag_ms": (0, _INT64_MAX),
    "max_compaction_lag_ms": (1, _INT64_MAX),
    "delete_retention_ms": (0, _INT64_MAX),
}
_PARTS: Final = {"min_cleanable_dirty_ratio"}  # from 0 to 1
_CHOICES: Final = {
    "cleanup_policy": CLEANUP_POLICIES,
    "message_timestamp_type": (CREATE_TIME, LOG_APPEND_TIME),
    "compression_type": (*_COMPRESSIONS, PRODUCERS_COMPRESSION),
}
FIXED: Final = {
    "min.insync.replicas": "1",
    "message.format.version": "3.0-IV1",
    "remote.storage.enable": "false",
}
NAMES: Final = tuple(field.name.replace("_", ".") for field in fields(LogConfig))


@dataclass(frozen=True, slots=True)
class BadConfig:
    """A setting was refused."""

    name: str
    reason: str


def parse_config(settings: Mapping[str, str | None], base: LogConfig) -> LogConfig | BadConfig:
    """``base`` with ``settings`` by Kafka's names on top of it; ``None`` keeps the base's value."""
    changes: dict[str, int | float | str] = {}
    for name, text in settings.items():
        if text is None:
            continue
        if name in FIXED:
            if text != FIXED[name]:
                return BadConfig(name, f"only {FIXED[name]!r} is supported, not {text!r}")
            continue
        if name in KEPT:
            wrong = KEPT[name].refusal(text)
            if wrong is not None:
                return BadConfig(name, wrong)
            continue
        if name not in NAMES:
            return BadConfig(name, "unknown or not supported")
        value = _parse(name, text)
        if isinstance(value, BadConfig):
            return value
        changes[name.replace(".", "_")] = value
    config = replace(base, **changes)  # type: ignore[arg-type]
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        lags = f"{config.min_compaction_lag_ms} and {config.max_compaction_lag_ms}"
        return BadConfig("min.compaction.lag.ms", f"is more than max.compaction.lag.ms: {lags}")
    return config


def _parse(name: str, text: str) -> int | float | str | BadConfig:
    field_name = name.replace(".", "_")
    if field_name in _CHOICES:
        choice = text.replace(" ", "") if field_name == "cleanup_policy" else text  # a list
        if choice not in _CHOICES[field_name]:
            return BadConfig(name, f"must be {' or '.join(_CHOICES[field_name])}, not {text!r}")
        return choice
    if field_name in _PARTS:
        try:
            part = float(text)
        except ValueError:
            return BadConfig(name, f"{text!r} is not a number")
        return part if 0 <= part <= 1 else BadConfig(name, f"{part} is not within 0 to 1")
    low, high = _BOUNDS[field_name]
    try:
        value = int(text)
    except ValueError:
        return BadConfig(name, f"{text!r} is not a whole number")
    if not low <= value <= high or (field_name == "compression_gzip_level" and not value):
        return BadConfig(name, f"{value} is not within {low} to {high}")
    return value


def describe_config(config: LogConfig, settings: Mapping[str, str]) -> dict[str, str]:
    """Every setting by Kafka's name, as text; ``settings`` are those that were set."""
    shown = {field.name.replace("_", "."): str(getattr(config, field.name)) for field in fields(LogConfig)}
    kept = {name: settings.get(name, one.default) for name, one in KEPT.items()}
    return FIXED | kept | shown
