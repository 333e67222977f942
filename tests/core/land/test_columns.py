"""The columns of a landed table, and in what way they may grow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.columns import additions, landed_rows, landed_schema
from semel.errors import ConfigError
from semel.record.columnar import table_schema

N = pa.schema([("n", pa.int64())])


def records(count: int, *, with_headers: bool = False) -> pa.Table:
    columns = {
        "key": [b"k"] * count,
        "value": [b"%d" % index for index in range(count)],
        "topic": ["t"] * count,
        "partition": [0] * count,
        "offset": list(range(count)),
        "timestamp": [0] * count,
        "timestampType": [0] * count,
    }
    if with_headers:
        columns["headers"] = [[{"key": "h", "value": b"%d" % index}] for index in range(count)]
    return pa.table(columns, schema=table_schema(include_headers=with_headers))


@given(st.lists(st.booleans(), max_size=30))
def test_good_and_bad_values_keep_their_places(is_bad: list[bool]) -> None:
    bad = [(index, f"why {index}") for index, its in enumerate(is_bad) if its]
    good = [index for index, its in enumerate(is_bad) if not its]
    rows = landed_rows(records(len(is_bad)), pa.table({"n": good}, schema=N), bad, landed_schema(N, None))
    for index, row in enumerate(rows.to_pylist()):
        wanted = (None, b"%d" % index, f"why {index}") if is_bad[index] else (index, None, None)
        assert (row["n"], row["_value"], row["_error"]) == wanted
        assert row["_offset"] == index


def test_raw_rows_have_their_value_always() -> None:
    rows = landed_rows(records(2), None, (), landed_schema(None, "_day"))
    assert rows.column("_value").to_pylist() == [b"0", b"1"]
    assert str(rows.column("_day")[0]) == "1970-01-01"


def test_headers_are_a_column_where_they_are_asked_for() -> None:
    schema = landed_schema(N, None, with_headers=True)
    rows = landed_rows(records(2, with_headers=True), pa.table({"n": [0]}, schema=N), [(1, "why")], schema)
    assert rows.column("headers").to_pylist() == [
        [{"key": "h", "value": b"0"}],
        [{"key": "h", "value": b"1"}],
    ]
    assert "headers" not in landed_schema(N, None).names


def test_a_value_may_have_a_column_of_that_name_where_headers_are_not_asked_for() -> None:
    value = pa.schema([("headers", pa.string())])
    rows = landed_rows(
        records(1), pa.table({"headers": ["its own"]}, schema=value), (), landed_schema(value, None)
    )
    assert rows.column("headers").to_pylist() == ["its own"]
    with pytest.raises(ConfigError, match="the table has 'headers' of the record"):
        landed_schema(value, None, with_headers=True)


def test_a_table_with_headers_is_not_landed_without_them() -> None:
    with pytest.raises(ConfigError, match="say --headers"):
        additions(landed_schema(N, None, with_headers=True), landed_schema(N, None))
    grown = additions(landed_schema(N, None), landed_schema(N, None, with_headers=True))
    assert [field.name for field in grown] == ["headers"]


def test_a_time_beyond_the_years_of_dates_has_no_day() -> None:
    times = pa.array([2**62, 0], pa.timestamp("us", "UTC"))
    table = records(2).set_column(5, "timestamp", times)
    rows = landed_rows(table, None, (), landed_schema(None, "_day"))
    assert rows.column("_day").is_valid().to_pylist() == [False, True]


def test_a_column_of_the_record_is_nobody_elses() -> None:
    for name in ("_offset", "_Offset"):
        with pytest.raises(ConfigError, match=f"has a column '{name}', and the table has"):
            landed_schema(pa.schema([(name, pa.int64())]), None)


@pytest.mark.parametrize(
    ("by", "says"), [("m", "no such column; take day, or one of n, _topic"), ("_key", "it is binary")]
)
def test_what_cannot_name_a_folder_is_refused(by: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        landed_schema(N, by)


def test_a_column_whose_own_name_is_too_long_for_a_folder_is_refused() -> None:
    names = ["é" * 38, "é" * 39]  # six bytes for each, and 27 for null
    value = pa.schema([(name, pa.string()) for name in names])
    landed_schema(value, names[0])
    with pytest.raises(
        ConfigError, match=r"would have 261 bytes, and a name has 255 at most\. Nothing was landed"
    ):
        landed_schema(value, names[1])


def test_new_columns_are_added_and_nothing_else_is() -> None:
    wanted = pa.schema([("m", pa.string()), ("n", pa.int64())])
    assert additions(N, wanted) == [wanted.field("m")]
    assert additions(wanted, wanted) == []
    with pytest.raises(ConfigError, match=r"the schema lacks \(m\)"):
        additions(wanted, N)
    with pytest.raises(ConfigError, match="'n' of the table is int64, and the schema says string"):
        additions(N, pa.schema([("n", pa.string())]))
    with pytest.raises(ConfigError, match="wants values in n"):
        additions(pa.schema([pa.field("n", pa.int64(), nullable=False)]), N)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ["userId", "userid"],
            "'userId' and 'userid', which Spark takes for one, for only their case differs",
        ),
        (["a", "a"], "the column 'a' twice"),
        (["_Offset"], "has a column '_Offset', and the table has '_offset' of the record"),
    ],
)
def test_names_that_are_one_to_readers_are_named(names: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        landed_schema(pa.schema([(name, pa.int64()) for name in names]), None)
