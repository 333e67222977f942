"""A column keeps every value of its kind to the bit, takes what is like it, and refuses what is not."""

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.generated_rows import OF_KIND, TIME, nearest_float

from semel.core.flow.columns import NotOfSchema, column_of, in_family, json_texts, kind_of, values_of
from semel.core.flow.schema import Kind


class Word(enum.StrEnum):
    ONE = "one"


class Number(enum.IntEnum):
    TWO = 2


class Text(str):
    __slots__ = ()


class Day(date):
    pass


class Moment(datetime):
    pass


COLUMN = st.sampled_from(list(Kind)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | OF_KIND[kind], max_size=12))
)


@given(COLUMN)
def test_there_and_back(kind_and_values):
    kind, values = kind_and_values
    column = column_of(kind, values)
    assert column.type == kind.arrow
    assert column.equals(column_of(kind, values, is_settled=True))
    back = values_of(kind, column)
    assert back == values
    assert list(map(repr, back)) == list(map(repr, values))  # also the sign of zero, and UTC
    assert set(map(type, back)) <= {kind.python, type(None)}


@given(COLUMN, st.integers(0, 3), st.integers(0, 3))
def test_slices(kind_and_values, before: int, behind: int):
    kind, values = kind_and_values
    column = column_of(kind, values)[before : max(before, len(values) - behind)]
    expected = values[before : max(before, len(values) - behind)]
    assert values_of(kind, column) == expected
    assert json_texts(kind, column).to_pylist() == [
        None if value is None else msgspec.json.encode(value).decode() for value in expected
    ]


def test_escapes_in_a_slice():
    column = pa.array(["a", "b", "c", '"'])
    assert json_texts(Kind.STRING, column[3:]).to_pylist() == [r'"\""']
    assert json_texts(Kind.STRING, column[2:3]).to_pylist() == ['"c"']


@given(st.lists(st.none() | TIME))
def test_times_of_every_zone(times: list[datetime | None]):
    instants = [time if time is None or time.tzinfo else time.replace(tzinfo=UTC) for time in times]
    assert values_of(Kind.TIMESTAMP, column_of(Kind.TIMESTAMP, times)) == instants


def test_a_zone_whose_offset_has_seconds():
    time = datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
    (back,) = values_of(Kind.TIMESTAMP, column_of(Kind.TIMESTAMP, [time]))
    assert back == time
    assert time.utcoffset().total_seconds() % 60


@given(st.lists(st.floats(allow_nan=True)))
def test_doubles_with_nan_and_infinity_are_kept_as_columns(numbers: list[float]):
    assert list(map(repr, values_of(Kind.DOUBLE, column_of(Kind.DOUBLE, numbers)))) == list(
        map(repr, numbers)
    )


@given(st.lists(st.floats(-3.4e38, 3.4e38)))
def test_floats_are_the_nearest(numbers: list[float]):
    assert values_of(Kind.FLOAT, column_of(Kind.FLOAT, numbers)) == list(map(nearest_float, numbers))


def test_what_holds_a_plain_value():
    assert values_of(Kind.STRING, column_of(Kind.STRING, [Word.ONE, Text("a"), np.str_("b")])) == [
        "one",
        "a",
        "b",
    ]
    assert values_of(Kind.LONG, column_of(Kind.LONG, [Number.TWO, np.int8(1), np.uint64(3)])) == [2, 1, 3]
    assert values_of(Kind.DOUBLE, column_of(Kind.DOUBLE, [np.float32(0.5), 1, 2**60 + 1])) == [
        0.5,
        1.0,
        2.0**60,
    ]
    assert values_of(Kind.BOOLEAN, column_of(Kind.BOOLEAN, [np.bool_(True), None])) == [True, None]
    assert values_of(Kind.BINARY, column_of(Kind.BINARY, [bytearray(b"a"), memoryview(b"b")])) == [b"a", b"b"]
    assert values_of(Kind.DATE, column_of(Kind.DATE, [Day(2024, 1, 2)])) == [date(2024, 1, 2)]
    moment = Moment(2024, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=1)))
    (back,) = values_of(Kind.TIMESTAMP, column_of(Kind.TIMESTAMP, [moment]))
    assert (back, type(back), back.tzinfo) == (moment, datetime, UTC)


class Nanoseconds(datetime):
    nanosecond = 5


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("string", 5, "5 (int) is no string"),
        ("string", b"a", "b'a' (bytes) is no string"),
        ("string", "\ud800", "half a surrogate pair"),
        ("bigint", "5", "'5' (str) is no bigint"),
        ("bigint", 1.0, "1.0 (float) is no bigint"),
        ("bigint", True, "True (bool) is no bigint"),
        ("bigint", np.True_, "is no bigint"),
        ("bigint", 2**63, "9223372036854775808 (int) is out of 64 bits"),
        ("int", -(2**31) - 1, "is out of 32 bits"),
        ("double", "1.5", "is no double"),
        ("double", True, "is no double"),
        ("double", 10**400, "is out of a double's range"),
        ("double", np.longdouble(1), "is no double"),
        ("float", 1e39, "is out of a float's range"),
        ("boolean", 1, "1 (int) is no boolean"),
        ("timestamp", date(2024, 1, 1), "is no timestamp"),
        ("timestamp", 5, "is no timestamp"),
        ("timestamp", "2024-01-01T00:00:00Z", "is no timestamp"),
        (
            "timestamp",
            datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
            "outside of the years 1 to 9999",
        ),
        ("timestamp", Nanoseconds(2024, 1, 1), "is no timestamp"),
        ("date", datetime(2024, 1, 1, tzinfo=UTC), "is no date"),
        ("date", 5, "is no date"),
        ("binary", "AAEC", "'AAEC' (str) is no binary"),
        ("string", [1], "[1] (list) is no string"),
        ("string", "x" * 9 + "\ud800" + "y" * 90, "..."),
    ],
)
def test_the_first_value_of_another_kind_is_named(kind: str, value: object, why: str):
    with pytest.raises(NotOfSchema) as refused:
        column_of(Kind(kind), [None, value, object()])
    assert refused.value.index == 1
    assert why in str(refused.value)
    assert len(str(refused.value)) < 200


# --- columns of other Arrow types -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        ("bigint", pa.array([1, None], pa.int8()), [1, None]),
        ("bigint", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
        ("int", pa.array([1], pa.int64()), [1]),
        ("double", pa.array([1, 2**53]), [1.0, 2.0**53]),
        ("double", pa.array([0.5], pa.float32()), [0.5]),
        ("float", pa.array([0.1, math.inf], pa.float64()), [nearest_float(0.1), math.inf]),
        ("string", pa.array(["a"], pa.large_string()), ["a"]),
        ("string", pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        ("binary", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (
            "timestamp",
            pa.array([1_000], pa.timestamp("ns", "Europe/Berlin")),
            [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
        ),
        ("timestamp", pa.array([1], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1, 0, UTC)]),
        ("date", pa.array([86_400_000], pa.date64()), [date(1970, 1, 2)]),
        ("boolean", pa.nulls(2), [None, None]),
        ("string", pa.chunked_array([["a"], [], ["b"]]), ["a", "b"]),
        ("string", pa.chunked_array([], pa.string()), []),
    ],
)
def test_columns_that_are_like(kind: str, column: pa.Array, values: list):
    narrow = in_family(Kind(kind), column)
    assert narrow.type == Kind(kind).arrow
    assert values_of(Kind(kind), narrow) == values


@pytest.mark.parametrize(
    ("kind", "column", "why"),
    [
        ("bigint", pa.array(["1"]), "Arrow's string is no bigint"),
        ("bigint", pa.array([1.0]), "Arrow's double is no bigint"),
        ("bigint", pa.array([2**63], pa.uint64()), "Arrow's uint64 does not fit into bigint"),
        ("int", pa.array([2**31]), "Arrow's int64 does not fit into int"),
        ("double", pa.array([2**53 + 1]), "does not fit into double"),
        ("float", pa.array([1e39]), "out of a float's range"),
        ("timestamp", pa.array([1], pa.timestamp("ns")), "does not fit into timestamp"),
        ("timestamp", pa.array(["2024-01-01T00:00:00Z"]), "Arrow's string is no timestamp"),
        ("date", pa.array([0], pa.timestamp("us")), "is no date"),
        ("string", pa.array([b"a"]), "Arrow's binary is no string"),
        ("string", pa.array([["a"]]), "is no string"),
    ],
)
def test_columns_that_are_not(kind: str, column: pa.Array, why: str):
    with pytest.raises(NotOfSchema) as refused:
        in_family(Kind(kind), column)
    assert why in str(refused.value)


def test_times_that_python_has_not():
    for column in (
        pa.array([2**61], pa.timestamp("us", "UTC")),
        pa.array([-(2**61)], pa.timestamp("us", "UTC")),
    ):
        with pytest.raises(NotOfSchema, match="outside of the years 1 to 9999"):
            values_of(Kind.TIMESTAMP, column)
    with pytest.raises(NotOfSchema, match="outside of the years 1 to 9999"):
        values_of(Kind.DATE, pa.array([10_000_000], pa.date32()))


@pytest.mark.parametrize("kind", list(Kind))
def test_the_kind_of_an_arrow_type(kind: Kind):
    assert kind_of(kind.arrow) is kind


def test_the_kind_of_other_arrow_types():
    assert kind_of(pa.uint16()) is Kind.INT
    assert kind_of(pa.uint32()) is Kind.LONG
    assert kind_of(pa.float16()) is Kind.FLOAT
    assert kind_of(pa.dictionary(pa.int8(), pa.large_string())) is Kind.STRING
    assert kind_of(pa.null()) is Kind.STRING
    assert kind_of(pa.list_(pa.int8())) is kind_of(pa.decimal128(5)) is kind_of(pa.duration("s")) is None
