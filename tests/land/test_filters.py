"""Readers of a Delta table that filter by a column find every row: they skip files by what Delta's log says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.land.landed import DELTA, land

from semel.client.blocking import Cluster
from semel.land.formats import ValueFormat
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

SCHEMA = "s string, b boolean, i int, n long, f double, day date, at timestamp, none string"
LONG = "a" * 40
ROWS: list[list[dict[str, Any] | None]] = [  # each list is a file
    [
        {
            "s": LONG,
            "b": True,
            "i": 1,
            "n": 2**60,
            "f": 0.5,
            "day": "2024-01-01",
            "at": "2024-01-01T00:00:00Z",
        },
        {"s": LONG + chr(0x10FFFF), "b": False, "i": None, "n": -1, "f": -0.0, "day": None, "at": None},
    ],
    [{"s": ""}, {"s": chr(0x10FFFF) * 40, "i": 2, "f": 1e300, "day": "9999-12-31"}],
    [None, {"b": True}, {"s": "\ud7ff" * 40, "at": "2024-01-01T00:00:00.000001Z"}],
]

Filter = Callable[[str, pa.Scalar | None], list[int]]  # the offsets of the rows that have this value


def by_pyarrow(table: DeltaTable) -> Filter:
    rows = table.to_pyarrow_dataset()

    def find(column: str, value: pa.Scalar | None) -> list[int]:
        field = pc.field(column)
        return _offsets(rows.to_table(filter=field.is_null() if value is None else field == value))

    return find


def by_pandas(table: DeltaTable) -> Filter:
    def find(column: str, value: pa.Scalar | None) -> list[int]:
        wanted = pc.field(column).is_null() if value is None else [(column, "=", value.as_py())]
        return sorted(table.to_pandas(filters=wanted)["_offset"].tolist())

    return find


def by_duckdb(table: DeltaTable) -> Filter:
    database = duckdb.connect()
    database.register("landed", table.to_pyarrow_dataset())

    def find(column: str, value: pa.Scalar | None) -> list[int]:
        wanted, values = ("is null", None) if value is None else ("= $1", [value.as_py()])
        found = database.sql(f'select _offset from landed where "{column}" {wanted}', params=values)
        return sorted(offset for (offset,) in found.fetchall())

    return find


def by_polars(table: DeltaTable) -> Filter:
    rows = pl.scan_delta(table)

    def find(column: str, value: pa.Scalar | None) -> list[int]:
        wanted = pl.col(column).is_null() if value is None else pl.col(column) == pl.lit(value.as_py())
        return _offsets(rows.filter(wanted).collect().to_arrow())

    return find


ARROW_NAMES = {
    "bool": "Boolean",
    "int32": "Int32",
    "int64": "Int64",
    "double": "Float64",
    "date32[day]": "Date32",
    "timestamp[us, tz=UTC]": 'Timestamp(Microsecond, Some("UTC"))',
}


def by_datafusion(table: DeltaTable) -> Filter:
    queries = QueryBuilder().register("landed", table)

    def find(column: str, value: pa.Scalar | None) -> list[int]:
        if value is None:
            wanted = "is null"
        elif pa.types.is_binary(value.type):
            wanted = f"= x'{value.as_py().hex()}'"
        else:
            wanted = (
                f"= arrow_cast('{value.cast(pa.string())}', '{ARROW_NAMES.get(str(value.type), 'Utf8')}')"
            )
        found = queries.execute(f'select _offset from landed where "{column}" {wanted}')
        return _offsets(pa.table(found.read_all()))

    return find


READERS = [by_pyarrow, by_pandas, by_duckdb, by_polars, by_datafusion]


@pytest.fixture
def landed(log: LocalLog, cluster: Cluster, topic: str, table: Path) -> Path:
    for number, values in enumerate(ROWS):
        records = [
            Record(0, 1_000 + number, f"k{number}".encode(), value and json.dumps(value).encode())
            for value in values
        ]
        cluster.produce({TopicPartition(topic, 0): encode_batch(records)})
        land(log.bootstrap, table, DELTA, topic, value_format=ValueFormat.JSON, schema=SCHEMA)
    return table


@pytest.mark.parametrize(
    "is_compacted",
    [pytest.param(False, id="as-landed"), pytest.param(True, id="optimized", marks=pytest.mark.thorough)],
)
def test_a_filter_by_any_column_finds_every_row(landed: Path, is_compacted: bool) -> None:
    if is_compacted:
        DeltaTable(landed).optimize.compact()
    table = DeltaTable(landed)
    rows = table.to_pyarrow_table().sort_by("_offset")
    assert rows.num_rows == 7
    readers = [opened(table) for opened in READERS]
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        for value in [None, *column.unique().drop_null()]:
            is_wanted = pc.is_null(column) if value is None else pc.equal(column, value)
            wanted = _offsets(rows.filter(is_wanted))
            for find in readers:
                assert find(name, value) == wanted, (find, name, value)


def _offsets(rows: pa.Table) -> list[int]:
    return sorted(rows.column("_offset").to_pylist())


def test_rows_from_before_a_column_was_added_are_found_by_the_documented_property(
    log: LocalLog, cluster: Cluster, topic: str, table: Path
) -> None:
    for schema in ("n long", "n long, later string"):
        cluster.produce({TopicPartition(topic, 0): encode_batch([Record(0, 0, None, b'{"n":1}')])})
        land(log.bootstrap, table, DELTA, topic, value_format=ValueFormat.JSON, schema=schema)
    DeltaTable(table).alter.set_table_properties(
        {"delta.dataSkippingStatsColumns": "_partition,_offset,_timestamp"}
    )
    for opened in READERS:
        assert opened(DeltaTable(table))("later", None) == [0, 1], opened
