"""Rows to columns and back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from tests.core.flow.generated_rows import SCHEMA_AND_ROWS

from semel.core.flow.columns import NotOfSchema
from semel.core.flow.schema import parse_schema
from semel.core.flow.tables import conform, rows_of_table, table_of

SCHEMA = parse_schema("user string, n int")


@dataclass
class Visit:
    user: str
    url: str = "u"


@given(SCHEMA_AND_ROWS)
def test_there_and_back(schema_and_rows):
    schema, rows = schema_and_rows
    table = table_of(schema, rows)
    assert table.schema == schema.arrow
    assert rows_of_table(schema, table) == rows
    assert table_of(schema, rows, is_settled=True).equals(table)
    assert table_of(schema, [{name: getattr(row, name) for name in schema.names} for row in rows]).equals(
        table
    )
    assert rows_of_table(schema, pa.concat_tables([table, table])) == rows * 2
    assert rows_of_table(schema, table[1:]) == rows[1:]


def test_rows_of_any_class_and_of_several():
    rows = [Visit("a"), {"n": 1, "more": 2}, SCHEMA.row_type("c", 3), {}]
    expected = {"user": ["a", None, "c", None], "n": [None, 1, 3, None]}
    assert table_of(SCHEMA, rows).to_pydict() == expected
    for turned in range(len(rows)):
        assert table_of(SCHEMA, rows[turned:] + rows[:turned]).to_pydict() == {
            name: values[turned:] + values[:turned] for name, values in expected.items()
        }


@pytest.mark.parametrize("row", [None, 5, "text", b"", [1], (1, 2)])
def test_what_is_no_row_is_named(row: object):
    for rows in ([{"user": "a"}, row], [SCHEMA.row_type(), row]):
        with pytest.raises(NotOfSchema, match=r"row 1, column 'user': .* is no row") as refused:
            table_of(SCHEMA, rows)
        assert refused.value.index == 1


def test_a_value_of_another_kind_is_named():
    with pytest.raises(NotOfSchema, match=r"row 1, column 'n': 2147483648 \(int\) is out of 32 bits"):
        table_of(SCHEMA, [{"n": 1}, {"n": 2**31}])


def test_tables_are_brought_to_the_schema():
    table = pa.table({"n": pa.array([1, 2], pa.int64()), "more": ["x", "y"]})
    assert conform(SCHEMA, table).equals(
        pa.table({"user": pa.nulls(2, pa.string()), "n": pa.array([1, 2], pa.int32())})
    )
    assert conform(SCHEMA, pa.table({"n": pa.nulls(1)})).schema == SCHEMA.arrow
    with pytest.raises(NotOfSchema, match="column 'n': Arrow's string is no int"):
        conform(SCHEMA, pa.table({"n": ["1"]}))
    with pytest.raises(NotOfSchema, match="column 'n': the table has it twice"):
        conform(SCHEMA, pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"]))
    late = pa.table({"at": pa.array([2**61], pa.timestamp("us", "UTC"))})
    with pytest.raises(NotOfSchema, match=r"column 'at': .* outside of the years"):
        rows_of_table(parse_schema("at timestamp"), late)


def test_time_zones_of_tables():
    at = datetime(2024, 1, 1, tzinfo=UTC)
    table = pa.table({"at": pa.array([at], pa.timestamp("ns", "Asia/Tokyo"))})
    (row,) = rows_of_table(parse_schema("at timestamp"), table)
    assert (row.at, row.at.tzinfo) == (at, UTC)
