"""Avro values: plain and framed, nested, evolved; what is bad and why."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from tests.land.landed import land, produce, read

from semel.client.blocking import Cluster
from semel.errors import ConfigError
from semel.land.avro import AvroValues
from semel.land.formats import TableFormat, ValueFormat
from semel.local import LocalLog

USER: dict[str, Any] = {"type": "record", "name": "User", "fields": [{"name": "user", "type": "string"}]}
WIDER: dict[str, Any] = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "n", "type": ["null", "long"], "default": None},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "by", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "id", "type": ["null", {"type": "string", "logicalType": "uuid"}], "default": None},
    ],
}


def schema_file(folder: Path, name: str, schema: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(schema))
    return path


def encoded(schema: Any, row: dict[str, Any], schema_id: int | None = None) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), row)
    frame = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
    return frame + out.getvalue()


def column(*values: bytes | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.binary())])


def test_rows_of_all_kinds_of_columns_are_landed(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, tmp_path: Path
) -> None:
    row = {
        "user": "ann",
        "n": 1,
        "at": datetime(2024, 1, 1, tzinfo=UTC),
        "tags": ["a", "b"],
        "by": {"x": 1},
        "id": "00000000-0000-0000-0000-000000000001",
    }
    path = schema_file(tmp_path, "wider.avsc", WIDER)
    produce(cluster, topic, 0, [encoded(WIDER, row), b"\xff"])
    land(log.bootstrap, table, table_format, topic, value_format=ValueFormat.AVRO, schema=str(path))
    good, bad = read(table, table_format).sort_by("_offset").to_pylist()
    assert {name: good[name] for name in row} == row | {"by": [("x", 1)]}
    assert good["_error"] is None
    assert bad["_value"] == b"\xff" and bad["_error"].startswith("it is no Avro of the schema")


def test_framed_values_are_read_by_the_schema_that_wrote_them(tmp_path: Path) -> None:
    narrow, wide = schema_file(tmp_path, "1", USER), schema_file(tmp_path, "2", WIDER)
    values = AvroValues(wide, {7: narrow, 8: wide})
    rest = {"n": 5, "at": None, "tags": [], "by": {}, "id": None}
    table, bad = values.read(
        column(
            encoded(USER, {"user": "ann"}, 7),
            encoded(WIDER, {"user": "bob", **rest}, 8),
            encoded(USER, {"user": "eve"}, 9),
            encoded(USER, {"user": "eve"}),
            b"\0",
            None,
        )
    )
    assert table is not None
    assert [(row["user"], row["n"]) for row in table.to_pylist()] == [("ann", None), ("bob", 5)]
    assert dict(bad) == {
        2: "its schema has the id 9, which no --writer-schema names",
        3: "it has no frame with a schema's id",
        4: "it has no frame with a schema's id",
        5: "the value is null",
    }


def test_bytes_behind_a_value_are_not_passed_over(tmp_path: Path) -> None:
    values = AvroValues(schema_file(tmp_path, "1", USER))
    table, bad = values.read(column(encoded(USER, {"user": "ann"}) + b"x"))
    assert table is not None and table.num_rows == 0
    assert bad == [(0, "it has 1 bytes more than the schema says")]


def test_a_row_that_no_column_can_hold_is_bad_and_the_others_are_not(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "D", "fields": [{"name": "n", "type": "int"}]}
    values = AvroValues(schema_file(tmp_path, "1", schema))
    longs = {"type": "record", "name": "D", "fields": [{"name": "n", "type": "long"}]}
    table, bad = values.read(column(encoded(longs, {"n": 2**40}), encoded(longs, {"n": 3})))
    assert table is not None and table.column("n").to_pylist() == [3]
    assert [index for index, _ in bad] == [0]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("string", "is no record"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["int", "string"]}]},
            "field x: a union",
        ),
        (
            {
                "type": "record",
                "name": "A",
                "fields": [
                    {"name": "x", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}}
                ],
            },
            "logical type decimal",
        ),
        (
            {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", "A"]}]},
            "one within itself",
        ),
        ({"type": "nothing"}, "Avro schema"),
    ],
)
def test_what_cannot_be_columns_is_refused(tmp_path: Path, schema: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        AvroValues(schema_file(tmp_path, "1", schema))
