"""Conditions on the rows of an input: what they mean for bytes, nulls and JSON, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ConfigError
from semel.record.batch import Record
from semel.record.where import ConditionFailed, compile_where


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
