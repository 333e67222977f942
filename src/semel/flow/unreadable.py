"""Batches that nobody can read, on their way to the flow's ``bad`` topic: each is a row there, with its bytes.

A flow goes past what was produced so, as past a value that it cannot read. Such a batch stands where it ends, which is
in one range whatever a micro-batch's cuts: a range may begin in the midst of a batch, and the next one ends it. Its row
says nothing but what any replay finds again. A batch that was damaged stops the flow, for it may be read another time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from semel.core.flow.pieces import BAD, Entry, Piece
from semel.errors import UnreadableBatch
from semel.record.batch import decode_header
from semel.record.columnar import table_schema

WHY_COLUMN: Final = "unreadable"  # of a table of records: null, or why the row is a batch that cannot be read
_READ: Final = "read"  # the step that would not take it


def with_unreadable(
    found: pa.Table | UnreadableBatch, end_offset: int, *, has_headers: bool = False
) -> pa.Table:
    """Records, and the column that says that they are some; a batch that is none is a row, where it ends.

    Of a range up to ``end_offset``: a batch that ends behind that is the next range's.
    """
    if not isinstance(found, UnreadableBatch):
        return found.append_column(WHY_COLUMN, pa.nulls(found.num_rows, pa.string()))
    header = decode_header(found.batch)
    schema = table_schema(include_headers=has_headers).append(pa.field(WHY_COLUMN, pa.string()))
    row = {
        "value": found.batch,
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "offset": header.last_offset,
        WHY_COLUMN: f"nobody can read the records of the batch of offsets {header.base_offset} to "
        f"{header.last_offset}: its producer wrote them so, for the checksum is right",
    }
    return pa.Table.from_pylist([row] if header.last_offset < end_offset else [], schema)


def readable(piece: Piece, table: pa.Table, entry: Entry) -> Piece:
    """Those rows of the piece that are records; the others are bad."""
    if WHY_COLUMN not in table.column_names:
        return piece
    whys = table.column(WHY_COLUMN)
    if whys.null_count == len(whys):
        return piece
    is_bad = np.asarray(whys.is_valid())
    bad = np.flatnonzero(is_bad)
    entry.emit_rows(BAD, _READ, piece, bad, whys.take(pa.array(bad)).to_pylist())
    return piece.take(np.flatnonzero(~is_bad))
