"""Sink rows: the columns of Spark's Kafka sink, and the output partition of every row.

The partition is a function of the row's key, or of (writer, row number) for rows without one, over the count
that the run's BEGIN has saved: every attempt of every run puts a row into the same partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.record.columnar import partition_rows
from semel.record.partitioner import murmur2

NULL_KEY_RUN_ROWS: Final = 1024  # rows without a key change the partition after so many: fuller batches
_TYPES: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one output partition, in order."""

    keys: Any  # pa.Array of binary, or None
    values: Any
    headers: Any
    timestamps: Any

    def __len__(self) -> int:
        return len(self.values)

    def drop(self, count: int) -> Rows:
        """Without the first ``count``."""
        return Rows(*(None if column is None else column[count:] for column in self._columns()))

    def first(self, count: int) -> Rows:
        """The first ``count``."""
        return Rows(*(None if column is None else column[:count] for column in self._columns()))

    def take(self, indices: Any) -> Rows:
        """The rows at ``indices``."""
        return Rows(*(None if column is None else column.take(indices) for column in self._columns()))

    def _columns(self) -> tuple[Any, Any, Any, Any]:
        return self.keys, self.values, self.headers, self.timestamps


def check_columns(schema: Any) -> None:
    """``ConfigError`` for a frame that the sink cannot write."""
    found = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    if "value" not in found:
        raise ConfigError(f"the sink needs a column 'value'; the frame has {', '.join(found) or 'none'}")
    if "topic" in found:
        raise ConfigError("a topic column is not supported yet: use the option topic, and drop the column")
    for name, type_name in found.items():
        if name not in _TYPES:
            raise ConfigError(f"column {name!r} means nothing to the sink: it takes {', '.join(_TYPES)}")
        if type_name.split("<")[0] not in _TYPES[name]:
            raise ConfigError(f"column {name!r} is {type_name}, and has to be {' or '.join(_TYPES[name])}")


def rows_of(batch: pa.RecordBatch) -> tuple[Rows, Any]:
    """The rows of one of Spark's batches, and their explicit partitions (or ``None``)."""
    columns = {name.lower(): batch.column(index) for index, name in enumerate(batch.schema.names)}
    timestamps = columns.get("timestamp")
    rows = Rows(_binary(columns.get("key")), _binary(columns["value"]), columns.get("headers"), timestamps)
    return rows, columns.get("partition")


def spread(
    rows: Rows, explicit: Any, writer: str, first_row: int, partition_count: int
) -> Iterator[tuple[int, Rows]]:
    """The rows by output partition; ``first_row`` is the number of the first one among the writer's rows."""
    if partition_count == 1 and explicit is None:
        yield 0, rows
        return
    target = _by_row_number(len(rows), writer, first_row, partition_count)
    if rows.keys is not None and rows.keys.null_count < len(rows):
        by_key = partition_rows(rows.keys, partition_count)
        target = (
            by_key if not rows.keys.null_count else np.where(np.asarray(rows.keys.is_null()), target, by_key)
        )
    if explicit is not None:
        named = np.asarray(explicit.fill_null(-1))
        target = np.where(named >= 0, named, target)
        if len(named) and int(named.max()) >= partition_count:
            raise ConfigError(
                f"column partition names {int(named.max())}, and the topic has {partition_count}"
            )
    for partition in np.unique(target):
        yield int(partition), rows.take(pa.array(np.flatnonzero(target == partition)))


def _by_row_number(count: int, writer: str, first_row: int, partition_count: int) -> Any:
    start = murmur2(writer.encode()) & 0x7FFFFFFF
    numbers = np.arange(first_row, first_row + count, dtype=np.int64)
    return (numbers // NULL_KEY_RUN_ROWS + start) % partition_count


def _binary(column: Any) -> Any:
    return column if column is None or pa.types.is_binary(column.type) else pc.cast(column, pa.binary())
