"""Sink rows: the columns of Spark's Kafka sink, and the topic and output partition of every row.

The partition is a function of the row's key, or of (writer, row number) for rows without one, over the count
that the run's BEGIN has saved: every attempt of every run puts a row into the same partition.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.sink.digest import order_free_hash
from semel.core.sink.routing import Routing
from semel.errors import ConfigError
from semel.record.columnar import partition_rows
from semel.record.partitioner import murmur2

NULL_KEY_RUN_ROWS: Final = 1024  # rows without a key change the partition after so many: fuller batches
ROW_NUMBER: Final = (
    "row number"  # a column of a flow's batches; of a user's frame it is refused, as all unknown ones are
)
PARTITIONER: Final = f"murmur2/{NULL_KEY_RUN_ROWS}"
_PLACED_BY: Final = ("key", "partition")
_TYPES: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
# The source gives these too, so that a frame can go from source to sink as it is: they say where a row was.
_UNUSED: Final = {"offset": ("bigint",), "timestamptype": ("int",)}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one output partition, in order."""

    keys: Any  # pa.Array of binary, or None
    values: Any
    headers: Any
    timestamps: Any

    def __len__(self) -> int:
        return len(self.values)

    def times(self, now_ms: int) -> Any:
        """What they are written with: their own, and ``now_ms`` where they have none."""
        if self.timestamps is None or not self.timestamps.null_count:
            return now_ms if self.timestamps is None else self.timestamps
        now = pa.scalar(now_ms, pa.timestamp("ms")).cast(self.timestamps.type)
        return self.timestamps.fill_null(now)

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


@dataclass(frozen=True, slots=True)
class Incoming:
    """One of Spark's batches, or those of its rows that go to one topic."""

    rows: Rows
    numbers: Any  # of each row: among all rows of its writer, or its own
    partitions: Any = None  # as the frame names them, or None
    topics: Any = None

    def order_free_hash(self, option: str | None) -> int:
        """Of the rows and their topics, as a named write is known by."""
        return sum(
            order_free_hash(topic, part.rows.keys, part.rows.values, part.rows.headers)
            for topic, part in self.by_topic(option)
        )

    def take(self, at: Any) -> Incoming:
        """Those at these places."""
        indices = pa.array(at, pa.int64())
        partitions = None if self.partitions is None else self.partitions.take(indices)
        topics = None if self.topics is None else self.topics.take(indices)
        return Incoming(self.rows.take(indices), self.numbers[np.asarray(at)], partitions, topics)

    def by_topic(self, option: str | None) -> Iterator[tuple[str, Incoming]]:
        """The option's topic for all rows, or each row's own."""
        if option is not None:
            yield option, self
            return
        assert self.topics is not None
        if self.topics.null_count:
            raise ConfigError(
                "column topic is null in a row, and there is no option topic; deadLetterTopic keeps such rows"
            )
        names = pc.unique(self.topics).to_pylist()
        if len(names) == 1:
            yield names[0], self
            return
        for name in names:
            at = pc.indices_nonzero(pc.equal(self.topics, name))
            partitions = None if self.partitions is None else self.partitions.take(at)
            yield name, Incoming(self.rows.take(at), self.numbers[np.asarray(at)], partitions)


def check_columns(schema: Any, *, has_topic: bool) -> None:
    """``ConfigError`` for a frame that the sink cannot write; ``has_topic``: the option is given."""
    found = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    if "value" not in found:
        raise ConfigError(f"the sink needs a column 'value'; the frame has {', '.join(found) or 'none'}")
    if "topic" not in found and not has_topic:
        raise ConfigError("the sink needs to know where to: give the option topic, or a column 'topic'")
    known = _TYPES | _UNUSED
    for name, type_name in found.items():
        if name not in known:
            near = difflib.get_close_matches(name, _TYPES, n=1)
            raise ConfigError(
                f"column {name!r} means nothing to the sink"
                + (f"; did you mean {near[0]}?" if near else f": it takes {', '.join(_TYPES)}")
            )
        if type_name.split("<")[0] not in known[name]:
            raise ConfigError(f"column {name!r} is {type_name}, and has to be {' or '.join(known[name])}")


def routing_of(schema: Any, topic: str | None, letters: str = "") -> Routing:
    """Where the rows of a frame go; ``topic`` is the option's, and ``letters`` says which rows are dead letters."""
    found = {field.name.lower() for field in schema.fields}
    return Routing(topic, tuple(name for name in _PLACED_BY if name in found), PARTITIONER + letters)


def has_timestamps(batch: pa.RecordBatch) -> bool:
    """Whether its rows bring their own times."""
    return any(name.lower() == "timestamp" for name in batch.schema.names)


def has_numbers(batch: pa.RecordBatch) -> bool:
    """Whether its rows bring their own numbers: those of a flow do, which count what they were made of."""
    return ROW_NUMBER in batch.schema.names


def rows_of(batch: pa.RecordBatch, first_row: int) -> Incoming:
    """The rows of one of Spark's batches; ``first_row`` is the number of the first among the writer's."""
    columns = {name.lower(): batch.column(index) for index, name in enumerate(batch.schema.names)}
    rows = Rows(
        _binary(columns.get("key")),
        _binary(columns["value"]),
        columns.get("headers"),
        columns.get("timestamp"),
    )
    if has_numbers(batch):
        numbers = np.asarray(columns[ROW_NUMBER])
    else:
        numbers = np.arange(first_row, first_row + len(rows), dtype=np.int64)
    return Incoming(rows, numbers, columns.get("partition"), columns.get("topic"))


def spread(incoming: Incoming, writer: str, partition_count: int) -> Iterator[tuple[int, Rows]]:
    """The rows of one topic by output partition."""
    rows, explicit = incoming.rows, incoming.partitions
    if partition_count == 1 and explicit is None:
        yield 0, rows
        return
    has_keys = rows.keys is not None and rows.keys.null_count < len(rows)
    target = partition_rows(rows.keys, partition_count) if has_keys else None
    if target is None:
        target = _by_row_number(incoming.numbers, writer, partition_count)
    elif rows.keys.null_count:
        by_number = _by_row_number(incoming.numbers, writer, partition_count)
        target = np.where(np.asarray(rows.keys.is_null()), by_number, target)
    if explicit is not None:
        named = np.asarray(explicit.fill_null(-1))
        target = np.where(named >= 0, named, target)
        if len(named) and int(named.max()) >= partition_count:
            raise ConfigError(
                f"column partition names {int(named.max())}, and the topic has {partition_count}"
            )
    counts = np.bincount(target, minlength=partition_count)
    order = np.argsort(target, kind="stable")  # one sort for all partitions; rows stay in order in each
    end = 0
    for partition in np.flatnonzero(counts):
        start, end = end, end + int(counts[partition])
        whole = start == 0 and end == len(order)
        yield int(partition), rows if whole else rows.take(pa.array(order[start:end]))


def _by_row_number(numbers: Any, writer: str, partition_count: int) -> Any:
    start = murmur2(writer.encode()) & 0x7FFFFFFF
    return (numbers // NULL_KEY_RUN_ROWS + start) % partition_count


def _binary(column: Any) -> Any:
    return column if column is None or pa.types.is_binary(column.type) else pc.cast(column, pa.binary())
