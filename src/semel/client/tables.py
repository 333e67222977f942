"""Arrow tables as batches to send: partitions, cuts and encoding by column, never row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from semel.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS_MAX: Final = 40_000
_COLUMNS: Final = ("key", "value", "timestamp", "headers")


def chunks_of(table: pa.Table) -> Iterator[pa.Table]:
    """The table in pieces, columns checked before the first."""
    if "value" not in table.column_names or not set(table.column_names) <= set(_COLUMNS):
        raise ConfigError(
            f"a table to send has columns value, key, timestamp, headers; not {table.column_names}"
        )
    for first in range(0, table.num_rows, CHUNK_ROWS_MAX):
        yield table.slice(first, CHUNK_ROWS_MAX)


def partitions_of(chunk: pa.Table, partition_count: int, rows_before: int, rows_a_turn: int) -> Any:
    """The partition of each row: by key, and by turns where there is none. A numpy array."""
    import numpy as np

    from semel.record.columnar import partition_rows

    turns = (rows_before + np.arange(chunk.num_rows, dtype=np.int64)) // rows_a_turn % partition_count
    if "key" not in chunk.column_names:
        return turns
    by_key = partition_rows(chunk["key"], partition_count)
    return np.where(by_key < 0, turns, by_key)


def encode_rows(chunk: pa.Table, rows: Any, **options: Any) -> list[bytearray]:
    """The rows at these indexes, encoded in order."""
    from semel.record.columnar import encode_columns

    part = chunk.take(rows)
    named = {name: part[name] for name in part.column_names}
    stamps = named["timestamp"] if "timestamp" in named else options.pop("now_ms")
    options.pop("now_ms", None)
    return encode_columns(named.get("key"), named["value"], stamps, named.get("headers"), **options)
