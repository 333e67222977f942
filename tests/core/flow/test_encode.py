"""Rows and tables as JSON: the same bytes for the same row, which read back as the row, or a refusal that names it."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.generated_rows import OF_KIND, TEXT, TIME

from semel.core.flow.columns import NotOfSchema
from semel.core.flow.encode import encode_rows, encode_table
from semel.core.flow.schema import Kind, parse_schema


@dataclass
class Click:
    user: str
    at: datetime | None = None
    tags: list = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    at: datetime


class Visit(msgspec.Struct, frozen=True):
    user: str
    click: Click | None = None


class Colour(enum.Enum):
    RED = "red"


def encoded(*rows: object) -> list[bytes]:
    return encode_rows(list(rows)).to_pylist()


def test_rows_of_every_class():
    row = parse_schema("user string, n long").row_type("a", 1)
    assert encoded(row, {"user": "a", "n": 1}, Click("a"), Visit("a")) == [
        b'{"user":"a","n":1}',
        b'{"n":1,"user":"a"}',
        b'{"user":"a","at":null,"tags":[]}',
        b'{"user":"a","click":null}',
    ]
    assert encoded() == []
    assert encode_rows((row,)).type == pa.binary()


def test_equal_rows_have_equal_bytes():
    assert len(set(encoded({"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}))) == 1
    assert encoded({"s": {"b", "a", "c"}}) == [b'{"s":["a","b","c"]}']
    winter = datetime(2024, 1, 1, 12, tzinfo=UTC)
    elsewhere = winter.astimezone(ZoneInfo("Europe/Berlin"))
    for of in (Click, lambda user, at: {"user": user, "at": at}, lambda _, at: Frozen(at)):
        assert (
            len(set(encoded(of("a", winter), of("a", elsewhere), of("a", winter.replace(tzinfo=None))))) == 1
        )


def test_what_holds_a_plain_value():
    assert encoded(
        {"a": np.int64(1), "b": np.float32(0.5), "c": np.bool_(True), "d": np.str_("x"), "e": Colour.RED}
    ) == [b'{"a":1,"b":0.5,"c":true,"d":"x","e":"red"}']
    assert encoded({"a": Decimal("1.50"), "b": date(2024, 1, 2), "c": b"\x00"}) == [
        b'{"a":"1.50","b":"2024-01-02","c":"AA=="}'
    ]


def test_raw_json_in_a_row():
    assert encoded({"a": msgspec.Raw(b"[1,\n2]")}, {"a": 1}) == [b'{"a":[1,\n2]}', b'{"a":1}']
    assert encoded(msgspec.Raw(b"{\n}"), msgspec.Raw(b"{}")) == [b"{\n}", b"{}"]
    assert encoded(msgspec.Raw(b'{"a":\n{}}')) == [b'{"a":\n{}}']


# --- times ------------------------------------------------------------------------------------------------

AROUND = st.sampled_from(
    [
        lambda it: it,
        lambda it: [it],
        lambda it: {"x": it},
        lambda it: Click("a", it),
        lambda it: Visit("a", Click("b", it)),
    ]
)


def instant(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@given(st.lists(st.tuples(TEXT, st.none() | TIME, AROUND), min_size=1, max_size=5))
def test_times_are_in_utc_wherever_they_are(cells):
    rows = [{"text": text, "held": around(time)} for text, time, around in cells]
    before = repr(rows)
    for (text, time, around), value in zip(cells, encoded(*rows), strict=True):
        held = msgspec.to_builtins(around(None if time is None else instant(time).astimezone(UTC)))
        assert msgspec.json.decode(value) == {"text": text, "held": held}
    assert repr(rows) == before  # the caller's rows are left as they were


@given(st.lists(TIME, min_size=1, max_size=5))
def test_times_in_rows_of_one_class(times: list[datetime]):
    row_type = parse_schema("n long, at timestamp").row_type
    for of in (lambda time: row_type(1, time), Frozen, lambda time: {"at": time}):
        values = encoded(*map(of, times))
        assert [msgspec.json.decode(value, type=row_type).at for value in values] == list(map(instant, times))
        assert all(value.endswith(b'Z"}') for value in values)


def test_a_zone_whose_offset_has_seconds():
    time = datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
    assert time.utcoffset().total_seconds() % 60
    assert encoded({"at": time}) == [
        b'{"at":"%s"}' % time.astimezone(UTC).isoformat().replace("+00:00", "Z").encode()
    ]


def test_times_in_rows_of_several_classes():
    """What the first row has is not all that there is."""
    here, elsewhere = (
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    )
    assert encoded(Frozen(here), Click("a", here, [elsewhere])) == [
        b'{"at":"2024-01-01T00:00:00Z"}',
        b'{"user":"a","at":"2024-01-01T00:00:00Z","tags":["2024-01-01T00:00:00Z"]}',
    ]


def test_texts_that_look_like_times_are_left_alone():
    texts = ["12:30:45", "+02:00", "2024-01-01T00:00:00", "2024-01-01T00:00:00.000001", "-01:00", ":00:00"]
    for rows in ([{"a": text} for text in texts], [{"a": [text]} for text in texts], list(map(Click, texts))):
        assert encoded(*rows) == [msgspec.json.encode(row) for row in rows]


# --- refusals ---------------------------------------------------------------------------------------------

ODD = st.sampled_from([math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")])


@given(
    st.lists(OF_KIND[Kind.DOUBLE] | TEXT | st.none() | OF_KIND[Kind.LONG] | OF_KIND[Kind.BINARY], max_size=6),
    ODD,
    st.integers(0, 6),
    st.sampled_from([lambda it: it, lambda it: [1.0, [it]], lambda it: {"y": it}, lambda it: Visit(it)]),
)
def test_nan_and_infinity_are_refused_wherever_they_are(cells, odd, place: int, around):
    rows = [{"x": around(cell)} for cell in cells]
    place = min(place, len(rows))
    assert len(encode_rows(rows)) == len(rows)
    with pytest.raises(NotOfSchema, match="NaN or infinity") as refused:
        encode_rows([*rows[:place], {"x": around(odd)}, *rows[place:]])
    assert refused.value.index == place


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (None, "None (NoneType) is no JSON object: a row is a dictionary"),
        (5, "5 (int) is no JSON object"),
        ([{}], "is no JSON object"),
        ("{", "is no JSON object"),
        ((1, 2), "is no JSON object"),
        ({"a": object()}, "cannot be written as JSON"),
        ({1: 2}, "cannot be written as JSON"),
        ({"a": "\ud800"}, "cannot be written as JSON"),
        ({"a": np.datetime64("2024-01-01")}, "cannot be written as JSON"),
        ({"a": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}, "outside of the years 1 to 9999"),
        (msgspec.Raw(b"[]"), "is no JSON object"),
        (msgspec.Raw(b""), "is no JSON object"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(row: object, why: str):
    with pytest.raises(NotOfSchema) as refused:
        encode_rows([{"a": 1}, row, {"b": object()}])
    assert refused.value.index == 1
    assert why in str(refused.value)
    with pytest.raises(NotOfSchema):
        encode_rows([row])


def test_a_row_in_itself():
    row: dict = {}
    row["row"] = row
    with pytest.raises(NotOfSchema, match="row 0: "):
        encode_rows([row])


# --- tables -----------------------------------------------------------------------------------------------


def test_tables_of_any_type():
    table = pa.table(
        {
            'a"b': pa.array([1, None, 3], pa.int8()),
            "words": pa.array([["x"], None, []], pa.list_(pa.string())),
            "inner": pa.array(
                [{"y": 1.5, "t": datetime(2024, 1, 1, tzinfo=UTC)}, None, {"y": None, "t": None}]
            ),
            "price": pa.array([Decimal("1.50"), None, Decimal("2.00")]),
            "word": pa.array(["u", "u", None]).dictionary_encode(),
        }
    )
    assert encode_table(table).to_pylist() == [
        b'{"a\\"b":1,"words":["x"],"inner":{"t":"2024-01-01T00:00:00Z","y":1.5},"price":"1.50","word":"u"}',
        b'{"a\\"b":null,"words":null,"inner":null,"price":null,"word":"u"}',
        b'{"a\\"b":3,"words":[],"inner":{"t":null,"y":null},"price":"2.00","word":null}',
    ]
    assert encode_table(pa.concat_tables([table, table]).slice(2, 2)).to_pylist() == [
        *encode_table(table).to_pylist()[2:],
        *encode_table(table).to_pylist()[:1],
    ]


def test_tables_without_rows_or_columns():
    assert encode_table(pa.table({"a": pa.array([], pa.int64())})).to_pylist() == []
    assert encode_table(pa.table({"a": pa.array([], pa.list_(pa.int64()))})).to_pylist() == []
    assert encode_table(pa.table({"a": [1, 2]}).select([])).to_pylist() == [b"{}", b"{}"]


@pytest.mark.parametrize("column", [[1.0, None, math.nan], [[1.0], None, [math.inf]]])
def test_nan_and_infinity_in_tables_are_refused(column: list):
    with pytest.raises(NotOfSchema) as refused:
        encode_table(pa.table({"n": [1, 2, 3], "x": column}))
    assert (refused.value.index, refused.value.column) == (2, "x")
