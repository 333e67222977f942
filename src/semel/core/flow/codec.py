"""Rows from JSON and back, by rows or by columns, and the keys of rows: what the steps of a flow use.

Rows and columns tell the same: ``decode_table(s, v)`` is ``table_of(s, decode_rows(s, v).rows)`` and finds the same bad
values; ``encode_table(table_of(s, rows))`` is ``encode_rows(rows)`` for rows of ``s.row_type``, and to decode it gives
the rows again.
"""

from __future__ import annotations

from semel.core.flow.columns import NotOfSchema
from semel.core.flow.decode import NESTING_MAX, Decoded, decode_rows, decode_table
from semel.core.flow.encode import encode_rows, encode_table
from semel.core.flow.keys import key_bytes, keys_of_rows, keys_of_table, read_key
from semel.core.flow.tables import conform, rows_of_table, table_of

__all__ = [
    "NESTING_MAX",
    "Decoded",
    "NotOfSchema",
    "conform",
    "decode_rows",
    "decode_table",
    "encode_rows",
    "encode_table",
    "key_bytes",
    "keys_of_rows",
    "keys_of_table",
    "read_key",
    "rows_of_table",
    "table_of",
]
