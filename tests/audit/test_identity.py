"""What makes two rows the same row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.identity import IdentityRule, IdentityUnreadable, KeyFrom
from semel.errors import ConfigError


def text(rule: IdentityRule, key: bytes | None, value: bytes | None) -> bytes | None:
    return rule.compile()(key, value)


def test_a_record_key_equals_the_same_text_in_a_field() -> None:
    by_key = IdentityRule(KeyFrom.KEY)
    by_field = IdentityRule.of("id", None)
    assert text(by_key, b"UA1545", None) == text(by_field, None, b'{"id": "UA1545", "other": 1}')


def test_fields_compare_in_the_order_in_which_they_are_named() -> None:
    rule = IdentityRule.of("time_hour, carrier ,flight", None)
    assert text(rule, None, b'{"flight":1545,"carrier":"UA","time_hour":"10:00"}') == b"10:00\x1fUA\x1f1545"


def test_a_dotted_path_goes_into_the_document() -> None:
    assert text(IdentityRule.of("a.b", None), None, b'{"a":{"b":[1,{"y":2,"x":1}]}}') == b'[1,{"x":1,"y":2}]'


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "null, not JSON"),
        (b"{", "is not JSON"),
        (b"[1]", "no field 'a'"),
        (b'{"b":1}', "no field 'a'"),
        (b"\xff", "is not JSON"),
    ],
)
def test_a_value_without_the_identity_says_why(value: bytes | None, why: str) -> None:
    with pytest.raises(IdentityUnreadable, match=why):
        text(IdentityRule.of("a", None), None, value)


def test_a_null_field_is_not_the_word_null() -> None:
    rule = IdentityRule.of("a", None)
    assert text(rule, None, b'{"a":null}') != text(rule, None, b'{"a":"null"}')


@pytest.mark.parametrize(
    ("fields", "key_from"), [(None, KeyFrom.VALUE_JSON), ("a", KeyFrom.KEY), ("a,,b", None)]
)
def test_fields_and_value_json_go_together(fields: str | None, key_from: KeyFrom | None) -> None:
    with pytest.raises(ConfigError, match="--key FIELD"):
        IdentityRule.of(fields, key_from)


maybe_bytes = st.none() | st.binary(max_size=12)


@given(maybe_bytes, maybe_bytes, maybe_bytes, maybe_bytes)
def test_whole_rows_are_the_same_only_if_key_and_value_are(
    key: bytes | None, value: bytes | None, other_key: bytes | None, other_value: bytes | None
) -> None:
    rule = IdentityRule()
    same = (key, value) == (other_key, other_value)
    assert (text(rule, key, value) == text(rule, other_key, other_value)) == same
