"""What rows are worth comparing by: their count and the CRCs of keys, values, lengths and headers.

A digest depends on the rows and their order only, not on how they were cut into batches, and is computed
over Arrow's buffers without touching a row. Timestamps are left out: Spark's rows carry none of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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


def order_free_hash(topic: str, keys: Column | None, values: Column, headers: Column | None = None) -> int:
    """The sum over all rows, modulo 2^64, of a hash of each: the same in whatever order and pieces they come.

    Some 0.4 us a row: for named batch writes only, whose plans may have a shuffle.
    """
    rows = len(values)
    if not rows:
        return 0
    value_lengths, value_crcs = _crcs_of(values)
    if keys is None:
        key_lengths, key_crcs = np.full(rows, -1, dtype="<i4"), np.zeros(rows, dtype=np.uint64)
    else:
        key_lengths, key_crcs = _crcs_of(keys)
    place = np.full(rows, crc32c(topic.encode()), dtype=np.uint64)
    if headers is not None:
        place ^= np.array([_crc_of_pairs(pairs) << 32 for pairs in headers.to_pylist()], dtype=np.uint64)
    lengths = key_lengths.astype(np.uint32).astype(np.uint64) << np.uint64(32)
    lengths |= value_lengths.astype(np.uint32).astype(np.uint64)
    hashed = _mixed(_mixed(_mixed(place) ^ lengths) ^ (key_crcs << np.uint64(32) | value_crcs))
    return int(hashed.sum(dtype=np.uint64))


def _mixed(words: Any) -> Any:
    """The finalizer of SplitMix64, on each of an array of 64-bit words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _crc_of(column: Column, crc: int) -> tuple[Any, int]:
    lengths, ends, data = _layout_of(column)
    if data is not None and ends[-1] > ends[0]:
        crc = crc32c(memoryview(data)[int(ends[0]) : int(ends[-1])], crc)
    return lengths, int(crc)


def _crcs_of(column: Column) -> tuple[Any, Any]:
    lengths, ends, data = _layout_of(column)
    view, at = memoryview(b"" if data is None else data), ends.tolist()
    crcs = [crc32c(view[start:end]) for start, end in pairwise(at)]
    return lengths, np.array(crcs, dtype=np.uint64)


def _layout_of(column: Column) -> tuple[Any, Any, Any]:
    """The length of each row, -1 for null; where each begins in the buffer, with the last one's end; the buffer."""
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
    return lengths, ends, data


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
        crc = _crc_of_pairs(pairs, crc32c(struct.pack("<QI", first_row + row, len(pairs)), crc))
    return int(crc)


def _crc_of_pairs(pairs: Any, crc: int = 0) -> int:
    for pair in pairs or ():
        name, value = pair["key"].encode(), pair["value"]
        crc = crc32c(struct.pack("<i", len(name)) + name, crc)
        crc = crc32c(struct.pack("<i", -1 if value is None else len(value)) + (value or b""), crc)
    return int(crc)
