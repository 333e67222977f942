"""The source: batch and streaming readers with the options and columns of Spark's Kafka connector.

The stream reader lives in one driver process for the query's life; ``read`` runs in tasks, on a pickled copy without
a connection. What is read is decided in :mod:`semel.spark.stream_ranges` and :mod:`semel.spark.source_offsets`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from semel.errors import BrokerError, ConfigError, ConnectionLost
from semel.spark.in_worker import in_worker
from semel.spark.notes import leave_note
from semel.spark.offsets import from_json
from semel.spark.options import SourceOptions
from semel.spark.planning import ReadRange
from semel.spark.process import connect
from semel.spark.source_offsets import SourceOffsets, planned_ranges
from semel.spark.stream_ranges import StreamRanges, tables
from semel.spark.worker_heap import freeze_heap

_LOG: Final = logging.getLogger("semel.spark")

COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS_COLUMN: Final = {"headers": "array<struct<key:string,value:binary>>"}


def columns_of(options: Mapping[str, str]) -> dict[str, str]:
    """The connector's columns; they depend on ``includeHeaders`` alone, whatever else is given."""
    wanted = {name.lower(): value for name, value in options.items()}.get("includeheaders", "false")
    return COLUMNS | (HEADERS_COLUMN if wanted.strip().lower() == "true" else {})


def chosen_columns(schema: StructType, options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a frame: all, or those of the schema that the user gave, which are fewer to carry."""
    known = columns_of(options)
    for field in schema.fields:
        type_name = field.dataType.simpleString()
        if known.get(field.name) != type_name:
            raise ConfigError(
                f"the source has no column {field.name!r} of type {type_name}; its columns are "
                + ", ".join(f"{name} {of_type}" for name, of_type in known.items())
            )
    return tuple(field.name for field in schema.fields)


class RangePartition(InputPartition):
    """One Spark partition of the source."""

    def __init__(self, value: ReadRange) -> None:
        super().__init__(value)


class RangeReading:
    """What batch and stream tasks share: a range as Arrow batches."""

    options: SourceOptions
    columns: tuple[str, ...]

    def batches(self, partition: ReadRange | None) -> Iterator[pa.RecordBatch]:
        """The rows of ``partition``, in offset order.

        ``None`` has no rows: of a read without a range Spark makes one partition, because it wants a task.
        """
        for table in () if partition is None else tables(self.options, partition):
            yield from table.select(self.columns).to_batches()
        freeze_heap()


class SemelReader(RangeReading, DataSourceReader):
    """``spark.read.format("semel")``."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns

    @in_worker
    def partitions(self) -> Sequence[InputPartition]:
        """Ranges from the starting to the ending position."""
        offsets = SourceOffsets(self.options)
        partitions = offsets.partitions()
        end_ids = offsets.topic_ids
        start, start_ids, start_epochs = offsets.start(partitions)
        end = offsets.resolve(self.options.end, partitions, is_start=False)
        planned = planned_ranges(offsets, start, end, start_ids, end_ids, start_epochs, offsets.leader_epochs)
        return [RangePartition(piece) for piece in planned]

    @in_worker
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task."""
        yield from self.batches(partition.value)


class SemelStreamReader(RangeReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("semel")``; a stream offset is the next offset of every partition."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns
        self._stream = StreamRanges(options)

    @in_worker
    def initialOffset(self) -> dict[str, Any]:
        """The starting position; asked for once in a checkpoint's life."""
        return self._stream.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark hands it back, or ``ReadAllAvailable`` when the trigger wants all."""
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.offsets_per_trigger_min is not None:
            return ReadMinRows(self.options.offsets_per_trigger_min)
        return ReadAllAvailable()

    @in_worker
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the target: what is there now."""
        self._stream.fix_target()

    @in_worker
    def latestOffset(self, start: dict[str, Any], limit_: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch."""
        rows_min = None if isinstance(limit_, ReadAllAvailable) else self.options.offsets_per_trigger_min
        rows_max = limit_.max_rows if isinstance(limit_, ReadMaxRows) else None
        return self._stream.next_end(start, rows_max, rows_min)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress beside the end offset: the difference is the lag."""
        return self._stream.latest()

    @in_worker
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a micro-batch; also called for one that is replayed after a restart."""
        return [RangePartition(piece) for piece in self._stream.ranges(start, end)]

    @in_worker
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task; first it tells a semel sink of the same task what it reads."""
        if partition.value is not None:
            leave_note(partition.value.source_range)
        yield from self.batches(partition.value)

    @in_worker
    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint keeps the position; ``commitGroup`` is told it, for those who watch the lag."""
        if self.options.commit_group is None:
            return
        try:
            connect(self.options.connection).commit_offsets(
                self.options.commit_group, {tp: (offset, None) for tp, offset in from_json(end).items()}
            )
        except (BrokerError, ConnectionLost) as failed:  # no reason to stop a query that goes well
            _LOG.warning("group %s was not told: %s", self.options.commit_group, failed)
