"""Each value is judged by itself, however many are read at once, and good ones give what they say."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, date, datetime

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.generated_rows import FINE, HOSTILE, VALUES, values_array

from semel.core.flow import decode
from semel.core.flow.columns import NotOfSchema, settled
from semel.core.flow.decode import NESTING_MAX, decode_rows, decode_table
from semel.core.flow.schema import Kind, Schema, parse_schema
from semel.core.flow.tables import table_of

SCHEMA = parse_schema("user string, n int, at timestamp, x float")


def decoded(schema: Schema | str, *values: bytes | str | None):
    schema = parse_schema(schema) if isinstance(schema, str) else schema
    return decode_rows(
        schema, pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())
    )


def the_row(schema: str, value: str):
    """Of the one good value; what a row beside it is must not matter."""
    alone, beside = decoded(schema, value), decoded(schema, "{}", value, "")
    assert alone.bad == []
    assert alone.kept is None
    assert beside.rows[1:] == alone.rows
    return alone.rows[0]


def why_bad(schema: str, value: bytes | str | None) -> str:
    alone, beside = decoded(schema, value), decoded(schema, "{}", value, "{}")
    assert alone.rows == []
    assert alone.kept.tolist() == []
    ((index, why),) = alone.bad
    assert index == 0
    assert beside.bad == [(1, why)]
    assert beside.kept.tolist() == [0, 2]
    return why


# --- what is a row ----------------------------------------------------------------------------------------


def test_columns_of_every_kind():
    row = the_row(
        "s string, l long, i int, d double, f float, b boolean, t timestamp, da date, by binary",
        '{"s":"a\\u00e9\\n","l":-9223372036854775808,"i":2147483647,"d":1e300,"f":0.1,"b":true,'
        '"t":"2024-02-03T04:05:06.000007Z","da":"2024-02-29","by":"AAH/"}',
    )
    assert msgspec.structs.astuple(row) == (
        *("aé\n", -(2**63), 2**31 - 1, 1e300, 0.10000000149011612, True),
        *(datetime(2024, 2, 3, 4, 5, 6, 7, tzinfo=UTC), date(2024, 2, 29), b"\x00\x01\xff"),
    )


def test_missing_and_null_and_unknown_fields():
    assert (
        the_row("user string, n int", '{"other":{"n":1},"n":null}') == SCHEMA.select(["user", "n"]).row_type()
    )


def test_of_a_doubled_key_the_last_counts_and_each_is_held_to_its_kind():
    assert the_row("n int", '{"n":1,"n":2}').n == 2
    assert why_bad("n int", '{"n":"1","n":2}').startswith("a column stands there twice")


def test_white_space_around():
    assert the_row("n int", ' \n{"n" :\t1}\r\n').n == 1


def test_an_integer_is_a_double():
    row = the_row("d double", '{"d":12345678901234567890}')
    assert row.d == 12345678901234567890.0
    assert type(row.d) is float


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ('"2024-01-01T00:00:00"', datetime(2024, 1, 1, tzinfo=UTC)),
        ('"2024-01-01 00:00:00"', datetime(2024, 1, 1, tzinfo=UTC)),
        ('"2024-01-01T02:00:00+02:00"', datetime(2024, 1, 1, tzinfo=UTC)),
        ('"2023-12-31T22:30:00-0130"', datetime(2024, 1, 1, tzinfo=UTC)),
        ('"2024-01-01T00:00:00.1234567Z"', datetime(2024, 1, 1, 0, 0, 0, 123457, tzinfo=UTC)),
        ("1704067200", datetime(2024, 1, 1, tzinfo=UTC)),
        ("-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("253402300799", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("-62135596800", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_timestamps(text: str, instant: datetime):
    row = the_row("at timestamp", f'{{"at":{text}}}')
    assert row.at == instant
    assert row.at.tzinfo is UTC


# --- what is bad ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *(("s string", text) for text in ("5", "true", "[]", "{}")),
        *(
            ("l bigint", text)
            for text in ("9223372036854775808", "-9223372036854775809", "1.0", "1e3", '"1"', "true")
        ),
        *(("i int", text) for text in ("2147483648", "-2147483649", "1" + "0" * 5000)),
        *(("d double", text) for text in ("1e400", "1" + "0" * 5000, '"1"', "true")),
        *(("f float", text) for text in ("1e39", "-3.5e38")),
        *(("b boolean", text) for text in ("1", '"true"')),
        *(
            ("t timestamp", text)
            for text in ("1.5", '"2024-01-01"', '""', "true", "253402300800", "-62135596801")
        ),
        *(("t timestamp", text) for text in ('"0001-01-01T00:00:00+01:00"', '"9999-12-31T23:30:00-01:00"')),
        *(
            ("t timestamp", text)
            for text in ('"2024-01-01T24:00:00Z"', '"2024-02-30T00:00:00"', "1" + "0" * 5000)
        ),
        *(("day date", text) for text in ('"2024-1-1"', '"2024-01-01T00:00:00"', "0")),
        *(("by binary", text) for text in ('"A"', '"*"', "[1]")),
    ],
)
def test_a_column_of_another_kind(column: str, text: str):
    name, kind = column.split()
    assert why_bad(column, f'{{"{name}":{text}}}') == f"column {name!r} is no {kind}"
    assert the_row("other int", f'{{"{name}":{text}}}').other is None


@pytest.mark.parametrize("text", ["null", "[]", '"{}"', "5", "[{}]"])
def test_no_object(text: str):
    assert why_bad("n int", text) == "it is no JSON object"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "{}}",
        "{},{}",
        "{}{}",
        "{} {}",
        "{}\n{}",
        "{}],[{}",
        "1,2",
        '{"n":NaN}',
        '{"n":01}',
        "{'n':1}",
        "\ufeff{}",
        '{"n":1,}',
        '{"x":"\n"}',
        '{"n":1}x',
        '{"x":"\\ud800"}',
        '{"s":Infinity}',
        "{}\x00",
        "tru",
    ],
)
def test_no_json(text: str):
    assert why_bad("n int", text) == "it is no JSON"


def test_null_and_letters_that_are_no_utf_8():
    assert why_bad("n int", None) == "the value is null"
    assert why_bad("s string", b'{"s":"\xff"}') == "column 's' is no string"
    assert why_bad("s string", b'{"s":"\xed\xa0\x80"}') == "column 's' is no string"
    assert why_bad("s string", b'{"s":1,"\xff":1}') == "it is no JSON in UTF-8"


# --- judged by itself -------------------------------------------------------------------------------------


def test_half_objects_that_join_to_a_whole_one_stay_bad():
    """Between them, joined by commas or line ends, is one object, and another value has two: the count is right."""
    for halves in (('{"x":[1', "2]}"), ('{"x":"', '"}'), ('{"x":[{}', "{}]}"), ('{"x":[{"y":1', '{"y":1}]}')):
        result = decoded("n int", '{"n":7}', *halves, '{"n":8} {"n":9}', '{"n":10}')
        assert [row.n for row in result.rows] == [7, 10]
        assert result.kept.tolist() == [0, 4]
        assert [index for index, _ in result.bad] == [1, 2, 3]


def test_an_object_over_two_values_that_both_begin_as_one():
    """As many of ``{`` as values, one at the beginning of each; only that fewer objects come out tells it."""
    result = decoded("n int", '{"n":7}', '{"x":', '{"n":1}}')
    assert [row.n for row in result.rows] == [7]
    assert [index for index, _ in result.bad] == [1, 2]


def judged(schema: Schema, value: bytes | None):
    """The rule, value by value and straight from msgspec: the row, or ``None``."""
    if value is None:
        return None
    depth = deepest = 0
    in_text = is_escaped = False
    for letter in value:
        if in_text:
            in_text = is_escaped or letter != ord('"')
            is_escaped = letter == ord("\\") and not is_escaped
        elif letter == ord('"'):
            in_text = True
        elif letter in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in b"]}":
            depth -= 1
    if deepest > NESTING_MAX:
        return None
    try:
        row = msgspec.json.decode(value, type=schema.row_type)
        values = []
        for field in schema:
            cell = getattr(row, field.name)
            if field.kind is Kind.TIMESTAMP and isinstance(cell, int):
                cell = datetime.fromtimestamp(cell, UTC)
            values.append(settled(field.kind, cell))
    except (msgspec.DecodeError, UnicodeDecodeError, NotOfSchema, ValueError, OverflowError, OSError):
        return None
    return schema.row_type(*values)


@given(VALUES)
def test_every_value_is_judged_by_itself(values: list[bytes | None]):
    result = decode_rows(SCHEMA, values_array(values))
    rows = [judged(SCHEMA, value) for value in values]
    good = [index for index, row in enumerate(rows) if row is not None]
    assert result.rows == [row for row in rows if row is not None]
    assert (list(range(len(values))) if result.kept is None else result.kept.tolist()) == good
    assert [index for index, _ in result.bad] == [index for index, row in enumerate(rows) if row is None]
    for index, why in result.bad:
        assert decode_rows(SCHEMA, pa.array(values[index : index + 1], pa.binary())).bad == [(0, why)]
    assert all(row.at is None or row.at.tzinfo is UTC for row in result.rows)


@given(VALUES)
def test_columns_are_judged_as_rows_are(values: list[bytes | None]):
    by_rows = decode_rows(SCHEMA, values_array(values))
    table, bad = decode_table(SCHEMA, values_array(values))
    assert bad == by_rows.bad
    assert table.equals(table_of(SCHEMA, by_rows.rows))


@given(
    st.lists(FINE | HOSTILE, max_size=8), st.sampled_from([pa.string(), pa.large_binary(), pa.large_string()])
)
def test_other_layouts_of_the_values(values: list[bytes], type_: pa.DataType):
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        values = [value for value in values if value.isascii()]
    expected = decode_rows(SCHEMA, pa.array(values, pa.binary()))
    array = pa.array(values, pa.binary()).cast(type_)
    chunked = pa.chunked_array([array[:2], array[2:2], array[2:]])
    for layout in (array, chunked, chunked[:0] if not values else chunked):
        result = decode_rows(SCHEMA, layout)
        assert (result.rows, result.bad) == (expected.rows, expected.bad)


def test_what_is_read_at_once_and_what_is_not(monkeypatch: pytest.MonkeyPatch):
    """Flat objects are; the others are right all the same, and only slower."""
    each: list[int] = []
    read_each = decode._read_each
    monkeypatch.setattr(decode, "_read_each", lambda *args: each.append(1) or read_each(*args))
    for values, is_together in [
        ([b'{"n":1}', b'{"n":2} '], True),
        ([b'{"n":1,"x":[1,2]}', b"{}"], True),
        ([None, b'{"n":1}'], True),
        ([], True),
        ([b'{"x":{}}'], False),
        ([b'{"x":"{"}'], False),
        ([b' {"n":1}'], False),
        ([b"{} {}", b""], False),
    ]:
        each.clear()
        decode_rows(SCHEMA.select(["n"]), pa.array(values, pa.binary()))
        assert each == ([] if is_together else [1]), values


# --- nesting ----------------------------------------------------------------------------------------------


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return '{"x":' + opening * (depth - 1) + "1" + closing * (depth - 1) + ',"n":1}'


@pytest.mark.parametrize(("opening", "closing"), ["[]", ('{"y":', "}"), ('[{"[{":', "}]")])
def test_what_is_nested_too_deep_is_bad(opening: str, closing: str):
    step = closing.count("]") + closing.count("}")
    depth = (NESTING_MAX - 1) // step + 1
    assert the_row("n int", nested(depth, opening, closing)).n == 1
    assert (
        why_bad("n int", nested(depth + 1, opening, closing)) == f"it is nested more than {NESTING_MAX} deep"
    )
    assert why_bad("n int", nested(100_000, opening, closing)) == f"it is nested more than {NESTING_MAX} deep"


def test_brackets_that_do_not_nest():
    many = "[" + "[]," * 1000 + "[]]"
    assert the_row("n int", f'{{"x":{many},"y":"{"[{" * 500}","n":1}}').n == 1


def test_the_depth_of_the_callers_stack_does_not_matter():
    """The interpreter's own limit counts the caller's frames, too."""
    values = pa.array([nested(NESTING_MAX).encode(), nested(NESTING_MAX + 1).encode()], pa.binary())
    expected = decode_rows(parse_schema("n int"), values)

    def deeper(left: int):
        return deeper(left - 1) if left else decode_rows(parse_schema("n int"), values)

    found: list = []
    thread = threading.Thread(
        target=lambda: found.append(deeper(sys.getrecursionlimit() - NESTING_MAX - 100))
    )
    thread.start()
    thread.join()
    assert (found[0].rows, found[0].bad) == (expected.rows, expected.bad)
    assert len(expected.rows) == len(expected.bad) == 1


def test_reasons_are_short_whatever_the_value():
    assert max(len(why) for _, why in decoded("n int", "[" * 5000, '{"n":"' + "x" * 5000 + '"}').bad) < 100
