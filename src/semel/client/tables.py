"""Arrow tables as batches to send: partitions, cuts and encoding by column, never row by row.

A table is cut into chunks, a chunk into one run of rows a partition, a run into batches. Chunks are as large as
gives every partition about two full batches: what is done once a batch then costs little a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from semel.client.delivery import Promise, error_of, fates_within, settled_fate
from semel.core.client.fate import Fate, Parts, Stored
from semel.errors import ConfigError
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_BATCH_BYTES: Final = 1_000_000  # below Kafka's max.message.bytes, unless batch_bytes asks for more
_BATCHES_A_PARTITION: Final = 2
_CHUNK_BYTES_MAX: Final = 32 * 1024 * 1024
_ROW_OVERHEAD_BYTES: Final = 40
_COLUMNS: Final = ("key", "value", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class StoredRange:
    """Rows of a table that lie together: ``row_count`` of them from ``base_offset`` on.

    ``base_offset`` is None when the log said only *that* they are stored (a duplicate's answer).
    """

    topic: str
    partition: int
    base_offset: int | None
    row_count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


class TableDelivery:
    """A table on its way. Blocking code calls ``result()``, async code awaits it."""

    def __init__(self, row_count: int) -> None:
        self.row_count = row_count
        self.already_stored = 0  # rows that an earlier run had stored; nothing was sent of them
        self._promises: list[Promise] = []
        self._record_counts: list[int] = []  # of the batch that each is about

    @property
    def rows_taken(self) -> int:
        """Rows that are in the buffer or in the log: all of them, once the table was taken to its end."""
        return self.already_stored + sum(self._record_counts)

    def done(self) -> bool:
        return all(promise.fate.done() for promise in self._promises)

    def result(self, timeout: float | None = None) -> list[StoredRange]:
        """Wait until all rows are stored: where, partition by partition.

        Raises NotStored or CannotKnow (fenced: ProducerFenced, too) for the first rows that failed, and TimeoutError
        after ``timeout`` seconds; the rows stay on their way.
        """
        return self._ranges(fates_within(self._promises, timeout))

    def __await__(self) -> Generator[Any, None, list[StoredRange]]:
        return self._wait().__await__()

    async def _wait(self) -> list[StoredRange]:
        return self._ranges(await asyncio.gather(*map(settled_fate, self._promises)))

    def took(self, promise: Promise, record_count: int) -> None:
        """One more batch is in the buffer."""
        self._promises.append(promise)
        self._record_counts.append(record_count)

    def _ranges(self, fates: list[Fate]) -> list[StoredRange]:
        found: list[StoredRange] = []
        for promise, record_count, fate in zip(self._promises, self._record_counts, fates, strict=True):
            parts = fate.parts if isinstance(fate, Parts) else ((0, fate),)
            ends = [*(first for first, _ in parts[1:]), record_count]
            for (first, part), end in zip(parts, ends, strict=True):
                if not isinstance(part, Stored):
                    for each in self._promises:
                        each.told = True
                    raise error_of(part, f"a part of the table, for {promise.tp},")
                found.append(_range_of(promise.tp, part, end - first))
        found.sort(key=lambda each: (each.topic, each.partition))  # stable: in order within a partition
        return found


def _range_of(tp: TopicPartition, stored: Stored, row_count: int) -> StoredRange:
    grant = stored.grant
    return StoredRange(
        *tp,
        stored.base_offset,
        row_count,
        NO_PRODUCER_ID if grant is None else grant.producer_id,
        NO_PRODUCER_EPOCH if grant is None else grant.producer_epoch,
        stored.base_sequence,
    )


def check_columns(table: pa.Table) -> None:
    """Refuse what could not be sent, before anything is."""
    import pyarrow as pa

    if "value" not in table.column_names or not set(table.column_names) <= set(_COLUMNS):
        raise ConfigError(
            f"a table to send has columns value, key, timestamp, headers; not {table.column_names}"
        )
    for name in {"key", "value"} & set(table.column_names):
        kind = table.schema.field(name).type
        if kind not in (pa.binary(), pa.string(), pa.null()):
            raise ConfigError(f"a table's {name} column is binary or string, not {kind}")


def chunks_of(
    table: pa.Table, partition_count: int, batch_bytes: int, buffer_bytes: int
) -> Iterator[pa.Table]:
    """The table in pieces that the buffer has room for."""
    check_columns(table)
    if not table.num_rows:
        return
    row_bytes = table.nbytes // table.num_rows + _ROW_OVERHEAD_BYTES
    chunk_bytes = min(
        _BATCHES_A_PARTITION * partition_count * max(batch_bytes, TABLE_BATCH_BYTES),
        buffer_bytes // 2,
        _CHUNK_BYTES_MAX,
    )
    chunk_rows = max(1, chunk_bytes // row_bytes)
    for first in range(0, table.num_rows, chunk_rows):
        yield table.slice(first, chunk_rows)


def partitions_of(chunk: pa.Table, partition_count: int, rows_before: int, rows_a_turn: int) -> Any:
    """The partition of each row: by key, and by turns where there is none. A numpy array."""
    import numpy as np

    from semel.record.columnar import partition_rows

    turns = (rows_before + np.arange(chunk.num_rows, dtype=np.int64)) // rows_a_turn % partition_count
    if "key" not in chunk.column_names:
        return turns
    by_key = partition_rows(chunk["key"], partition_count)
    return np.where(by_key < 0, turns, by_key)


def encode_rows(
    chunk: pa.Table, rows: Any, *, now_ms: int, compression: Compression, batch_bytes_max: int
) -> list[bytearray]:
    """The rows at these indexes, encoded in order; ``now_ms`` is the time of those that have none."""
    from semel.record.columnar import encode_columns

    part = chunk if len(rows) == chunk.num_rows else chunk.take(rows)
    named = {name: part[name] for name in part.column_names}
    return encode_columns(
        named.get("key"),
        named["value"],
        named.get("timestamp", now_ms),
        named.get("headers"),
        compression=compression,
        batch_bytes_max=batch_bytes_max,
    )


def digest_over(before: Any, chunk: pa.Table) -> Any:
    """A digest (``core.sink.digest``) of the rows of tables, after those of one more chunk."""
    from semel.core.sink.digest import NO_ROWS

    columns = {name: chunk[name] for name in chunk.column_names}
    return (before or NO_ROWS).over(columns.get("key"), columns["value"], columns.get("headers"))


def rows_of(chunk: pa.Table, rows: Any) -> Iterator[Record]:
    """What the rows at these indexes say."""
    part = chunk.take(rows)
    nothing: list[Any] = [None] * part.num_rows
    columns = {name: part[name].to_pylist() for name in part.column_names}
    for key, value, headers in zip(
        columns.get("key", nothing), columns["value"], columns.get("headers", nothing), strict=True
    ):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        yield Record(0, 0, _bytes(key), _bytes(value), pairs)


def _bytes(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
