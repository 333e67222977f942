"""What rows are worth comparing by: their count and the CRCs of keys, values, lengths and headers.

A digest depends on the rows and their order only, not on how they were cut into batches, and is computed
over Arrow's buffers without touching a row. Timestamps are left out: Spark's rows carry none of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

Column = Any  # a pa.Array of binary, or of list<struct<key, value>>; pyarrow is not typed


@dataclass(frozen=True, slots=True)
class Digest:
    """A point in a stream of rows. Equal digests at equal counts: equal rows, up to CRC-32C on each part."""

    count: int = 0
    keys_crc: int = 0
    values_crc: int = 0
    lengths_crc: int = 0
    headers_crc: int = 0

    def to_list(self) -> list[int]:
        """For the decision log."""
        return [self.count, self.keys_crc, self.values_crc, self.lengths_crc, self.headers_crc]

    @classmethod
    def from_list(cls, parts: Sequence[int]) -> Digest:
        """The inverse of :meth:`to_list`."""
        return cls(*parts)

    def over(self, keys: Column | None, values: Column, headers: Column | None = None) -> Digest:
        """The digest after these rows as well."""
        rows = len(values)
        if not rows:
            return self
        value_lengths, values_crc = _crc_of(values, self.values_crc)
        if keys is None:
            key_lengths, keys_crc = np.full(rows, -1, dtype="<i4"), self.keys_crc
        else:
            key_lengths, keys_crc = _crc_of(keys, self.keys_crc)
        lengths_crc = crc32c(np.column_stack((key_lengths, value_lengths)).tobytes(), self.lengths_crc)
        headers_crc = _crc_of_headers(headers, self.count, self.headers_crc)
        return Digest(self.count + rows, keys_crc, values_crc, lengths_crc, headers_crc)

    def mixed(self) -> int:
        """One 64-bit number; the sum over writers does not depend on their order."""
        packed = struct.pack(
            "<QIIII", self.count, self.keys_crc, self.values_crc, self.lengths_crc, self.headers_crc
        )
        return int(crc32c(packed)) << 32 | int(crc32c(packed[::-1]))


NO_ROWS = Digest()


def _crc_of(column: Column, crc: int) -> tuple[Any, int]:
    column = _flat_binary(column)
    is_null = None
    if column.null_count:
        is_null = np.asarray(column.is_null())
        column = column.fill_null(b"")  # also drops the bytes that a null slot may hide
    _, offsets_buffer, data = column.buffers()
    ends = np.frombuffer(offsets_buffer, dtype="<i4")[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(ends).astype("<i4")
    if is_null is not None:
        lengths[is_null] = -1
    if data is not None and ends[-1] > ends[0]:
        crc = crc32c(memoryview(data)[int(ends[0]) : int(ends[-1])], crc)
    return lengths, int(crc)


def _flat_binary(column: Column) -> Column:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _crc_of_headers(headers: Column | None, first_row: int, crc: int) -> int:
    if headers is None:
        return crc
    for row, pairs in enumerate(headers.to_pylist()):
        if not pairs:
            continue  # no header, an empty list and a missing column are the same thing in the log
        crc = crc32c(struct.pack("<QI", first_row + row, len(pairs)), crc)
        for pair in pairs:
            name, value = pair["key"].encode(), pair["value"]
            crc = crc32c(struct.pack("<i", len(name)) + name, crc)
            crc = crc32c(struct.pack("<i", -1 if value is None else len(value)) + (value or b""), crc)
    return int(crc)
