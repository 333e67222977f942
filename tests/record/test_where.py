"""Conditions on the rows of an input: what they mean for bytes, nulls and JSON, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.record.batch import Record
from semel.record.where import ConditionFailed, compile_value, compile_where


def holds(condition: str, key: bytes | None = b"k", value: bytes | None = b"v") -> bool:
    return bool(compile_where(condition)(3, [Record(7, 1_000, key, value)]))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("key = 'k' AND value <> 'w'", True),
        ("key == 'k' OR nonsense_is_not_reached = 1", None),
        ("partition = 3 AND offset >= 7 AND timestamp_ms < 2000", True),
        ("value LIKE 'V%'", False),  # the case counts, as in Spark
        ("value IN ('v', 'w') -- a comment", True),
        ("NOT value = 'v'", False),
        ("CAST(offset AS TEXT) = '7'", True),
        ("length(value) = 1", True),
    ],
)
def test_conditions(condition: str, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(ConfigError, match="no such column"):
            holds(condition)
    else:
        assert holds(condition) is expected


def test_null_is_neither_equal_nor_different() -> None:
    assert not holds("key = 'k'", key=None)
    assert not holds("key <> 'k'", key=None)
    assert holds("key IS NULL", key=None)


def test_what_is_no_text_is_its_bytes() -> None:
    assert holds("value = x'ff00'", value=b"\xff\x00")
    assert not holds("value = 'v'", value=b"\xff\x00")
    assert holds("length(value) = 0", value=b"")


def test_a_value_that_is_no_json_is_told_by_its_offset() -> None:
    with pytest.raises(ConditionFailed) as caught:
        holds("value ->> 'a' = 1", value=b"{")
    assert caught.value.offset == 7


@pytest.mark.parametrize("value", [b"{", b"", None, b"\xff", b'{"a": 2}'])
def test_what_is_no_json_can_be_passed_over(value: bytes | None) -> None:
    assert not holds("json_valid(value) AND value ->> 'a' = 1", value=value)
    assert holds("json_valid(value) AND value ->> 'a' = 1", value=b'{"a": 1}')


def test_what_is_no_json_can_be_let_in() -> None:
    assert holds("NOT json_valid(value) OR value ->> 'a' = 1", value=b"{")


@pytest.mark.parametrize("condition", ["", "1; 2", "value = 'v'; --", "key = ?", "key = (", ")"])
def test_what_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(ConfigError, match="--where"):
        compile_where(condition)


@given(st.lists(st.none() | st.integers(-(2**62), 2**62), max_size=30), st.integers(-(2**62), 2**62))
def test_a_field_of_json_is_compared_as_the_number_it_is(numbers: list[int | None], bound: int) -> None:
    records = [
        Record(offset, 0, None, json.dumps({"n": number}).encode()) for offset, number in enumerate(numbers)
    ]
    chosen = compile_where(f"value ->> 'n' > {bound}")(0, records)
    assert [record.offset for record in chosen] == [
        offset for offset, number in enumerate(numbers) if number is not None and number > bound
    ]


JSON = (
    b'{"a":{"b":[1,{"c":"x"},2.50]},"a.b":7,"n":null,"t":true,"f":false,"i":-3,"r":1e2,"s":"12","":5,"e":[]}'
)


@pytest.mark.parametrize(
    "condition",
    [
        "value ->> 'i' = -3",
        "value ->> 'r' = 100 AND typeof(value ->> 'r') = 'real'",
        "value ->> 's' = '12' AND value ->> 's' <> 12",
        "value ->> 't' = 1 AND value ->> 'f' = 0 AND value ->> 'n' IS NULL AND value ->> 'none' IS NULL",
        "value -> 'n' = 'null' AND value -> 'none' IS NULL AND value -> 's' = '\"12\"' AND value -> 'r' = '1e2'",
        "value ->> 'a.b' = 7 AND value ->> '$.a.b[0]' = 1 AND value ->> '$.\"a.b\"' = 7 AND value ->> '' = 5",
        "value ->> '$.a.b[#-1]' = 2.5 AND value ->> '$.a.b[3]' IS NULL AND value ->> '$.i.b' IS NULL",
        "value -> 'a' ->> '$.b[1].c' = 'x' AND value -> 'a' -> 'b' ->> 0 = 1 AND value -> 'a' -> 'b' ->> -1 = 2.5",
        "value -> 'a' -> 'b' ->> '[1]' = '{\"c\":\"x\"}'",
        'value ->> \'a\' = \'{"b":[1,{"c":"x"},2.50]}\'',
        "json_extract(value, '$.i') = -3 AND json_extract(value, '$.i', '$.none', '$.s') = '[-3,null,\"12\"]'",
        "json_type(value) = 'object' AND json_type(value, '$.r') = 'real' AND json_type(value, '$.none') IS NULL",
        "json_array_length(value, '$.a.b') = 3 AND json_array_length(value, '$.e') = 0",
        "json_array_length(value) = 0 AND json_valid(value) AND NOT json_valid(key) AND json_valid('1')",
        "value ->> NULL IS NULL",
    ],
)
def test_what_stands_in_json(condition: str) -> None:
    assert holds(condition, value=JSON)


def test_a_key_is_json_by_the_same_rule() -> None:
    assert holds("key ->> 'a' = 2", key=b'{"a":1,"a":2}')
    with pytest.raises(ConditionFailed, match="malformed JSON"):
        holds("key ->> 'a' = 2", key=b"{a:2}")


def test_of_a_doubled_key_the_last_counts() -> None:
    records = [Record(n, 0, None, b'{"id":%d,"id":%d,"name":"n"}' % (n, 7 - n)) for n in (3, 4)]
    assert [each.offset for each in compile_where("value ->> 'id' = 4")(0, records)] == [3]
    assert holds("value ->> 'o' = '{\"id\":4}'", value=b'{"o":{"id":3, "id":4}}')
    assert holds("value ->> 'text' ->> 'id' = 4", value=json.dumps({"text": '{"id":3,"id":4}'}).encode())


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("1e400", "beyond a double"),
        ("-1e400", "beyond a double"),
        ("9223372036854775808", "beyond the 64 bits"),
        ("-9223372036854775809", "beyond the 64 bits"),
        ("1" * 5_000, "beyond the 64 bits"),
    ],
)
def test_a_number_that_sql_cannot_hold_is_refused_where_it_is_asked_for(number: str, why: str) -> None:
    value = f'{{"x":{number},"y":1}}'.encode()
    for condition in ("value ->> 'x' > 5", "json_extract(value, '$.x') > 5"):
        with pytest.raises(ConditionFailed, match=f"{why}.*value -> 'field'"):
            holds(condition, value=value)
    assert holds("value ->> 'y' = 1 AND json_valid(value)", value=value)
    assert holds(f"value -> 'x' = '{number}'", value=value)


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1, 0, 10**18])
def test_whole_numbers_are_exact(number: int) -> None:
    value = json.dumps({"x": number}).encode()
    assert holds(f"value ->> 'x' = {number}", value=value)
    assert not holds(f"value ->> 'x' = {number - 1 if number > 0 else number + 1}", value=value)


def test_a_value_that_is_json_is_still_the_text_that_it_is() -> None:
    value = b' {"a":1, "a":2} '
    assert holds(
        f"value = '{value.decode()}' AND length(value) = {len(value)} AND value ->> 'a' = 2", value=value
    )
    assert holds("value ->> 'a' = 1", value=b'{"a":1,"z":"\xff"}')  # bytes that are no text


@pytest.mark.parametrize(
    "condition",
    [
        """json_set(value, '$.c', 5) = '{"a":2,"b":1.50,"c":5}'""",
        """json_insert(value, '$.a', 5) = '{"a":2,"b":1.50}'""",
        """json_replace(value, '$.a', 'x') = '{"a":"x","b":1.50}'""",
        """json_remove(value, '$.a') ->> 'a' IS NULL""",
        """json_patch(value, '{"a":3, "a":4}') = '{"a":4,"b":1.50}'""",
        "json_set(NULL, '$.a', 1) IS NULL",
    ],
)
def test_json_may_be_changed(condition: str) -> None:
    assert holds(condition, value=b'{"a":1, "b":1.50, "a":2}')
    with pytest.raises(ConditionFailed, match="malformed JSON"):
        holds(condition.replace("NULL,", "value,"), value=b"{a:1}")


def test_a_tombstone_is_no_json() -> None:
    assert holds("NOT json_valid(value) AND value ->> 'a' IS NULL", value=None)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("json_quote(value) = '1'", "json_quote is no function of a condition: JSON is read by"),
        ("json(value) = '1'", "json is no function"),
        ("value ->> '$[x' = 1", "JSON path error near '\\[x'"),
        ("value ->> '$.a.' = 1", "JSON path error near '.'"),
        ("json_extract(value, 'a') = 1", "a path begins with"),
        ("json_valid(value, 6)", "json_valid is of one value"),
        ("json_type(value, '$', '$') = 1", "wrong number of arguments"),
        ("'x' IN (SELECT value FROM json_each(value))", "--where"),
    ],
)
def test_what_a_condition_may_not_ask_of_json(condition: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        compile_where(condition)


@pytest.mark.parametrize(
    ("expression", "value", "made"),
    [
        ("upper(value)", b"late", b"LATE"),
        ("upper(value) -- a comment", b"late", b"LATE"),
        ("value", b"\xff\x00", b"\xff\x00"),
        ("value || '\u00e9'", "\u00e9".encode(), "\u00e9\u00e9".encode()),
        ("key", b"v", b"k"),
        ("CASE WHEN value = 'v' THEN NULL ELSE value END", b"v", None),
        ("value", None, None),
        ("offset + 1", b"v", b"8"),
        ("json_extract(value, '$.a')", b'{"a": "x"}', b"x"),
    ],
)
def test_expressions(expression: str, value: bytes | None, made: bytes | None) -> None:
    assert compile_value(expression)(3, [Record(7, 1_000, b"k", value)] * 2) == [made] * 2


@pytest.mark.parametrize(
    "expression", ["", "nonsense", "upper(", "value, key", "1) FROM (SELECT 1", "CAST(1 AS MONEY)"]
)
def test_what_is_no_expression_is_refused_by_its_option(expression: str) -> None:
    with pytest.raises(ConfigError, match="--input-value"):
        compile_value(expression)


def test_what_an_expression_cannot_make_is_told_by_its_offset() -> None:
    with pytest.raises(ConditionFailed, match="offset 7: --input-value: "):
        compile_value("json_extract(value, '$.a')")(0, [Record(7, 0, None, b"{")])
