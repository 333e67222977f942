"""What of a source's batch is copied: it as it is, or some of its rows in new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.copy.clean import Cleaner, WithoutLineage
from semel.core.copy.spans import Spans, row_count, spans_of
from semel.core.flow.lineage import LINEAGE_HEADER
from semel.errors import ConfigError, CorruptRecordBatch
from semel.record.batch import BatchHeader, TimestampType, decode_records, scan_batches
from semel.record.columnar import decode_table, encode_columns
from semel.record.where import ConditionFailed, Select
from semel.types import TopicPartition

# Of a partition's batch, from an offset on, the offsets of the rows that are to be copied.
Choose: TypeAlias = Callable[[TopicPartition, memoryview, int], list[int]]


@dataclass(frozen=True, slots=True)
class Ready:
    """One batch to be sent, but for its producer: ``spans`` are where its rows stand at the source."""

    batch: memoryview | bytearray
    spans: Spans
    newest_ms: int  # the newest of its rows' timestamps

    @property
    def rows(self) -> int:
        return row_count(self.spans)


def ready_batches(
    source: TopicPartition,
    batch: memoryview,
    header: BatchHeader,
    from_offset: int,
    choose: Choose | None = None,
) -> list[Ready]:
    """A batch of the source from ``from_offset`` on: as it is, or its rows in new ones where that cannot be.

    That is where rows are missing (it was begun before, or compacted, or ``choose`` does not take them all), and
    where the log set the time: a producer may not send that, so the time that it set becomes the rows' own.
    """
    if header.is_control or header.last_offset < from_offset:
        return []
    chosen = None if choose is None else choose(source, batch, from_offset)
    if chosen is not None and not chosen:
        return []
    as_it_is = (
        header.is_dense
        and header.base_offset >= from_offset
        and header.timestamp_type is TimestampType.CREATE_TIME
        and not header.has_delete_horizon
        and (chosen is None or len(chosen) == header.record_count)
    )
    if as_it_is:
        return [Ready(batch, ((header.base_offset, header.last_offset + 1),), header.max_timestamp)]
    table = _rows_of(source, batch, from_offset, raw_header_keys=True)
    if chosen is not None:
        table = table.filter(pc.is_in(table.column("offset"), pa.array(chosen, pa.int64())))
    if not table.num_rows:
        return []
    columns = {
        name: table.column(name).combine_chunks() for name in ("key", "value", "timestamp_ms", "headers")
    }
    made = encode_columns(
        columns["key"],
        columns["value"],
        columns["timestamp_ms"],
        columns["headers"],
        compression=header.compression,
    )
    offsets = np.asarray(table.column("offset"))
    ready, at = [], 0
    for each in made:
        ((_, new),) = scan_batches(each, check_crc=False)
        ready.append(Ready(each, spans_of(offsets[at : at + new.record_count]), new.max_timestamp))
        at += new.record_count
    if at != table.num_rows:
        raise CorruptRecordBatch(f"{source}: {table.num_rows} rows became {at}")
    return ready


def _rows_of(
    source: TopicPartition, batch: memoryview, from_offset: int, *, raw_header_keys: bool = False
) -> pa.Table:
    """With the times as they are: there are some that a column of microseconds cannot hold."""
    return decode_table(
        [batch],
        topic=source.topic,
        partition=source.partition,
        from_offset=from_offset,
        include_headers=True,
        include_timestamp_ms=True,
        raw_header_keys=raw_header_keys,
    ).combine_chunks()


def choose_where(select: Select, source: TopicPartition, batch: memoryview, from_offset: int) -> list[int]:
    """Those that a condition holds for."""
    rows = [row for row in decode_records(batch) if row.offset >= from_offset]
    try:
        return [row.offset for row in select(source.partition, rows)]
    except ConditionFailed as error:
        raise ConfigError(
            f"{source} offset {error.offset}: --where cannot be judged on this row: {error.why}. Nothing of it and "
            f"behind it is copied, and nothing is lost. Start the job again with a condition that can be judged on "
            f'every row: "json_valid(value) AND …" passes over what is no JSON'
        ) from None


def choose_clean(cleaner: Cleaner, source: TopicPartition, batch: memoryview, from_offset: int) -> list[int]:
    """Those that a doubling writer has not written before."""
    table = _rows_of(source, batch, from_offset)
    if not table.num_rows:
        return []
    taken = cleaner.take(np.asarray(table.column("offset")), table.column("headers").combine_chunks())
    if isinstance(taken, WithoutLineage):
        raise ConfigError(
            f"{source} offset {taken.offset}: the row has no header {LINEAGE_HEADER!r} that says which row it came of, "
            f"so nobody knows whether it is there already. Nothing of it and behind it is copied, and nothing is lost. "
            f"Its writer is to add the header (semel.spark.lineage). Rows from before it did come with a copy without "
            f"--clean; trim them, or begin behind them with --start latest and a job of another name"
        )
    return taken
