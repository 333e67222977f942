"""What is JSON, and what stands in it: one rule for flows, conditions and the names of an audit."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.columns import RowUnreadable, texts_of
from semel.audit.identity import IdentityRule, IdentityUnreadable
from semel.core.flow.decode import decode_rows
from semel.core.flow.schema import parse_schema
from semel.errors import SemelError
from semel.record.batch import Record
from semel.record.json_values import NESTING_MAX, NotJson, as_written, depth, exact, exact_number, found
from semel.record.where import ConditionFailed, compile_where

GOOD = [
    b'{"a":4}',
    b' {"a" : 4 } \n',
    b'{"a":3,"a":4}',
    b'{"a":"x","b":{"a":5},"a":4}'.replace(b'"x"', b"3"),
    b'{"\\u0061":4}',
    b'{"a":4,"z":1e400}',
    b'{"a":4,"z":%b}' % (b"9" * 5_000),
    b'{"a":4,"z":"\\ud83d\\ude00"}',
    b'{"a":4,"z":"\xff"}',  # nobody asks for it
    b'{"a":4,"z":"\x7f\\u0000"}',
    b'{"a":4,"z":%b}' % (b"[" * (NESTING_MAX - 1) + b"]" * (NESTING_MAX - 1)),
]
BAD = [
    b"",
    b"{",
    b"[4",
    b'{"a":4,"z":NaN}',
    b'{"a":4,"z":Infinity}',
    b'{"a":4,"z":-Infinity}',
    b'\xef\xbb\xbf{"a":4}',
    '{"a":4}'.encode("utf-16"),
    '{"a":4}'.encode("utf-16-le"),
    '{"a":4}'.encode("utf-32-be"),
    b"{a:4}",  # what follows is JSON5
    b"{'a':4}",
    b'{"a":4,}',
    b'{"a":4} // four',
    b'{"a":4,"z":0x10}',
    b'{"a":4,"z":+1}',
    b'{"a":4,"z":.5}',
    b'{"a":4,"z":5.}',
    b'{"a":4,"z":01}',
    b'{"a":4,"z":"\\ud800"}',
    b'{"a":4,"z":"\\x41"}',
    b'{"a":4,"z":"\x01"}',
    b'{"a":4}\x00',
    b'{"a":4}\x00x',
    b'{"a":4}{"a":4}',
    b'{"a":4,"z":%b}' % (b"[" * NESTING_MAX + b"]" * NESTING_MAX),
    b'{"a":4,"z":%b}' % (b'{"a":' * 2_000),
    b"\x2ca\x134",  # {"a":4} as JSONB
]


def in_flow(value: bytes) -> int | None:
    (row,) = decode_rows(parse_schema("a bigint"), pa.array([value], pa.binary())).rows or [None]
    return None if row is None else row.a


def by_where(value: bytes, condition: str) -> bool:
    return bool(compile_where(condition)(0, [Record(0, 0, None, value)]))


def test_nobody_reads_a_value_that_is_json_otherwise() -> None:
    rule = IdentityRule.of("a", None)
    for value in GOOD:
        assert in_flow(value) == 4, value
        assert by_where(value, "json_valid(value) AND value ->> 'a' = 4"), value
        assert rule.compile()(None, value) == b"1:4", value
        assert texts_of(rule)(pa.nulls(1, pa.binary()), pa.array([value], pa.binary()))[0].as_py() == b"1:4"


def test_nobody_reads_a_value_that_is_no_json() -> None:
    rule = IdentityRule.of("a", None)
    for value in BAD:
        assert in_flow(value) is None, value
        assert by_where(value, "NOT json_valid(value)"), value
        for condition in ("value ->> 'a' = 4", "value -> 'a' = '4'", "json_extract(value, '$.a') = 4"):
            with pytest.raises(ConditionFailed, match="malformed JSON"):
                by_where(value, condition)
        with pytest.raises(IdentityUnreadable, match="is not JSON"):
            rule.compile()(None, value)
        with pytest.raises(RowUnreadable, match="is not JSON"):
            texts_of(rule)(pa.nulls(1, pa.binary()), pa.array([value], pa.binary()))


@pytest.mark.parametrize(
    ("document", "path", "raw"),
    [
        (b'{"a":{"b":[1, 2.50 ]}}', ("a", "b", 1), b"2.50"),
        (b'{"a":{"b":1},"a":{"c":2}}', ("a", "b"), None),  # the last one counts, and has none
        (b'{"a":{"c":2},"a":{"b":1}}', ("a", "b"), b"1"),
        (b'{"a":5}', ("a", "b"), None),
        (b'{"a":null}', ("a",), b"null"),
        (b'{"":1}', ("",), b"1"),
        (b'{"a\\"b":1,"\\\\":2}', ('a"b',), b"1"),
        (b'{"a\\"b":1,"\\\\":2}', ("\\",), b"2"),
        ('{"é":1}'.encode(), ("é",), b"1"),
        (b"[1,2,3]", (-1,), b"3"),
        (b"[1,2,3]", (3,), None),
        (b"[1,2,3]", ("a",), None),
        (b'{"a":1}', (0,), None),
        (b' "x" ', (), b'"x"'),
    ],
)
def test_what_stands_at_a_path(document: bytes, path: tuple[Any, ...], raw: bytes | None) -> None:
    assert found(document, path) == found(document.decode(), path) == raw


def test_what_is_asked_for_has_to_be_utf_8() -> None:
    for value in (b'{"a":"\xff"}', b'{"a":["\xff"]}', b'{"a":{"\xff":1}}', b'{"a":"\xed\xa0\x80"}'):
        with pytest.raises(IdentityUnreadable, match="is not JSON"):
            IdentityRule.of("a", None).compile()(None, value)
        with pytest.raises(ConditionFailed, match="malformed JSON"):
            by_where(value, "value ->> 'a' = 'x'")


numbers = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.tuples(
        st.sampled_from(["", "-"]),
        st.integers(0, 10**70).map(str),
        st.sampled_from(["", ".0", ".50", ".05", ".000", "." + "1" * 64]),
        st.sampled_from(["", "e0", "E+2", "e-2", "e400", "e-400", "e63", "e-66"]),
    ).map("".join),
)


@given(numbers, numbers)
def test_numbers_have_one_text_only_if_they_are_one(one: str, other: str) -> None:
    assert (exact_number(one.encode()) == exact_number(other.encode())) == (Decimal(one) == Decimal(other))
    assert Decimal(exact_number(one.encode()).decode()) == Decimal(one)


@pytest.mark.parametrize(
    "same", [["0", "-0", "0.0", "0e400", "-0.0e-7"], ["1", "1.0", "1e0", "10e-1", "0.1E+1"]]
)
def test_a_number_is_the_same_however_it_is_written(same: list[str]) -> None:
    assert len({exact_number(each.encode()) for each in same}) == 1


def test_an_exponent_has_a_bound() -> None:
    assert exact_number(b"1e999999999999999999") != exact_number(b"1e999999999999999998")
    for number in (b"1e" + b"9" * 5_000, b"[1.5e-%b]" % (b"9" * 5_000)):
        with pytest.raises(NotJson, match=r"exponent of 500\d digits"):
            exact(number)
    assert exact_number(b"1e" + b"0" * 5_000 + b"1") == b"10"  # more digits than Python makes a number of


def test_how_deep_it_is_is_found_in_one_pass() -> None:
    # A text that is not closed, with a million quotes in it: from each of them the rest would be gone through again.
    assert depth(b"[" * (NESTING_MAX + 1) + b'"' + b'\\"' * 1_000_000 + b"[") == NESTING_MAX + 1
    assert depth(b'["[[",[[],"[\\"[",{}],"\\') == 3


trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=2), below, max_size=3),
    max_leaves=6,
)


def as_python(text: bytes) -> Any:
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def told_apart(tree: Any) -> Any:
    """True is no number."""
    match tree:
        case bool() | None | str():
            return (type(tree).__name__, tree)
        case list():
            return [told_apart(each) for each in tree]
        case dict():
            return {name: told_apart(each) for name, each in tree.items()}
    return ("number", tree)


@given(trees, trees, st.booleans())
def test_values_have_one_text_only_if_they_are_one(one: Any, other: Any, is_ascii: bool) -> None:
    texts = [json.dumps(each, ensure_ascii=is_ascii, indent=1).encode() for each in (one, other)]
    first, second = (exact(text) for text in texts)
    assert (first == second) == (told_apart(as_python(texts[0])) == told_apart(as_python(texts[1])))
    assert as_python(first) == as_python(texts[0]) == as_python(as_written(texts[0]))


def test_errors_are_ours() -> None:
    with pytest.raises(SemelError):
        found(b"{", ("a",))
