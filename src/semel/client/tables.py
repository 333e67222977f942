"""An Arrow table as rows to send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semel.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

TableRow = tuple[bytes | None, bytes | None, int | None, tuple[tuple[str, bytes | None], ...]]


def rows_of(table: pa.Table) -> Iterator[TableRow]:
    """(value, key, timestamp in ms, headers) of each row, checked by column before the first."""
    import pyarrow as pa

    unknown = set(table.column_names) - {"key", "value", "timestamp", "headers"}
    if unknown or "value" not in table.column_names:
        raise ConfigError(
            f"a table to send has columns value, key, timestamp, headers; not {table.column_names}"
        )
    for chunk in table.to_batches():
        columns = dict(zip(table.column_names, chunk.columns, strict=True))
        values = columns["value"].cast(pa.binary()).to_pylist()
        nothing: list[None] = [None] * len(values)
        keys = columns["key"].cast(pa.binary()).to_pylist() if "key" in columns else nothing
        stamps = nothing
        if "timestamp" in columns:
            stamps = columns["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        headers = columns["headers"].to_pylist() if "headers" in columns else nothing
        for value, key, stamp, pairs in zip(values, keys, stamps, headers, strict=True):
            yield value, key, stamp, tuple((pair["key"], pair["value"]) for pair in pairs or ())
