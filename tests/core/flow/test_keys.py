"""Keys: the same bytes for the same values by rows, by columns and one by one, and read back as the values."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.generated_rows import SCHEMA_AND_ROWS

from semel.core.flow.columns import NotOfSchema
from semel.core.flow.keys import key_bytes, keys_of_rows, keys_of_table, read_key
from semel.core.flow.schema import Field, Kind, parse_schema
from semel.core.flow.tables import table_of
from semel.errors import ConfigError

SCHEMA = parse_schema("user string, n long, at timestamp, x double, f float")
AT = datetime(2024, 1, 1, 12, tzinfo=UTC)


def keys(columns: list[str], *rows: tuple) -> list[bytes | None]:
    return keys_of_rows(SCHEMA, columns, [SCHEMA.row_type(*row) for row in rows]).to_pylist()


def test_forms():
    row = ('a"b', 5, AT, 1, 0.1)
    assert keys(["user"], row, (None,), ("",)) == [b'a"b', None, b""]
    assert keys(["n"], row, (None,)) == [b"5", None]
    assert keys(["at"], row) == [b'"2024-01-01T12:00:00Z"']
    assert keys(["x"], row) == [b"1.0"]
    assert keys(["f"], row) == [b"0.10000000149011612"]
    assert keys(["n", "user"], row, ("a",), (None, 5)) == [b'[5,"a\\"b"]', None, None]


def test_equal_values_have_equal_keys():
    berlin = AT.astimezone(timezone(timedelta(hours=1)))
    assert len(set(keys(["at"], ("a", 1, AT), ("a", 1, berlin), ("a", 1, AT.replace(tzinfo=None))))) == 1
    assert keys(["x"], ("a", 1, AT, 0.0), ("a", 1, AT, -0.0), ("a", 1, AT, 0)) == [b"0.0"] * 3
    assert key_bytes([SCHEMA["x"]], [-0.0]) == b"0.0"
    assert (
        keys(["f", "x"], ("a", 1, AT, 1, 0.1), ("a", 1, AT, 1.0, 0.10000000149011612))
        == [b"[0.10000000149011612,1.0]"] * 2
    )


@given(SCHEMA_AND_ROWS, st.data())
def test_by_rows_by_columns_and_one_by_one(schema_and_rows, data):
    schema, rows = schema_and_rows
    columns = data.draw(st.lists(st.sampled_from(schema.names), min_size=1, unique=True))
    fields = schema.select(columns).fields
    found = keys_of_rows(schema, columns, rows)
    assert found.type == pa.binary()
    assert keys_of_table(schema, columns, table_of(schema, rows)).equals(found)
    assert (
        keys_of_table(schema, columns, pa.concat_tables([table_of(schema, rows)] * 2)[1:]).to_pylist()
        == (found.to_pylist() * 2)[1:]
    )
    for row, key in zip(rows, found.to_pylist(), strict=True):
        values = tuple(getattr(row, name) for name in columns)
        assert key_bytes(fields, values) == key
        assert read_key(fields, key) == (None if None in values else values)


@given(
    st.lists(
        st.binary(max_size=12)
        | st.sampled_from([b"5", b'"a"', b'[5,"a"]', b"[5]", b"null", b"[1,2,3]", b" 5"])
    )
)
def test_any_bytes_are_a_key_or_none(found: list[bytes]):
    for fields in (("user",), ("n",), ("n", "user"), ("at",), ("f", "x")):
        columns = SCHEMA.select(fields).fields
        for key in found:
            values = read_key(columns, key)
            if values is not None:
                assert len(values) == len(fields)
                assert read_key(columns, key_bytes(columns, values)) == values


def test_keys_that_are_none():
    assert read_key(SCHEMA.select(["n"]).fields, None) is None
    assert read_key(SCHEMA.select(["n"]).fields, b'"5"') is None
    assert read_key(SCHEMA.select(["user"]).fields, b"\xff") is None
    assert read_key(SCHEMA.select(["n", "user"]).fields, b"[5]") is None
    assert read_key(SCHEMA.select(["at"]).fields, b"99999999999999") is None
    assert read_key(SCHEMA.select(["at"]).fields, b"0") == (datetime(1970, 1, 1, tzinfo=UTC),)


def test_refusals():
    with pytest.raises(NotOfSchema, match="row 1, column 'x': nan cannot be written as JSON"):
        keys(["x"], ("a", 1, AT, 1.0), ("a", 1, AT, math.nan))
    with pytest.raises(NotOfSchema, match="column 'x': inf cannot be written"):
        key_bytes([SCHEMA["x"]], [math.inf])
    with pytest.raises(NotOfSchema, match=r"row 0, column 'n': 'a' \(str\) is no bigint"):
        keys(["n"], ("a", "a"))
    with pytest.raises(NotOfSchema, match=r"5 \(int\) is no string"):
        key_bytes([Field("a", Kind.STRING)], [5])
    with pytest.raises(ConfigError, match="no column 'usr'"):
        keys(["usr"])
    with pytest.raises(ConfigError, match="it has no columns"):
        keys([])
