"""The bytes of a merge log's records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.merge_samples import (
    SECOND,
)

from semel.core.flow.merge_records import Entry, EntryRange, Head, InputTopic, MergeInput, encode, read_record

offsets = st.integers(0, 2**62)
keys = st.builds(InputTopic, st.text(max_size=5), st.text(max_size=5))
heads = st.builds(
    Head,
    offsets,
    st.text(max_size=9),
    st.lists(st.builds(MergeInput, st.text(), st.text(), st.integers(1, 99)), max_size=3).map(tuple),
    st.dictionaries(keys, offsets, max_size=3),
)
entries = st.builds(
    Entry,
    offsets,
    offsets,
    st.lists(st.builds(EntryRange, st.text(), st.text(), offsets, offsets), max_size=3).map(tuple),
    st.dictionaries(keys, offsets, max_size=3),
    st.none() | offsets,
    st.booleans(),
)
told = st.builds(  # also under which leaders
    lambda entry, ranges, epochs: replace(entry, ranges=tuple(ranges), leader_epochs=epochs),
    entries,
    st.lists(st.builds(EntryRange, st.text(), st.text(), offsets, offsets, st.integers(-1, 9)), max_size=3),
    st.dictionaries(keys, st.integers(0, 2**31 - 1), min_size=1, max_size=3),
)


@given(heads | entries | told)
def test_bytes_and_back(record):
    key, value = encode(record)
    assert read_record(value) == record
    assert json.loads(key)[:2] == ["head" if isinstance(record, Head) else "entry", record.epoch]


def test_an_entry_in_bytes():
    assert encode(SECOND) == (
        b'["entry",1,1]',
        b'{"ahead":false,"ends":[["clicks","id-c",5],["users","id-u",3]],"epoch":1,"kind":"entry","number":1,'
        b'"ranges":[["users","id-u",2,3]],"tick_ms":null,"v":1}',
    )


@pytest.mark.parametrize(
    "value", [None, b"", b"hello", b"[1]", b"{}", b'{"kind":"entry"}', b"\xff", b"[" * 9999]
)
def test_what_nobody_plans_with_is_passed_over(value):
    assert read_record(value) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"v": 2}, "of format 2, and this semel knows 1"),
        ({"kind": "gap"}, "kind 'gap' is not known"),
        ({"epoch": "1"}, "not those of format 1"),
        ({"epoch": True}, "not those of format 1"),
        ({"number": None}, "not those of format 1"),
        ({"ranges": [["users", "id-u", 2]]}, "not those of format 1"),
        ({"ranges": [["users", "id-u", 2, 2.5]]}, "not those of format 1"),
        ({"ends": 7}, "not those of format 1"),
        ({"tick_ms": "x"}, "not those of format 1"),
    ],
)
def test_what_may_be_an_entry_and_cannot_be_read_is_never_passed_over(change, why):
    body = json.loads(encode(SECOND)[1]) | change
    with pytest.raises(ValueError, match=why):
        read_record(json.dumps(body).encode())
