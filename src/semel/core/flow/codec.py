"""Rows from JSON and back, by rows or by columns, and the keys of rows: what the steps of a flow use.

Rows and columns tell the same: ``decode_table(s, v)`` is ``table_of(s, decode_rows(s, v).rows)`` and finds the same bad
values; ``encode_table(table_of(s, rows))`` is ``encode_rows(rows)`` for rows of ``s.row_type``, and to decode it gives
the rows again.

A replay must make the same bytes, so rows that are undecided bind the codec as they bind the steps: ``CODEC_VERSION``
belongs in a stage's plan.
"""

from __future__ import annotations

from typing import Final

from semel.core.flow.columns import NotOfSchema
from semel.core.flow.decode import Decoded, decode_rows, decode_table
from semel.core.flow.encode import encode_rows, encode_table
from semel.core.flow.keys import key_bytes, keys_of_rows, keys_of_table, read_key
from semel.core.flow.tables import conform, rows_of_table, table_of
from semel.record.json_values import NESTING_MAX

CODEC_VERSION: Final = 1  # raised when a value is judged, or a row or key written, in another way

__all__ = [
    "CODEC_VERSION",
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
