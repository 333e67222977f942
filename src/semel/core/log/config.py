"""A topic's settings: Kafka's names, defaults and bounds (``TopicConfig``, ``LogConfig``).

Only what semel really does is listed. A setting that is not here is refused, never ignored, except for
those in :data:`FIXED`, which may be given with the one value that is true anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

UNLIMITED: Final = -1
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


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


_BOUNDS: Final = {
    "segment_bytes": (1024, _INT32_MAX),
    "segment_ms": (1, _INT64_MAX),
    "retention_bytes": (UNLIMITED, _INT64_MAX),
    "retention_ms": (UNLIMITED, _INT64_MAX),
    "index_interval_bytes": (0, _INT32_MAX),
    "max_message_bytes": (0, _INT32_MAX),
    "message_timestamp_after_max_ms": (0, _INT64_MAX),
}
FIXED: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
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
        if field_name == "message_timestamp_type":
            if text not in {CREATE_TIME, LOG_APPEND_TIME}:
                return BadConfig(name, f"must be {CREATE_TIME} or {LOG_APPEND_TIME}, not {text!r}")
            changes[field_name] = text
            continue
        low, high = _BOUNDS[field_name]
        try:
            value = int(text)
        except ValueError:
            return BadConfig(name, f"{text!r} is not a whole number")
        if not low <= value <= high:
            return BadConfig(name, f"{value} is not within {low} to {high}")
        changes[field_name] = value
    return replace(base, **changes)  # type: ignore[arg-type]


def describe_config(config: LogConfig) -> dict[str, str]:
    """Every setting by Kafka's name, as text."""
    shown = {field.name.replace("_", "."): str(getattr(config, field.name)) for field in fields(LogConfig)}
    return FIXED | shown
