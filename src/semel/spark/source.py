"""The source: batch and streaming readers with the options and columns of Spark's Kafka connector.

The stream reader lives in one driver process for the query's life and keeps the target of AvailableNow and
the latest offsets it has seen; ``read`` runs in tasks, on a pickled copy without a connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from semel.errors import ConfigError
from semel.record.columnar import decode_table
from semel.spark.connections import connect
from semel.spark.notes import leave_note
from semel.spark.offsets import EARLIEST, LATEST, Offsets, from_json, to_json
from semel.spark.options import Position, SourceOptions
from semel.spark.planning import ReadRange, limit, losses, split
from semel.spark.reading import data_loss, read_range
from semel.spark.sink_log import decided_ends
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"


def columns_of(options: Mapping[str, str]) -> str:
    """The connector's columns; they depend on ``includeHeaders`` alone, whatever else is given."""
    wanted = {name.lower(): value for name, value in options.items()}.get("includeheaders", "false")
    return COLUMNS + (f", {HEADERS_COLUMN}" if wanted.strip().lower() == "true" else "")


class RangePartition(InputPartition):
    """One Spark partition of the source."""

    def __init__(self, value: ReadRange) -> None:
        super().__init__(value)


class SourceOffsets:
    """What the log has: the chosen partitions, and offsets of positions in them."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[TopicPartition]:
        """The partitions that the query reads, as of now."""
        if self.options.assign:
            return list(self.options.assign)
        cluster = connect(self.options.connection)
        if self.options.subscribe:
            metadata = cluster.metadata(list(self.options.subscribe))
            missing = [
                name
                for name in self.options.subscribe
                if name not in metadata.topics or metadata.topics[name].error_code
            ]
            if missing:
                raise ConfigError(f"there is no topic {', '.join(missing)}")
            names: Iterable[str] = self.options.subscribe
        else:
            assert self.options.subscribe_pattern is not None
            metadata = cluster.metadata()
            names = [
                name
                for name, topic in metadata.topics.items()
                if self.options.subscribe_pattern.fullmatch(name) and not topic.is_internal
            ]
        return sorted(
            TopicPartition(name, number) for name in names for number in metadata.topics[name].partitions
        )

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Log start offsets."""
        return self._listed(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where a reader of this isolation level stops: the high watermark or the last stable offset."""
        return self._listed(dict.fromkeys(partitions, LATEST_TIMESTAMP))

    def resolve(self, position: Position, partitions: Sequence[TopicPartition], *, is_start: bool) -> Offsets:
        """Offsets of ``position`` in ``partitions``."""
        if position.sink_id is not None:
            ends = decided_ends(self.options.connection, position.sink_id)
            known = {tp: ends[tp] for tp in partitions if tp in ends}
            return self.earliest([tp for tp in partitions if tp not in ends]) | known
        if position.timestamp_ms is not None:
            return self._at(dict.fromkeys(partitions, position.timestamp_ms), is_start)
        if position.timestamps_ms is not None:
            return self._at(_for_each(position.timestamps_ms, partitions, "timestamps"), is_start)
        if position.offsets is None:
            return self.earliest(partitions) if position.default == EARLIEST else self.latest(partitions)
        named = _for_each(position.offsets, partitions, "offsets")
        return (
            {tp: offset for tp, offset in named.items() if offset >= 0}
            | self.earliest([tp for tp, offset in named.items() if offset == EARLIEST])
            | self.latest([tp for tp, offset in named.items() if offset == LATEST])
        )

    def _at(self, timestamps_ms: Offsets, is_start: bool) -> Offsets:
        found = self._listed(timestamps_ms)
        beyond = sorted(tp for tp, offset in found.items() if offset < 0)
        if beyond and is_start and self.options.no_timestamp_match_is_error:
            raise ConfigError(
                f"no record of {', '.join(map(str, beyond))} is at or after the starting timestamp; "
                f"startingOffsetsByTimestampStrategy=latest would start at the end there"
            )
        return found | self.latest(beyond)

    def _listed(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        if not timestamps_ms:
            return {}
        cluster = connect(self.options.connection)
        answer = cluster.list_offsets(dict(timestamps_ms), isolation=self.options.isolation)
        return {tp: listed.offset for tp, listed in answer.items()}


class RangeReading:
    """What batch and stream tasks share: a range as Arrow batches."""

    options: SourceOptions

    def batches(self, partition: ReadRange) -> Iterator[pa.RecordBatch]:
        """The rows of ``partition``, in offset order."""
        source = partition.source_range.source
        fetches = read_range(
            connect(self.options.connection),
            source,
            partition.read_from,
            partition.read_end,
            isolation=self.options.isolation,
            partition_bytes_max=self.options.partition_fetch_bytes_max,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        for batches in fetches:
            table = decode_table(
                (batch for batch, _ in batches),
                topic=source.topic,
                partition=source.partition,
                from_offset=partition.read_from,
                end_offset=partition.read_end,
                include_headers=self.options.include_headers,
            )
            yield from table.to_batches()


class SemelReader(RangeReading, DataSourceReader):
    """``spark.read.format("semel")``."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges from the starting to the ending position."""
        offsets = SourceOffsets(self.options)
        partitions = offsets.partitions()
        start = offsets.resolve(self.options.start, partitions, is_start=True)
        end = offsets.resolve(self.options.end, partitions, is_start=False)
        start = _without_lost(offsets, start, self.options.fail_on_data_loss)
        return [RangePartition(piece) for piece in split(start, end, self.options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task."""
        return self.batches(partition.value)


class SemelStreamReader(RangeReading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("semel")``; a stream offset is the next offset of every partition."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._available_now: Offsets | None = None
        self._latest: Offsets = {}

    def initialOffset(self) -> dict[str, Any]:
        """The starting position; asked for once in a checkpoint's life."""
        offsets = SourceOffsets(self.options)
        return to_json(offsets.resolve(self.options.start, offsets.partitions(), is_start=True))

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``."""
        rows_max = self.options.offsets_per_trigger_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the target: what is there now."""
        offsets = SourceOffsets(self.options)
        self._available_now = offsets.latest(offsets.partitions())

    def latestOffset(self, start: dict[str, Any], limit_: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; partitions that came since start at their earliest offset."""
        offsets = SourceOffsets(self.options)
        begun = from_json(start)
        if self._available_now is not None:
            target = begun | {tp: max(end, begun.get(tp, 0)) for tp, end in self._available_now.items()}
            self._latest = dict(target)
        else:
            self._latest = offsets.latest(offsets.partitions())
            target = begun | self._latest
        begun |= offsets.earliest([tp for tp in target if tp not in begun])
        rows_max = limit_.max_rows if isinstance(limit_, ReadMaxRows) else None
        return to_json(limit(begun, target, rows_max))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress beside the end offset: the difference is the lag."""
        return to_json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a micro-batch; also called for one that is replayed after a restart."""
        offsets = SourceOffsets(self.options)
        begun, ends = from_json(start), from_json(end)
        begun |= offsets.earliest([tp for tp in ends if tp not in begun])
        begun = _without_lost(offsets, {tp: begun[tp] for tp in ends}, self.options.fail_on_data_loss)
        return [RangePartition(piece) for piece in split(begun, ends, self.options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task; first it tells a semel sink of the same task what it reads."""
        leave_note(partition.value.source_range)
        return self.batches(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark's checkpoint keeps the position."""


def _without_lost(offsets: SourceOffsets, start: Offsets, fail_on_data_loss: bool) -> Offsets:
    lost = losses(start, offsets.earliest(start), offsets.latest(start))
    for loss in lost:
        if fail_on_data_loss:
            raise data_loss(loss.source, loss.lost_from, loss.lost_end)
    return start | {loss.source: loss.lost_end for loss in lost if loss.lost_end > start[loss.source]}


def _for_each(named: Offsets, partitions: Sequence[TopicPartition], what: str) -> Offsets:
    """One value for each partition; exactly the query's partitions have to be named, as in the connector."""
    found = {}
    for tp in partitions:
        value = named.get(tp, named.get(TopicPartition(tp.topic, -1)))
        if value is None:
            raise ConfigError(f"the given {what} lack {tp}: each partition of the query has to be there")
        found[tp] = value
    strangers = sorted(tp for tp in named if tp.partition >= 0 and tp not in found)
    if strangers:
        raise ConfigError(
            f"the given {what} name {', '.join(map(str, strangers))}, which the query does not read"
        )
    return found
