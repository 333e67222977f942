"""What makes two rows the same row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.identity import IdentityRule, IdentityUnreadable, KeyFrom
from semel.errors import ConfigError


def text(rule: IdentityRule, key: bytes | None, value: bytes | None) -> bytes | None:
    return rule.compile()(key, value)


BY_KEY = IdentityRule(KeyFrom.KEY)
BY_FIELD = IdentityRule.of("id", None)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("UA1545", '"UA1545"'),
        ("1545", "1545"),
        ("1545", '"1545"'),
        ("1.50", "1.50"),
        ("true", "true"),
        ("é\n", '"\\u00e9\\n"'),
        ('["a",1.0]', '[ "a", 1.0 ]'),
        ("", '""'),
    ],
)
@pytest.mark.parametrize("bytes_from", [KeyFrom.KEY, KeyFrom.VALUE])
def test_a_record_key_equals_the_text_of_a_field(key: str, field: str, bytes_from: KeyFrom) -> None:
    by_bytes = IdentityRule(bytes_from)
    assert text(by_bytes.held_against(BY_FIELD), key.encode(), key.encode()) == text(
        BY_FIELD.held_against(by_bytes), None, f'{{"id":{field},"other":1}}'.encode()
    )


@pytest.mark.parametrize(("key", "field"), [("1.5", "1.50"), ("1", "1.0"), ("null", "null"), ("a", '"b"')])
def test_a_record_key_is_not_parsed(key: str, field: str) -> None:
    assert key.encode() != text(BY_FIELD.held_against(BY_KEY), None, f'{{"id":{field}}}'.encode())


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("a", "a,b", "same number of fields"),
        ("a,b", BY_KEY, "one field"),
        (BY_KEY, "a,b", "one field"),
        (IdentityRule(KeyFrom.VALUE), "a,b", "one field"),
        (IdentityRule(), "a", "whole record"),
        (IdentityRule(), BY_KEY, "whole record"),
    ],
)
def test_what_could_never_be_equal_is_refused(
    one: str | IdentityRule, other: str | IdentityRule, why: str
) -> None:
    rules = [each if isinstance(each, IdentityRule) else IdentityRule.of(each, None) for each in (one, other)]
    for first, second in (rules, rules[::-1]):
        with pytest.raises(ConfigError, match=why):
            first.held_against(second)


def test_fields_compare_in_the_order_in_which_they_are_named() -> None:
    rule = IdentityRule.of("time_hour, carrier ,flight", None)
    value = b'{"flight":1545,"carrier":"UA","time_hour":"10:00"}'
    assert text(rule, None, value) == b'6:"10:003:"UA4:1545'
    assert rule.readable(None, value) == "10:00, UA, 1545"


def test_a_dotted_path_goes_into_the_document() -> None:
    rule = IdentityRule.of("a.b", None)
    assert text(rule, None, b'{"a":{"b":[1,{"y":2,"x":1}]}}') == text(
        rule, None, b'{"a":{"b":[1.0,{"x":1,"y":2}]}}'
    )


# Each is another value than all the others.
FIELDS = [
    *("null", '"null"', '"\\u0000null"', '""', '"n"', '"b"'),
    *("1", '"1"', "1.5", '"1.5"', "-1", "10", "1e400", "1e401", "-1e400", "1e-400", "0", '"0"'),
    *("0.1", "0.1000000000000000055", "9007199254740993", "9007199254740992", "18446744073709551616"),
    *("18446744073709551617", "2" + "0" * 400, "1" * 5_000, "1" * 4_999 + "2"),
    *("true", '"true"', "false", '"false"'),
    *(
        "[]",
        "{}",
        '"[]"',
        "[1,2]",
        "[12]",
        '"[1,2]"',
        '["1",2]',
        '["1,2"]',
        "[[1],2]",
        "[null]",
        "[1e400]",
        "[1e401]",
    ),
    *(
        '{"a":1}',
        '{"a":"1"}',
        '"{\\"a\\":1}"',
        '{"a":1,"b":null}',
        "[true]",
        '["true"]',
        '"NaN"',
        '"Infinity"',
    ),
    *('"x\\u001fy"', '"x"', '"X"', '"x "', '"é"', '"e\\u0301"', '"3:abc"'),
]


def field_texts(rule: str, values: list[str]) -> list[bytes | None]:
    return [text(IdentityRule.of(rule, None), None, value.encode()) for value in values]


def test_no_field_is_taken_for_another_one() -> None:
    texts = field_texts("x", [f'{{"x":{each}}}' for each in FIELDS])
    assert len(set(texts)) == len(FIELDS)


@pytest.mark.parametrize(
    "same",
    [
        ["1", "1.0", "1e0", "10e-1"],
        ["100", "1e2", "1E+2"],
        ["0", "-0", "0.0"],
        ['"a"', '"\\u0061"'],
        ['"/"', '"\\/"'],
        ['{"a":1,"b":2}', '{ "b":2.0, "a":1 }', '{"a":9,"b":2,"a":1}'],
        ["[1,2]", "[ 1.0, 2e0 ]"],
    ],
)
def test_a_field_is_itself_however_it_is_written(same: list[str]) -> None:
    assert len(set(field_texts("x", [f'{{"x":{each}}}' for each in same]))) == 1


def test_the_bounds_of_fields_are_part_of_a_name() -> None:
    pairs = [
        ("x\x1fy", "z"), ("x", "y\x1fz"), ("x", "yz"), ("xy", "z"), ("", "xyz"), ("xyz", ""), ("3:\"x", "yz"),
        ('x3:"y', "z"), ("x", '3:"yz'), ("x\x00", "yz"), ("x", "\x00yz"), (None, "xyz"), ("xyz", None), ("null", "xyz"),
        (1, 23), (12, 3), ("1", 23), (1, "23"), ([1, 2], 3), ([1], [2, 3]),
    ]  # fmt: skip
    texts = field_texts("a,b", [json.dumps({"a": a, "b": b}) for a, b in pairs])
    assert len(set(texts)) == len(pairs)


scalars = st.none() | st.booleans() | st.integers(-12, 12) | st.text('n1\x1f\x00:"', max_size=3)
names = st.lists(scalars, min_size=3, max_size=3)


@given(names, names)
def test_rows_have_one_name_only_if_all_fields_are_the_same(one: list[Any], other: list[Any]) -> None:
    first, second = field_texts(
        "a,b,c", [json.dumps(dict(zip("abc", row, strict=True))) for row in (one, other)]
    )
    is_same = [(type(each), each) for each in one] == [(type(each), each) for each in other]
    assert (first == second) == is_same


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("1", "1"),
        ('"1"', '"1"'),
        ("null", "null"),
        ('"null"', '"null"'),
        ('"[1]"', '"[1]"'),
        ('"a b"', "a b"),
        ('""', '""'),
        ('"a\\nb"', '"a\\nb"'),
        ("1.50", "1.50"),
        ("[ 1 ]", "[1]"),
    ],
)
def test_people_can_tell_a_text_from_a_number(field: str, shown: str) -> None:
    assert IdentityRule.of("x", None).readable(None, f'{{"x":{field}}}'.encode()) == shown


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "null, not JSON"),
        (b"{", "is not JSON"),
        (b"[1]", "no field 'a'"),
        (b'{"b":1}', "no field 'a'"),
        (b"\xff", "is not JSON"),
        (b'{"a":"\xff"}', "no UTF-8"),
        (b'{"a":1e%b}' % (b"9" * 30), "an exponent of 30 digits"),
    ],
)
def test_a_value_without_the_identity_says_why(value: bytes | None, why: str) -> None:
    with pytest.raises(IdentityUnreadable, match=why):
        text(IdentityRule.of("a", None), None, value)


@pytest.mark.parametrize(
    ("fields", "key_from"), [(None, KeyFrom.VALUE_JSON), ("a", KeyFrom.KEY), ("a,,b", None)]
)
def test_fields_and_value_json_go_together(fields: str | None, key_from: KeyFrom | None) -> None:
    with pytest.raises(ConfigError, match="--key FIELD"):
        IdentityRule.of(fields, key_from)


maybe_bytes = (
    st.none() | st.binary(max_size=12) | st.sampled_from([b"\x00null", b"null", b"n", b"b", b":", b"1:"])
)


@given(maybe_bytes, maybe_bytes, maybe_bytes, maybe_bytes)
def test_whole_rows_are_the_same_only_if_key_and_value_are(
    key: bytes | None, value: bytes | None, other_key: bytes | None, other_value: bytes | None
) -> None:
    rule = IdentityRule()
    same = (key, value) == (other_key, other_value)
    assert (text(rule, key, value) == text(rule, other_key, other_value)) == same
