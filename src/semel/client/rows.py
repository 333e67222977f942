"""A caller's row as it goes out: bytes, a time and headers, or an error that says what is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from semel.core.client.batch import estimated_bytes
from semel.errors import ConfigError, NotStored
from semel.record.batch import Record

Headers = Sequence[tuple[str, bytes | None]]
TIMESTAMP_MS_MAX: Final = 2**63 // 1_000 - 1  # as microseconds, which tables hold, still 64 bits


def row_of(value: Any, key: Any, timestamp_ms: int | None, headers: Headers, size_bytes_max: int) -> Record:
    """:class:`ConfigError` for what no log could hold, NotStored for a row that is too large."""
    stamp_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    if not isinstance(stamp_ms, int) or not 0 <= stamp_ms <= TIMESTAMP_MS_MAX:
        raise ConfigError(f"timestamp_ms={timestamp_ms!r}: milliseconds since 1970, 0 or above")
    named = tuple(map(_header, headers)) if headers else ()
    row = Record(0, stamp_ms, _as_bytes(key, "key"), _as_bytes(value, "value"), named)
    if estimated_bytes(row) > size_bytes_max:
        raise NotStored(f"a row of {estimated_bytes(row)} bytes is larger than the producer's buffer")
    return row


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, tuple | list) or len(header) != 2:
        raise ConfigError(
            f"headers are pairs (name, value), and {header!r} is none; of a dict, hand over its items()"
        )
    name, content = header
    if not isinstance(name, str):
        raise ConfigError(f"a header's name is a str, not {type(name).__name__}")
    return name, _as_bytes(content, f"header {name!r}")


def _as_bytes(value: Any, what: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise ConfigError(f"a row's {what} is bytes, str or None, not {type(value).__name__}")
