"""What a table by place has to hold: each plant in a landed table is found and named, and what is no plant is not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command, semel

from semel.audit.contents import Contents, TableShape, of_table
from semel.client.blocking import Cluster
from semel.core.flow.schema import parse_schema
from semel.core.land.columns import landed_rows, landed_schema
from semel.land import dataset
from semel.land.values import JsonValues
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.record.columnar import decode_table
from semel.types import TopicPartition

__all__ = ["semel"]  # the fixture

DDL = "id long, name string, at timestamp, ok boolean, x double"
VALUES = [
    *(
        json.dumps(
            {"id": n, "name": f"n{n}" * (n + 1), "at": f"2026-01-0{n + 1}T00:00:00Z", "ok": n > 1, "x": n / 7}
        )
        for n in range(4)
    ),
    '{"id": "no number"}',
    '{"id": 5, "name": ""}',
]
Plant = Callable[[pa.Table], pa.Table]


def column(table: pa.Table, name: str, cells: dict[int, Any]) -> pa.Table:
    """The table with these cells in the rows of these offsets."""
    offsets = table.column("_offset").to_pylist()
    kept = zip(offsets, table.column(name).to_pylist(), strict=True)
    field = table.schema.field(name)
    changed = pa.array([cells.get(offset, cell) for offset, cell in kept], field.type)
    return table.set_column(table.schema.get_field_index(name), field, changed)


def nulled(table: pa.Table, *names: str) -> pa.Table:
    for name in names:
        table = column(table, name, dict.fromkeys(range(len(VALUES))))
    return table


@pytest.fixture
def landed(semel: Command, tmp_path: Path) -> pa.Table:
    """The topic ``t`` as ``semel land`` leaves it; the fifth value does not fit."""
    lines = "".join(f"k{n}:{value}\n" for n, value in enumerate(VALUES))
    assert semel("produce", "t", "-K", ":", "-H", "h=1", stdin=lines.encode()).code == 0
    return land(semel, tmp_path / "landed", "--headers")


def land(semel: Command, folder: Path, *options: str, ddl: str = DDL) -> pa.Table:
    read = ("--value", "json", "--schema", ddl, "--format", "parquet", "--until-end", "-q")
    done = semel("land", "t", "--to", str(folder), *read, *options)
    assert done.code == 0, done.err
    return dataset(folder).to_table().combine_chunks()


def written(folder: Path, table: pa.Table) -> str:
    folder.mkdir()
    pq.write_table(table, folder / "a.parquet")
    return f"parquet:{folder}"


PLANTS: dict[str, tuple[Plant, str]] = {
    "altered text": (lambda t: column(t, "name", {2: "other"}), "column 'name' is 'other', where"),
    "altered double": (
        lambda t: column(t, "x", {3: 3 / 7 + 1e-16}),
        "column 'x' is 0.42857142857142866,",
    ),
    "altered boolean": (
        lambda t: column(t, "ok", {1: True}),
        "column 'ok' is True, where the input has F",
    ),
    "error set": (
        lambda t: column(t, "_error", {0: "bad"}),
        "column '_error' is set, where the input has n",
    ),
    "error taken": (lambda t: column(t, "_error", {4: None}), "column '_error' is null, where"),
    "bytes of a bad one": (
        lambda t: column(t, "_value", {4: b"{}"}),
        "column '_value' is b'{}', where",
    ),
    "bytes of a good one": (
        lambda t: column(t, "_value", {1: b"{}"}),
        "column '_value' is b'{}', where",
    ),
    "a nulled cell": (
        lambda t: column(t, "id", {2: None}),
        "column 'id' is null, where the input has 2",
    ),
    "key": (
        lambda t: column(t, "_key", {2: b"k"}),
        "column '_key' is b'k', where the input has b'k2'",
    ),
    "headers": (
        lambda t: column(t, "headers", {2: []}),
        "column 'headers' is [], where the input has [{'k",
    ),
    "time": (lambda t: column(t, "_timestamp", {2: None}), "column '_timestamp' is null, where"),
}


@pytest.fixture(scope="module")
def records() -> pa.RecordBatch:
    """As they are read of a log."""
    stored = [
        Record(n, 1_000 + n, b"k%d" % n, value.encode(), (("h", b"1"),)) for n, value in enumerate(VALUES)
    ]
    table = decode_table([encode_batch(stored)], topic="t", partition=0, include_headers=True)
    return table.combine_chunks().to_batches()[0]


@pytest.fixture(scope="module")
def made(records: pa.RecordBatch) -> pa.Table:
    """As land makes them: the fifth value does not fit."""
    schema = landed_schema(parse_schema(DDL).arrow, None, with_headers=True)
    table = pa.Table.from_batches([records])
    values, bad = JsonValues(parse_schema(DDL)).read(table.column("value"))
    return landed_rows(table, values, bad, schema)


@pytest.mark.parametrize(("plant", "named"), PLANTS.values(), ids=PLANTS)
def test_each_plant_is_found_and_named(
    records: pa.RecordBatch, made: pa.Table, plant: Plant, named: str
) -> None:
    contents = of_table(TableShape(made.schema, None, None), None, None)
    table = plant(made).combine_chunks().to_batches()[0]
    expected, there = contents.of_records(0, records), contents.of_rows(table)
    pairs = zip(contents.texts(expected), contents.texts(there), strict=True)
    (at,) = (row for row, (one, other) in enumerate(pairs) if one != other)
    assert contents.differences(expected.slice(at, 1), there.slice(at, 1)).startswith(named)


def test_of_bytes_and_of_unlike_rows_no_text_is_the_same() -> None:
    """Cells that run into each other, and null beside any text."""
    cells = [None, "", "~", "0:", "1:a", "a", "\x00null"]
    rows = pa.table({"a": [one for one in cells for _ in cells], "b": cells * len(cells)})
    texts = Contents(rows.schema).texts(rows)
    assert len(set(texts.to_pylist())) == len(cells) ** 2


def test_the_plants_of_a_table_are_named_by_its_rows(
    semel: Command, landed: pa.Table, tmp_path: Path
) -> None:
    table = column(column(landed, "name", {2: "other"}), "_error", {0: "bad"})
    name = written(tmp_path / "planted", column(table, "id", {3: None}))
    for sides in (("t", name), (name, "t"), (f"parquet:{tmp_path}/landed", name)):
        done = semel("audit", "--input", sides[0], "--output", sides[1])
        assert (done.code, "VIOLATED differs: 3 " in done.out) == (1, True), done.out
        there = ("'other'", "'n2n2n2'") if sides[1] == name else ("'n2n2n2'", "'other'")
        assert f"column 'name' is {there[0]}, where the input has {there[1]}\n" in done.out
    assert "of t-0@0: column '_error' is set, where the input has null\n" in done.out


def test_what_was_landed_is_proven_and_the_verdict_says_of_which_columns(
    semel: Command, landed: pa.Table, tmp_path: Path
) -> None:
    """An empty text lies in the folder of null, and is null there."""
    name = written(tmp_path / "copy", landed)
    land(semel, tmp_path / "parted", "--partition-by", "name")
    for sides in (
        ("t", name),
        (name, "t"),
        (f"parquet:{tmp_path}/landed", name),
        ("t", f"parquet:{tmp_path}/landed"),
        ("t", f"parquet:{tmp_path}/parted"),
    ):
        done = semel("audit", "--input", sides[0], "--output", sides[1])
        assert done.code == 0, done.out
        assert done.out.splitlines()[-1].endswith("exactly once")
    done = semel("audit", "--input", "t", "--output", name, "--format", "json")
    gaps = json.loads(done.out)["not_compared"]
    assert gaps == ["fields of the values that the table has no column for", "the order of rows"]
    page = semel("audit", "--input", "t", "--output", name, "--format", "html").out
    assert page.index("<li>fields of the values") < page.index("What was read")


@pytest.mark.parametrize("names", [["name", "id", "at", "ok", "x"], ["ok"]])
def test_a_column_of_nulls_alone_is_not_proven(
    semel: Command, landed: pa.Table, tmp_path: Path, names: list[str]
) -> None:
    """As damage would leave it, or as a column that came later, in files that were compacted since."""
    name = written(tmp_path / "nulls", nulled(landed, *names))
    done = semel("audit", "--input", "t", "--output", name)
    assert (done.code, "VIOLATED" in done.out) == (1, False), done.out
    first = next(each for each in landed.column_names if each in names)
    assert f"NOT PROVABLE: column '{first}' of {name} is null for " in done.out
    assert "(as t-0@0)" in done.out
    others = [each for each in landed.column_names if each not in names]
    done = semel("audit", "--input", "t", "--output", name, "--columns", ",".join(others))
    assert (done.code, f"NOT COMPARED: column '{first}', which --columns leaves out" in done.out) == (0, True)


def test_a_column_that_came_later_is_said(semel: Command, tmp_path: Path) -> None:
    """A value that the later schema does not fit was a good row before."""
    folder = tmp_path / "landed"
    assert semel("produce", "t", stdin=b'{"id": 1}\n{"id": 2, "name": 7}\n').code == 0
    land(semel, folder, ddl="id long")
    assert semel("produce", "t", stdin=b'{"id": 3, "name": "c"}\n{"id": 4, "name": 7}\n').code == 0
    land(semel, folder, ddl="id long, name string")
    done = semel("audit", "--input", "t", "--output", f"parquet:{folder}")
    assert done.code == 0, done.out
    assert f"NOT COMPARED: column 'name' in files of parquet:{folder} that were written before" in done.out


def test_columns_that_nobody_said_how_to_read_are_named(semel: Command, tmp_path: Path) -> None:
    """A table of another program: its columns may be anything."""
    assert semel("produce", "t", stdin=b'{"id": 1}\n{"id": 2}\n').code == 0
    places = {"_partition": pa.array([0, 0], pa.int32()), "_offset": pa.array([0, 1], pa.int64())}
    name = written(tmp_path / "own", pa.table({"id": pa.array([1, 9]), **places}))
    done = semel("audit", "--input", "t", "--output", name)
    assert done.code == 0
    assert done.out.startswith("NOT COMPARED: what rows hold: they are known by their place alone\n")
    assert "NOT COMPARED: what values hold (id): nothing says how" in done.out
    assert done.out.splitlines()[-1].endswith("exactly once, by place alone")
    for options in (("--value", "json"), ("--columns", "id")):
        done = semel("audit", "--input", "t", "--output", name, *options)
        assert (done.code, "of partition 0@1: column 'id' is 9, where the input has 2" in done.out) == (
            1,
            True,
        )


def test_avro_is_read_by_its_schema(semel: Command, semel_server: LocalLog, tmp_path: Path) -> None:
    """Without one the verdict says that values were not compared."""
    fastavro = pytest.importorskip("fastavro")
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "tags", "type": {"type": "array", "items": "int"}}],
    }
    schema["fields"].append({"name": "id", "type": "long"})
    file = tmp_path / "r.avsc"
    file.write_text(json.dumps(schema))
    records = []
    for n in range(3):
        value = io.BytesIO()
        fastavro.schemaless_writer(value, fastavro.parse_schema(schema), {"tags": [n, n + 1], "id": n})
        records.append(Record(n, 0, b"k", value.getvalue()))
    with Cluster(semel_server.bootstrap) as cluster:
        cluster.create_topics({"t": 1})
        cluster.produce({TopicPartition("t", 0): encode_batch(records)})
    folder = tmp_path / "landed"
    read = ("--value", "avro", "--schema", str(file))
    done = semel("land", "t", "--to", str(folder), *read, "--format", "parquet", "--until-end", "-q")
    assert done.code == 0, done.err
    table = dataset(folder).to_table().combine_chunks()
    altered = written(tmp_path / "altered", column(table, "tags", {1: [7]}))
    done = semel("audit", "--input", "t", "--output", altered, *read)
    assert (done.code, "column 'tags' is [7], where the input has [1, 2]" in done.out) == (1, True), done.out
    assert semel("audit", "--input", "t", "--output", f"parquet:{folder}", *read).code == 0
    done = semel("audit", "--input", "t", "--output", altered)
    assert (done.code, "'tags' is list<element: int32>, which no JSON is read as" in done.out) == (0, True), (
        done.out
    )
    flat = written(tmp_path / "flat", table.drop_columns(["tags"]))
    done = semel("audit", "--input", "t", "--output", flat)
    assert (done.code, "NOT COMPARED: what values hold (id): no value of the topic is JSON" in done.out) == (
        0,
        True,
    )
    other = written(tmp_path / "key", column(table.drop_columns(["tags"]), "_key", {1: b"l"}))
    assert semel("audit", "--input", "t", "--output", other).code == 1  # what can be compared still is
