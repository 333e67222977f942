"""Rows and columns tell the same, and what was written is read again as it was."""

from __future__ import annotations

from hypothesis import given
from tests.core.flow.generated_rows import SCHEMA_AND_ROWS

from semel.core.flow.codec import (
    decode_rows,
    decode_table,
    encode_rows,
    encode_table,
    rows_of_table,
    table_of,
)


@given(SCHEMA_AND_ROWS)
def test_rows_and_columns_are_written_alike(schema_and_rows):
    schema, rows = schema_and_rows
    assert encode_table(table_of(schema, rows)).equals(encode_rows(rows))


@given(SCHEMA_AND_ROWS)
def test_what_was_written_is_read_as_it_was(schema_and_rows):
    schema, rows = schema_and_rows
    values = encode_rows(rows)
    decoded = decode_rows(schema, values)
    assert list(map(repr, decoded.rows)) == list(map(repr, rows))
    assert decoded.kept is None
    assert decoded.bad == []
    table, bad = decode_table(schema, values)
    assert table.equals(table_of(schema, rows))
    assert bad == []
    assert encode_rows(rows_of_table(schema, table)).equals(values)


@given(SCHEMA_AND_ROWS)
def test_a_dictionary_is_read_as_the_same_row(schema_and_rows):
    schema, rows = schema_and_rows
    dictionaries = [{name: getattr(row, name) for name in schema.names} for row in rows]
    assert decode_rows(schema, encode_rows(dictionaries)).rows == rows
