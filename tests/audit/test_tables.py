"""Tables in files as a side: Delta and Parquet, by the place of each record and by columns of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command, semel

from semel.audit.identity import NULL_FIELD, field_text
from semel.audit.tables import _as_bytes, _as_text
from semel.land import files_of

__all__ = ["semel"]  # the fixture

deltalake = pytest.importorskip("deltalake")

Write = Callable[[Path, pa.Table], str]

VALUES = [json.dumps({"id": n, "name": f"n{n}", "at": {"x": n / 2}}) for n in range(5)]


def write_delta(folder: Path, table: pa.Table) -> str:
    deltalake.write_deltalake(str(folder / "delta"), table)
    return f"delta:{folder / 'delta'}"


def write_parquet(folder: Path, table: pa.Table) -> str:
    (folder / "parquet").mkdir()
    half = len(table) // 2
    pq.write_table(table.slice(0, half), folder / "parquet" / "a.parquet")
    pq.write_table(table.slice(half), folder / "parquet" / "b.parquet")
    return f"parquet:{folder / 'parquet'}"


@pytest.fixture(params=[write_delta, write_parquet], ids=["delta", "parquet"])
def write(request: Any) -> Any:
    return request.param


def landed(offsets: list[int], values: list[str], topic: str = "t", raw: str = "_value") -> pa.Table:
    """As a job leaves it that lands raw values."""
    count = len(offsets)
    return pa.table(
        {
            "_topic": pa.array([topic] * count),
            "_partition": pa.array([0] * count, pa.int32()),
            "_offset": pa.array(offsets, pa.int64()),
            "_key": pa.array([b"k"] * count, pa.binary()),
            raw: pa.array([value.encode() for value in values], pa.binary()),
        }
    )


@pytest.fixture
def topic(semel: Command) -> Command:
    done = semel("produce", "t", "-k", "k", stdin="".join(value + "\n" for value in VALUES).encode())
    assert done.code == 0, done.err
    return semel


def test_a_landed_topic_is_proven_by_place(topic: Command, write: Write, tmp_path: Path) -> None:
    name = write(tmp_path, landed([3, 4, 0, 1, 2], VALUES[3:] + VALUES[:3]))
    done = topic("audit", "--input", "t", "--output", name)
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        f"PROVEN: {name} holds every row of t exactly once",
    ), done.out
    assert f"\n{name}: 5 rows\n" in done.out


def test_each_fault_of_a_landed_table_is_named(topic: Command, write: Write, tmp_path: Path) -> None:
    table = landed([0, 1, 1, 3, 9], [*VALUES[:2], VALUES[1], "other", "?"])
    others = landed([0, 1], ["of", "others"], "u")
    name = write(tmp_path, pa.concat_tables([others, table]))
    done = topic("audit", "--input", "t", "--output", name, "--format", "json")
    assert done.code == 1
    document = json.loads(done.out)
    assert {each["check"]: each["row_count"] for each in document["findings"]} == {
        "missing": 2,
        "duplicated": 1,
        "extra": 1,
        "differs": 1,
    }
    text = topic("audit", "--input", "t", "--output", name).out
    row = re.escape(f"{name} row ") + r"\d"  # which one is for the table's writer to say
    assert re.search(f"{row}, {row}: of t-0@1\n", text)
    assert "VIOLATED differs: 1 output rows that hold something else than their input row\n" in text
    assert re.search(f"input row\n  {row}: of t-0@3: column '_value' is b'other', where the input has", text)
    assert "; 2 of other topics not looked at" in text


@pytest.mark.thorough
def test_what_came_of_a_trimmed_log_is_not_provable(topic: Command, write: Write, tmp_path: Path) -> None:
    """Retention took the records, and the table rightly has their rows: as input as well as output."""
    name = write(tmp_path, landed([3, 4, 0, 1, 2], VALUES[3:] + VALUES[:3]))
    assert topic("topic", "trim-prefix", "t", "-o", "2").code == 0
    for sides in (("--input", "t", "--output", name), ("--input", name, "--output", "t")):
        done = topic("audit", *sides)
        why = (
            f"2 rows of {name} came of records that stood before the start of t: they are gone, and what came of them "
            "is not provable"
        )
        assert (done.code, done.out.splitlines()[-2:]) == (
            1,
            [f"NOT PROVABLE: {why}", f"NOT PROVEN: what could be compared is right; {why}"],
        ), done.out
        document = json.loads(topic("audit", *sides, "--format", "json").out)
        assert (document["verdict"], document["unproven"], document["findings"]) == ("not proven", why, [])
        assert [each["unprovable_rows"] for each in document["topics"]] == [
            2 * (each == name) for each in sides[1::2]
        ]
        assert "not provable" in topic("audit", *sides, "--format", "html").out
    done = topic("audit", "--input", name, "--output", "t", "--subset")
    assert done.code == 0, done.out  # what the log has lost need not be there


def test_what_is_wrong_of_a_trimmed_log_is_a_violation(topic: Command, write: Write, tmp_path: Path) -> None:
    """A double of what is gone, a place behind the start that the log has not, and one of no partition."""
    values = [VALUES[0], VALUES[0], *VALUES[2:], "?", "?"]
    table = landed([0, 0, 2, 3, 4, 9, 0], values)
    partitions = pa.array([0] * 6 + [7], pa.int32())
    name = write(tmp_path, table.set_column(1, "_partition", partitions))
    assert topic("topic", "trim-prefix", "t", "-o", "2").code == 0
    document = json.loads(topic("audit", "--input", "t", "--output", name, "--format", "json").out)
    found = {each["check"]: each["row_count"] for each in document["findings"]}
    assert (document["verdict"], found) == ("violated", {"duplicated": 1, "extra": 2})
    document = json.loads(topic("audit", "--input", name, "--output", "t", "--format", "json").out)
    found = {each["check"]: each["row_count"] for each in document["findings"]}
    assert (document["verdict"], found) == ("violated", {"missing": 3})


@pytest.mark.parametrize("raw", ["_value", "value"])
def test_raw_values_are_held_against_the_records(topic: Command, tmp_path: Path, raw: str) -> None:
    name = write_delta(tmp_path, landed(list(range(5)), [*VALUES[:4], "other"], raw=raw))
    done = topic("audit", "--input", "t", "--output", name)
    assert done.code == 1
    assert "VIOLATED differs: 1 " in done.out
    assert "missing" not in done.out


def test_of_read_values_the_keys_are_held_against_the_records(topic: Command, tmp_path: Path) -> None:
    """Beside columns of its own a landed table has the bytes of bad rows alone."""
    table = landed(list(range(5)), VALUES)
    places = table.drop_columns("_value").append_column("_error", pa.nulls(5, pa.string()))
    table = places.append_column("_value", pa.nulls(5, pa.binary())).append_column("id", pa.array(range(5)))
    folders = [tmp_path / "same", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    assert topic("audit", "--input", "t", "--output", write_delta(folders[0], table)).code == 0
    keys = pa.array([b"k", b"k", b"l", b"k", None], pa.binary())
    other = table.set_column(table.schema.get_field_index("_key"), "_key", keys)
    done = topic("audit", "--input", "t", "--output", write_delta(folders[1], other))
    assert done.code == 1
    assert "VIOLATED differs: 2 " in done.out


@pytest.mark.thorough
def test_rows_are_named_by_columns(topic: Command, write: Write, tmp_path: Path) -> None:
    rows = [json.loads(value) for value in VALUES]
    name = write(tmp_path, pa.Table.from_pylist(rows))
    for key in ("id", "name,id", "at.x"):
        done = topic("audit", "--input", "t", "--output", name, "--key", key)
        assert done.code == 0, done.out
    assert topic("audit", "--input", name, "--output", "t", "--key", "id").code == 0
    fewer = tmp_path / "fewer"
    fewer.mkdir()
    done = topic(
        "audit", "--input", "t", "--output", write(fewer, pa.Table.from_pylist(rows[1:])), "--key", "id"
    )
    assert done.code == 1
    assert "VIOLATED missing: 1 input rows that are not in the output\n  t-0@0: 0\n" in done.out


def field_texts(column: pa.Array, as_bytes: bool = False) -> list[bytes | None]:
    batch = pa.record_batch({"x": column})
    return (_as_bytes if as_bytes else _as_text)(batch, "x").to_pylist()


@pytest.mark.parametrize(
    ("column", "fields"),
    [
        (pa.array(["1", "", None]), ['"1"', '""', None]),
        (pa.array(["a", "b"]).dictionary_encode(), ['"a"', '"b"']),
        (pa.array([b"1"], pa.large_binary()), ['"1"']),
        (pa.array([1, -1, 0, 2**63 - 1, None], pa.int64()), ["1", "-1.0", "-0", "9223372036854775807", None]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([0.1, 1.0, -0.0, 1e300, 2.5, None]), ["0.1", "1", "0", "1e300", "2.50", None]),
        (pa.array([0.1], pa.float32()), ["0.10000000149011612"]),
        (pa.array([Decimal("1.00"), Decimal("0.10"), None], pa.decimal128(20, 2)), ["1", "0.1", None]),
        (pa.array([Decimal("0E-10")], pa.decimal128(20, 10)), ["0"]),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_a_column_is_what_it_is_in_json(column: pa.Array, fields: list[str | None]) -> None:
    expected = [None if each is None else field_text(each.encode()) for each in fields]
    assert field_texts(column) == expected


def test_columns_that_are_other_values_have_other_texts() -> None:
    columns = [
        *(
            pa.array(["1", "1.0", "true", "null", "[1]", "NaN", ""]),
            pa.array([1, 0]),
            pa.array([True, False]),
        ),
        *(pa.array([0.1, 0.30000000000000004, float("nan"), float("inf"), float("-inf")]), pa.array([0.5])),
    ]
    texts = [text for column in columns for text in field_texts(column)]
    assert len(set(texts)) == len(texts)
    assert NULL_FIELD not in texts


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pa.array(["1", None]), [b"1", None]),
        (pa.array([b"\x00\xff"]), [b"\x00\xff"]),
        (pa.array([1]), [b"1"]),
        (pa.array([True]), [b"true"]),
        (pa.array([1.0, 0.1]), [b"1.0", b"0.1"]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), [b"1.50"]),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_a_column_may_be_held_against_record_keys(column: pa.Array, keys: list[bytes | None]) -> None:
    assert field_texts(column, as_bytes=True) == keys


def test_a_table_alone_is_looked_through_for_repeats(topic: Command, write: Write, tmp_path: Path) -> None:
    name = write(tmp_path, landed([0, 1, 2], VALUES[:3]))
    done = topic("audit", "--output", name)
    assert (done.code, done.out.splitlines()[-1]) == (0, f"PROVEN: {name} holds no row twice")
    twice = tmp_path / "twice"
    twice.mkdir()
    name = write(twice, landed([0, 1, 0], VALUES[:3]))
    done = topic("audit", "--output", name)
    assert done.code == 1
    assert f"  {name} row 1, {name} row 3: of t-0@0\n" in done.out


@pytest.mark.thorough
def test_two_tables_of_which_one_names_the_topic(topic: Command, write: Write, tmp_path: Path) -> None:
    """As one that land has filled, and what was made of it without the column."""
    named, plain, both = (tmp_path / each for each in ("named", "plain", "both"))
    for folder in (named, plain, both):
        folder.mkdir()
    table = landed([0, 1, 2], VALUES[:3])
    names = write(named, table), write(plain, table.drop_columns("_topic"))
    for source, output in (names, names[::-1]):
        done = topic("audit", "--input", source, "--output", output)
        assert done.code == 0, done.out + done.err
    two = write(both, pa.concat_tables([table, landed([0], ["of others"], "u")]))
    assert topic("audit", "--output", two).code == 0
    for source, output in ((two, names[1]), (names[1], two)):
        done = topic("audit", "--input", source, "--output", output)
        assert (done.code, done.out) == (1, "")
        assert f"{two} has rows of several topics (t, u), and the other side does not say" in done.err
    done = topic("audit", "--input", two, "--output", names[0])
    assert done.code == 1
    assert "VIOLATED missing: 1 " in done.out
    assert ": of u-0@0\n" in done.out


def test_a_null_is_not_the_bytes_that_look_like_one(semel: Command, tmp_path: Path) -> None:
    """In keys and values, of a topic and of a table of its rows."""
    assert semel("produce", "t", "-k", "k", "-Z", stdin=b"\n\x00null\nn\n").code == 0
    table = landed([0, 1, 2], ["", "\x00null", "n"])
    raw = table.schema.get_field_index("_value")
    for number, (values, code) in enumerate(
        [
            ([None, b"\x00null", b"n"], 0),
            ([b"\x00null", b"\x00null", b"n"], 1),
            ([b"n", b"\x00null", b"n"], 1),
            ([b"", b"\x00null", b"n"], 1),
            ([None, None, b"n"], 1),
            ([None, b"\x00null", None], 1),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        name = write_parquet(folder, table.set_column(raw, "_value", pa.array(values, pa.binary())))
        done = semel("audit", "--input", "t", "--output", name)
        assert done.code == code, done.out + done.err
        assert ("VIOLATED differs: 1 " in done.out) is bool(code)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--output", "delta:/no/such/folder"], 2, "there is nothing"),
        (["--output", "orc:x"], 2, "neither a topic nor delta:PATH"),
        (["--output", "NAME", "--key", "nope"], 2, "has no column 'nope'"),
        (["--output", "NAME", "--key", "when"], 2, "has no one text in JSON"),
        (["--output", "t", "--input", "NAME", "--where", "true"], 2, "not of a table"),
    ],
)
def test_what_cannot_be_read_is_told(
    topic: Command, tmp_path: Path, options: list[str], code: int, said: str
) -> None:
    table = pa.table({"id": [1], "when": pa.array([1], pa.timestamp("us"))})
    name = write_delta(tmp_path, table)
    done = topic("audit", *(name if option == "NAME" else option for option in options))
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_a_folder_that_is_no_table_is_told(topic: Command, tmp_path: Path) -> None:
    done = topic("audit", "--output", f"delta:{tmp_path}")
    assert (done.code, done.out) == (1, "")
    assert "is not read" in done.err


def test_a_landed_folder_is_what_its_manifest_lists(topic: Command, tmp_path: Path) -> None:
    """Beside it lie files of commits in the making, of killed jobs, and those that compaction replaced."""
    folder = tmp_path / "landed"
    land = ("land", "t", "--to", str(folder), "--format", "parquet", "--partition-by", "day")
    done = topic(*land, "--commit-rows", "1", "--compact", "2", "--until-end", "-q")
    assert done.code == 0, done.err
    name = f"parquet:{folder}"
    listed = next(folder.glob("_day=*/*.parquet"))
    (listed.parent / "semel-land-9-9.parquet").write_bytes(listed.read_bytes())
    (listed.parent / "semel-land-9-8.parquet").touch()
    assert len(files_of(folder)) < len(list(folder.glob("_day=*/*.parquet")))
    done = topic("audit", "--input", "t", "--output", name)
    assert done.code == 0, done.out + done.err
    assert f"{name}: 5 rows" in done.out

    files_of(folder)[0].unlink()
    folder.joinpath("lost").mkdir()
    done = topic("audit", "--input", "t", "--output", name)
    assert done.code != 0
    assert "Traceback" not in done.err


def test_a_table_may_be_the_input_of_its_own_topic(topic: Command, tmp_path: Path) -> None:
    """Of a table of several topics the rows of the other side's topic count."""
    assert topic("produce", "other", stdin=b"a\nb\n").code == 0
    folder = tmp_path / "landed"
    assert (
        topic("land", "t", "other", "--to", str(folder), "--format", "parquet", "--until-end", "-q").code == 0
    )
    done = topic("audit", "--input", f"parquet:{folder}", "--output", "t")
    assert done.code == 0, done.out + done.err
    assert "PROVEN" in done.out


def test_a_manifest_without_files_is_an_empty_table(topic: Command, tmp_path: Path) -> None:
    folder = tmp_path / "landed"
    assert topic("topic", "create", "u").code == 0
    done = topic("land", "u", "--to", str(folder), "--format", "parquet", "--until-end", "-q")
    assert done.code == 0, done.err
    (folder / "semel-land-9-9.parquet").touch()
    done = topic("audit", "--input", "t", "--output", f"parquet:{folder}")
    assert done.code == 1
    assert "VIOLATED missing: 5 " in done.out, done.err


def test_columns_of_later_files_and_of_folders_are_there(topic: Command, tmp_path: Path) -> None:
    """Without a manifest all files are the table: where the first of them lacks a column, and in hive's folders."""
    rows = [json.loads(value) for value in VALUES]
    folder = tmp_path / "hive"
    for number, row in enumerate(rows):
        part = folder / f"_part={row['name']}"
        part.mkdir(parents=True)
        columns = {"place": pa.array([number], pa.int32() if number else pa.int64())}
        later = {"id": [row["id"]]} if number else {}
        pq.write_table(pa.table({**columns, **later}), part / "a.parquet")
    (folder / "_SUCCESS").touch()
    name = f"parquet:{folder}"
    done = topic("audit", "--input", "t", "--output", name, "--input-key", "name", "--key", "_part")
    assert done.code == 0, done.out + done.err
    done = topic("audit", "--input", "t", "--output", name, "--input-key", "id", "--key", "place")
    assert done.code == 0, done.out + done.err
    done = topic("audit", "--input", "t", "--output", name, "--key", "id")
    assert "VIOLATED missing: 1 " in done.out  # the first file has no column for it: null


def test_a_column_of_the_files_is_read_there(topic: Command, tmp_path: Path) -> None:
    part = tmp_path / "table" / "id=9"
    part.mkdir(parents=True)
    pq.write_table(pa.table({"id": [0, 1, 2, 3, 4]}), part / "a.parquet")
    name = f"parquet:{part.parent}"
    assert topic("audit", "--input", "t", "--output", name, "--key", "id").code == 0


def test_the_files_of_a_delta_table_are_no_table(topic: Command, tmp_path: Path) -> None:
    folder = write_delta(tmp_path, landed(list(range(5)), VALUES)).partition(":")[2]
    done = topic("audit", "--input", "t", "--output", f"parquet:{folder}")
    assert (done.code, done.out) == (2, "")
    assert f"say delta:{folder}" in done.err


def test_a_folder_without_files_is_told(topic: Command, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    done = topic("audit", "--output", f"parquet:{folder}")
    assert (done.code, done.out) == (1, "")
    assert "there are no files in it" in done.err
    (folder / "_semel").mkdir()
    done = topic("audit", "--output", f"parquet:{folder}")
    assert (done.code, done.out) == (1, "")
    assert "has no manifest" in done.err


def test_a_field_that_is_named_value_is_not_the_records_value(topic: Command, tmp_path: Path) -> None:
    """Read values have ``_error`` beside them, whatever their columns are called."""
    done = topic("produce", "v", stdin=b'{"value": "a"}\n{"value": "b"}\n')
    assert done.code == 0, done.err
    folder = tmp_path / "read"
    read = ("--value", "json", "--schema", "value string", "--format", "parquet", "--until-end", "-q")
    done = topic("land", "v", "--to", str(folder), *read)
    assert done.code == 0, done.err
    done = topic("audit", "--input", "v", "--output", f"parquet:{folder}")
    assert done.code == 0, done.out + done.err
