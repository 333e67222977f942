"""Avro values: plain and framed, nested, evolved; what is bad and why."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from fastavro import parse_schema, schemaless_writer
from tests.land.landed import DELTA, land, produce, read

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
    assert bad == [(0, "it has 1 byte more than the schema says")]


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
            {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", "A"]}]},
            "A has itself in it",
        ),
        ({"type": "nothing"}, "Avro schema"),
        ({"type": {"type": {"type": "long"}}}, "Avro schema"),
        ({"type": "record"}, "Avro schema"),
        ([1], "Avro schema"),
        (1, "Avro schema"),
        (None, "Avro schema"),
    ],
)
def test_what_cannot_be_columns_is_refused(tmp_path: Path, schema: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        AvroValues(schema_file(tmp_path, "1", schema))


def record(type_: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": type_}]}


def logical(kind: str, what: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": what, **more}


def landed_as(folder: Path, writer: Any, reader: Any, value: Any) -> tuple[pa.DataType, Any]:
    """The column's type, and what is in it of a physical value that ``writer`` wrote."""
    bare = json.loads(json.dumps(record(writer)), object_hook=lambda its: its | {"logicalType": "none"})
    values = AvroValues(
        schema_file(folder, "r", record(reader)), {1: schema_file(folder, "w", record(writer))}
    )
    table, bad = values.read(column(encoded(bare, {"x": value}, 1)))
    assert bad == [], bad
    return table.schema.field("x").type, table.column("x")[0].as_py()


MOMENT_MS, DAYS = 1_700_000_000_123, 19_675
MOMENT = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
LOCAL_MILLIS, LOCAL_MICROS = (
    logical("long", "local-timestamp-millis"),
    logical("long", "local-timestamp-micros"),
)
TIME_MILLIS, TIME_MICROS = logical("int", "time-millis"), logical("long", "time-micros")
CENTS = logical("bytes", "decimal", precision=6, scale=2)
LOGICAL: dict[str, tuple[Any, Any, Any, Any]] = {  # writer, reader, what was written, what it is
    "millis, annotated later": ("long", MILLIS, MOMENT_MS, MOMENT),
    "micros, annotated later": ("long", MICROS, MOMENT_MS * 1_000, MOMENT),
    "millis, annotated by both": (MILLIS, MILLIS, MOMENT_MS, MOMENT),
    "millis, annotated no more": (MILLIS, "long", MOMENT_MS, MOMENT_MS),
    "millis, by neither": ("long", "long", MOMENT_MS, MOMENT_MS),
    "millis, read as micros": (MILLIS, MICROS, MOMENT_MS, MOMENT),
    "micros, read as millis": (MICROS, MILLIS, MOMENT_MS * 1_000, MOMENT),
    "millis, of an int": ("int", MILLIS, 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    "before 1970": ("long", MILLIS, -1, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
    "local millis": ("long", LOCAL_MILLIS, MOMENT_MS, MOMENT.replace(tzinfo=None)),
    "local micros": (LOCAL_MICROS, LOCAL_MICROS, MOMENT_MS * 1_000, MOMENT.replace(tzinfo=None)),
    "date, annotated later": ("int", logical("int", "date"), DAYS, date(2023, 11, 14)),
    "date, annotated by both": (logical("int", "date"), logical("int", "date"), DAYS, date(2023, 11, 14)),
    "date, annotated no more": (logical("int", "date"), "int", DAYS, DAYS),
    "time millis": ("int", TIME_MILLIS, 1_500, 1_500),
    "time micros": (TIME_MICROS, TIME_MICROS, 1_500_000, 1_500_000),
    "time millis, read as micros": (TIME_MILLIS, TIME_MICROS, 1_500, 1_500_000),
    "decimal, annotated later": ("bytes", CENTS, b"\xff\x85", Decimal("-1.23")),
    "decimal, annotated by both": (CENTS, CENTS, b"\x7b", Decimal("1.23")),
    "decimal, annotated no more": (CENTS, "bytes", b"\x7b", b"\x7b"),
    "decimal, of a coarser one": (CENTS | {"scale": 0}, CENTS, b"\x7b", Decimal("123.00")),
    "decimal without digits": ("bytes", CENTS, b"", Decimal("0.00")),
    "decimal, fixed": (
        logical("fixed", "decimal", precision=38, scale=10, size=16, name="F"),
        logical("fixed", "decimal", precision=38, scale=10, size=16, name="F"),
        (10**38 - 1).to_bytes(16, "big"),
        Decimal(10**38 - 1).scaleb(-10, Context(prec=40)),
    ),
    "decimal, too precise": (CENTS, CENTS | {"precision": 39}, b"\x7b", b"\x7b"),
    "decimal, not valid": (CENTS, CENTS | {"scale": 7}, b"\x7b", b"\x7b"),
    "uuid": (logical("string", "uuid"), logical("string", "uuid"), "no uuid", "no uuid"),
    "duration": (
        logical("fixed", "duration", size=12, name="D"),
        logical("fixed", "duration", size=12, name="D"),
        b"123456789012",
        b"123456789012",
    ),
    "unknown": (logical("long", "light-years"), logical("long", "light-years"), 7, 7),
    "known, at another type": ("string", logical("string", "timestamp-millis"), "a", "a"),
    "null": ("null", "null", None, None),
    "union": (["int", "string"], ["int", "string"], 1, "1"),
    "union, its text": (["int", "string"], ["null", "int", "string"], "1", '"1"'),
    "union, its null": (["null", "int", "string"], ["null", "int", "string"], None, None),
    "union, its bytes": (["int", "bytes"], ["int", "bytes"], b"\xe9", '"é"'),
    "union, its decimal": (["int", CENTS], ["int", CENTS], b"\x7b", "1.23"),
    "union, its record": (["int", record(MILLIS, "U")], ["int", record(MILLIS, "U")], {"x": 5}, '{"x":5}'),
}
PLACES: dict[str, tuple[Any, Any]] = {  # around a type, and around its value
    "top": (lambda its: its, lambda value: value),
    "nullable": (lambda its: ["null", its], lambda value: value),
    "list": (lambda its: {"type": "array", "items": ["null", its]}, lambda value: [value, value]),
    "map": (lambda its: {"type": "map", "values": its}, lambda value: {"k": value}),
    "nested": (
        lambda its: {"type": "record", "name": "N", "fields": [{"name": "y", "type": its}]},
        lambda value: {"y": value},
    ),
    "map of lists": (
        lambda its: {"type": "map", "values": {"type": "array", "items": its}},
        lambda value: {"k": [value]},
    ),
}


@pytest.mark.parametrize("case", LOGICAL)
def test_a_value_is_what_its_readers_schema_says(tmp_path: Path, case: str) -> None:
    writer, reader, value, wanted = LOGICAL[case]
    is_union = isinstance(writer, list) or writer == "null"
    for place, (type_around, around) in PLACES.items():
        if is_union and place in ("nullable", "list"):
            continue
        _, found = landed_as(tmp_path, type_around(writer), type_around(reader), around(value))
        assert found == (list(around(wanted).items()) if "map" in place else around(wanted)), place


def test_a_plain_value_is_what_its_schema_says(tmp_path: Path) -> None:
    schema = record(MILLIS)
    table, bad = AvroValues(schema_file(tmp_path, "r", schema)).read(column(encoded(schema, {"x": MOMENT})))
    assert (table.column("x").to_pylist(), bad) == ([MOMENT], [])


def test_types_may_be_named_again(tmp_path: Path) -> None:
    """Also one that is first met in a union of several."""
    schema = record(["int", record(MILLIS, "U")])
    schema["fields"] += [
        {"name": "y", "type": "U"},
        {"name": "cents", "type": logical("fixed", "decimal", precision=4, scale=2, size=2, name="C")},
        {"name": "more", "type": ["null", "C"]},
    ]
    row = {"x": 1, "y": {"x": MOMENT}, "cents": Decimal("1.23"), "more": Decimal("4.56")}
    table, bad = AvroValues(schema_file(tmp_path, "r", schema)).read(column(encoded(schema, row)))
    assert (table.to_pylist(), bad) == ([row | {"x": "1"}], [])


def test_a_default_is_what_its_schema_says(tmp_path: Path) -> None:
    wider, with_default = record(MILLIS), record(CENTS, "D")
    with_default["fields"][0]["default"] = "\u007b"
    wider["fields"] += [
        {"name": "y", "type": record(MILLIS, "U"), "default": {"x": 1_000}},
        {"name": "d", "type": CENTS, "default": "\u007b"},
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "inner", "type": record(CENTS, "I"), "default": {"x": "\u007b"}},
        {"name": "same", "type": "I", "default": {"x": "\u007b"}},
        {"name": "list", "type": {"type": "array", "items": CENTS}, "default": ["\u007b"]},
        {"name": "map", "type": {"type": "map", "values": "bytes"}, "default": {"k": "\u00ff"}},
        {"name": "rest", "type": with_default, "default": {}},
    ]
    narrow = record(MILLIS)
    values = AvroValues(schema_file(tmp_path, "r", wider), {1: schema_file(tmp_path, "w", narrow)})
    table, bad = values.read(column(*[encoded(narrow, {"x": MOMENT}, 1)] * 2))
    second, cents = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), Decimal("1.23")
    row = {
        "x": MOMENT,
        "y": {"x": second},
        "d": cents,
        "b": b"\xff",
        "inner": {"x": cents},
        "same": {"x": cents},
    }
    row |= {"list": [cents], "map": [("k", b"\xff")], "rest": {"x": cents}}
    assert (table.to_pylist(), bad) == ([row] * 2, [])


@pytest.mark.parametrize("depth", [1, 127, 128, 900, 100_000])
@pytest.mark.parametrize("framed", [False, True])
def test_a_value_that_is_nested_too_deep_is_bad(tmp_path: Path, depth: int, framed: bool) -> None:
    node = {"name": "Node", "type": "record", "fields": [{"name": "next", "type": ["null", "int", "Node"]}]}
    path = schema_file(tmp_path, "r", record(["null", "int", node]))
    values = AvroValues(path, {1: path} if framed else None)
    nested = (b"\0\0\0\0\1" if framed else b"") + b"\x04" * depth + b"\x00"
    table, bad = values.read(column(nested))
    if depth > 128:
        assert bad[0] == (0, "it is nested more than 128 deep")
    else:
        assert table.to_pylist()[0]["x"].count("{") == depth


def test_a_record_that_has_only_itself_in_it_is_bad(tmp_path: Path) -> None:
    """It has no end, and takes no byte."""
    node = {"name": "Node", "type": "record", "fields": [{"name": "next", "type": "Node"}]}
    values = AvroValues(schema_file(tmp_path, "r", record(["null", "int", node])))
    assert values.read(column(b"\x04"))[1] == [(0, "it is nested more than 128 deep")]


@pytest.mark.parametrize("odd", [None, 5, ["decimal"], {}])
def test_a_logical_type_that_is_no_name_is_ignored(tmp_path: Path, odd: Any) -> None:
    values = AvroValues(schema_file(tmp_path, "r", record({"type": "long", "logicalType": odd})))
    assert values.read(column(b"\x02"))[0].to_pylist() == [{"x": 1}]


def test_a_default_that_lacks_a_field_is_refused(tmp_path: Path) -> None:
    schema = record("int") | {"fields": [{"name": "x", "type": record("int", "I"), "default": {}}]}
    with pytest.raises(ConfigError, match="r, field x: its default says nothing of x"):
        AvroValues(schema_file(tmp_path, "r", schema))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (MILLIS, 253_402_300_800_000),
        (MILLIS, 2**63 - 1),
        (LOCAL_MICROS, -62_135_596_800_000_001),
        (logical("int", "date"), 2_932_897),
        (CENTS, (10**6).to_bytes(4, "big")),
    ],
)
def test_what_a_logical_type_cannot_be_is_bad(tmp_path: Path, type_: Any, value: Any) -> None:
    bare = record(type_["type"])
    values = AvroValues(schema_file(tmp_path, "r", record(type_)))
    table, bad = values.read(column(encoded(bare, {"x": value})))
    assert table.num_rows == 0
    assert [index for index, _ in bad] == [0] and bad[0][1].startswith("a column cannot hold it")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (encoded(USER, {"user": "ann"}, 7), "Confluent's frame of schema id 7: say --writer-schema 7=FILE"),
        (b"Obj\x01\x02", "an Avro file"),
        (b"\x03\x00" + b"i" * 16 + b"\x06ann", "AWS Glue"),
        (b"\x03\x05" + b"i" * 16 + b"\x06ann", "AWS Glue"),
        (b"\xc3\x01" + b"f" * 8 + b"\x06ann", "single-object"),
    ],
)
def test_a_frame_that_nobody_asked_for_is_named(tmp_path: Path, value: bytes, says: str) -> None:
    _, bad = AvroValues(schema_file(tmp_path, "r", USER)).read(column(value))
    assert says in bad[0][1]


def test_logical_types_are_landed(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, tmp_path: Path
) -> None:
    """Also as columns that a table gets later."""
    fields: list[dict[str, Any]] = []
    row: dict[str, Any] = {}
    for type_, value in (("long", 1), (CENTS, Decimal("1.23")), (LOCAL_MICROS, MOMENT.replace(tzinfo=None))):
        fields.append({"name": f"x{len(fields)}", "type": type_})
        row[fields[-1]["name"]] = value
        schema = {"type": "record", "name": "L", "fields": fields}
        produce(cluster, topic, 0, [encoded(schema, row)])
        path = schema_file(tmp_path, "l.avsc", schema)
        land(log.bootstrap, table, table_format, topic, value_format=ValueFormat.AVRO, schema=str(path))
    newest = read(table, table_format).sort_by("_offset").to_pylist()[-1]
    assert {name: newest[name] for name in row} == row
    if table_format is DELTA:
        kinds = [field.type.type for field in DeltaTable(table).schema().fields[:1]]
        assert (
            kinds == ["long"] and DeltaTable(table).to_pyarrow_table(filters=[("x0", "=", 1)]).num_rows == 3
        )
