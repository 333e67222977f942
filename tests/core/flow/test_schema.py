"""A schema is the same as text, as a class and as Arrow's, and what cannot be one is refused in words."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, ClassVar, NotRequired, TypedDict

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.generated_rows import SCHEMA_AND_ROWS, SCHEMAS

from semel.core.flow.schema import COLUMNS_MAX, Field, Kind, Schema, parse_schema, schema_of
from semel.errors import ConfigError


def test_text_as_spark_has_it():
    schema = parse_schema("user string, `from` LONG,n: int ,\n at Timestamp, _id binary")
    assert schema.names == ("user", "from", "n", "at", "_id")
    assert [field.kind for field in schema] == [Kind.STRING, Kind.LONG, Kind.INT, Kind.TIMESTAMP, Kind.BINARY]
    assert schema.ddl == "user string, from bigint, n int, at timestamp, _id binary"
    assert str(parse_schema("größe double")) == "`größe` double"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("long", "bigint"),
        ("bigint", "bigint"),
        ("integer", "int"),
        ("real", "float"),
        ("timestamp_ltz", "timestamp"),
    ],
)
def test_second_words(word: str, kind: str):
    assert parse_schema(f"a {word}").fields == (Field("a", Kind(kind)),)


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("user strin", 6, "'strin' is no type; did you mean 'string'"),
        ("user string, n intt", 16, "'intt' is no type; did you mean 'int'"),
        ("at datetime", 4, "did you mean 'timestamp'"),
        ("a varchar(5)", 3, "did you mean 'string'"),
        ("a qqqqq", 3, "'qqqqq' is no type; types are string, bigint"),
        ("a array<int>", 3, "columns are flat"),
        ("user", 5, "column 'user' has no type"),
        ("user, n int", 5, "column 'user' has no type"),
        ("user string,", 13, "a column's name is missing here"),
        ("user string,, n int", 13, "a column's name is missing here"),
        (", n int", 1, "a column's name is missing here"),
        ("", 1, "it has no columns"),
        ("  ", 3, "it has no columns"),
        ("a string b int", 10, "a comma or the end is expected"),
        ("a string NOT NULL", 10, "every column may be null"),
        ("n int, N int", 8, "'n' and 'N' differ only in case"),
        ("n int, a string, n int", 18, "there are two columns 'n'"),
        ("`a b` int", 1, "'a b' is no Python name"),
        ("a int, event-type string", 8, "'event-type' is no Python name"),
        ("__a int", 1, "begins with two underscores"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, place: int, why: str):
    with pytest.raises(ConfigError) as refused:
        parse_schema(text)
    assert str(refused.value).startswith(f"schema {text!r}, character {place}: ")
    assert why in str(refused.value)


@given(
    st.text(st.sampled_from("ab `:,<>()\n") | st.characters(), max_size=12) | st.sampled_from(["a int" * 9])
)
def test_any_text_is_a_schema_or_refused(text: str):
    try:
        schema = parse_schema(text)
    except ConfigError:
        return
    assert parse_schema(schema.ddl) == schema


@given(SCHEMAS)
def test_text_and_class_and_columns_say_the_same(schema: Schema):
    assert parse_schema(schema.ddl) == schema
    assert schema_of(schema.row_type) == schema
    assert schema.arrow.names == list(schema.names)
    assert schema.arrow.types == [field.kind.arrow for field in schema]
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(SCHEMA_AND_ROWS)
def test_rows_are_values(schema_and_rows):
    schema, rows = schema_and_rows
    assert schema.row_type is Schema(schema.fields).row_type
    for row in rows:
        assert pickle.loads(pickle.dumps(row)) == copy.copy(row) == row
        assert hash(row) == hash(copy.copy(row))
        with pytest.raises(AttributeError):
            setattr(row, schema.names[0], None)
    assert all(getattr(schema.row_type(), name) is None for name in schema.names)


def test_a_row_shows_its_columns():
    assert repr(parse_schema("user string, n int").row_type("a", 1)) == "Row(user='a', n=1)"


def test_columns_by_name():
    schema = parse_schema("user string, url string, at timestamp")
    assert schema.select(["at", "user"]) == parse_schema("at timestamp, user string")
    assert schema["url"].kind is Kind.STRING
    assert "url" in schema
    assert "usr" not in schema
    assert len(schema) == 3
    with pytest.raises(
        ConfigError, match="no column 'usr'; did you mean 'user'\\?; there are: user string, url"
    ):
        schema.select(["usr"])


def test_fields_by_word():
    assert Schema((Field("a", "long"),)) == parse_schema("a bigint")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'bigint'"):
        Field("a", "bigin")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="it has no columns"):
        Schema(())
    with pytest.raises(ConfigError, match=f"at most {COLUMNS_MAX:,}"):
        Schema(tuple(Field(f"a{number}", Kind.INT) for number in range(COLUMNS_MAX + 1)))


# --- classes ----------------------------------------------------------------------------------------------


@dataclass
class Click:
    user: str
    count: int
    share: float | None
    at: datetime
    day: date
    raw: bytes
    small: Annotated[int, Kind.INT]
    near: Annotated[float | None, "a note", Kind.FLOAT] = None
    is_first: bool = False
    known: ClassVar[int] = 5


class ClickStruct(msgspec.Struct):
    user: str
    count: int | None = None


class ClickDict(TypedDict):
    user: str
    count: NotRequired[int]


def test_classes():
    assert schema_of(Click) == parse_schema(
        "user string, count long, share double, at timestamp, day date, raw binary, small int, near float, "
        "is_first boolean"
    )
    assert schema_of(ClickStruct) == schema_of(ClickDict) == schema_of("user string, count long")
    assert schema_of(schema_of(Click)) == schema_of(Click)


class Tagged(msgspec.Struct, tag=True):
    user: str


class Renamed(msgspec.Struct, rename="camel"):
    user_name: str


class AsArray(msgspec.Struct, array_like=True):
    user: str


class Nested:
    tags: list[str]


class TwoKinds:
    user: str | int


class Contradicts:
    user: Annotated[str, Kind.INT]


class Unknown:
    user: "NoSuchName"  # noqa: F821, UP037


class Empty:
    pass


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (Tagged, "a plain JSON object"),
        (Renamed, "a plain JSON object"),
        (AsArray, "a plain JSON object"),
        (Nested, "Nested.tags: list.* is no column's type: take one of str .string., int .bigint."),
        (TwoKinds, "TwoKinds.user"),
        (Contradicts, "Contradicts.user"),
        (Unknown, "the annotations of Unknown cannot be read"),
        (Empty, "Empty has no annotations"),
        (5, "a text or a class with annotations, not 5"),
        (list[str], "a text or a class with annotations"),
    ],
)
def test_classes_that_are_no_rows(declared, why: str):
    with pytest.raises(ConfigError, match=why):
        schema_of(declared)


def test_arrow_types():
    assert parse_schema("a timestamp, b long, c float").arrow == pa.schema(
        [("a", pa.timestamp("us", "UTC")), ("b", pa.int64()), ("c", pa.float32())]
    )
