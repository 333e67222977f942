"""Fetched records on their way to the caller: decoded by column at once, made into objects as they are taken.

Decoding everything at once proves that all of it is whole before the consumer's position moves behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_MADE_AT_ONCE: Final = 200  # slicing a table for a single record costs more than making a hundred
Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(NamedTuple):
    """One record. A tuple, because a consumer makes hundreds of thousands of them a second."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int  # 0: the producer's, 1: the log's
    key: bytes | None
    value: bytes | None
    headers: Headers


class BufferedRecords:
    """The records of one partition that were fetched and not yet taken."""

    def __init__(self, tp: TopicPartition, batches: Sequence[memoryview], from_offset: int) -> None:
        from semel.record.columnar import decode_table

        self._tp = tp
        table = decode_table(
            batches,
            topic=tp.topic,
            partition=tp.partition,
            from_offset=from_offset,
            include_headers=True,
            include_timestamp_ms=True,
        )
        self._blocks: list[pa.RecordBatch] = [block for block in table.to_batches() if block.num_rows]
        self._first = 0  # row of the first block that comes next
        self._made: deque[ConsumerRecord] = deque()  # in front of it: made for who takes one by one

    def __bool__(self) -> bool:
        return bool(self._made or self._blocks)

    @property
    def next_offset(self) -> int:
        """The offset of the first record that was not taken."""
        if self._made:
            return self._made[0].offset
        return int(self._blocks[0]["offset"][self._first].as_py())

    def take(self, count: int) -> list[ConsumerRecord]:
        """Up to ``count`` records."""
        if count < _MADE_AT_ONCE and not self._made:
            self._made.extend(self._make(_MADE_AT_ONCE))
        taken = [self._made.popleft() for _ in range(min(count, len(self._made)))]
        return taken + self._make(count - len(taken)) if len(taken) < count else taken

    def _make(self, count: int) -> list[ConsumerRecord]:
        taken: list[ConsumerRecord] = []
        while self._blocks and len(taken) < count:
            block = self._blocks[0]
            part = block.slice(self._first, count - len(taken))
            taken += _records_of(self._tp, part)
            self._first += part.num_rows
            if self._first == block.num_rows:
                del self._blocks[0]
                self._first = 0
        return taken


def _records_of(tp: TopicPartition, block: pa.RecordBatch) -> Iterable[ConsumerRecord]:
    headers = block["headers"]
    fields: Any = zip(
        repeat(tp.topic, block.num_rows),
        repeat(tp.partition),
        block["offset"].to_numpy().tolist(),
        block["timestamp_ms"].to_numpy().tolist(),
        block["timestampType"].to_numpy().tolist(),
        _bytes_of(block["key"]),
        _bytes_of(block["value"]),
        repeat(()) if headers.null_count == len(headers) else map(_headers_of, headers.to_pylist()),
        strict=False,
    )
    return map(ConsumerRecord._make, fields)


def _bytes_of(column: pa.Array) -> Iterable[bytes | None]:
    """A binary column's values; several times faster than ``to_pylist``, which makes a scalar of each."""
    count = len(column)
    if column.null_count == count:
        return repeat(None)
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1]
    first = int(bounds[0])
    window = memoryview(data)[first : int(bounds[-1])].tobytes() if data is not None else b""
    ends = (bounds - first).tolist()
    values = [window[start:end] for start, end in pairwise(ends)]
    if not column.null_count:
        return values
    valid = column.is_valid().to_numpy(zero_copy_only=False).tolist()
    return [value if is_there else None for value, is_there in zip(values, valid, strict=True)]


def _headers_of(headers: list[dict[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in headers or ())
