"""Walking many batches at once finds what walking each alone finds, or leaves it to that."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
from semel.record import index
from semel.record.batch import Record, decode_header, encode_batch, payload_of
from semel.record.columnar import decode_table
from semel.record.index import walk, walk_together

VALUES = st.lists(st.binary(max_size=200), min_size=1, max_size=12)


def payloads_of(batches: list[list[bytes]]) -> list[bytes]:
    encoded = [encode_batch([Record(0, 5, None, value) for value in values]) for values in batches]
    return [bytes(payload_of(batch, decode_header(batch))) for batch in encoded]


def together(payloads: list[bytes], counts: list[int]) -> np.ndarray | None:
    ends = np.cumsum([len(payload) for payload in payloads])
    starts = np.concatenate(([0], ends[:-1]))
    return walk_together(np.frombuffer(b"".join(payloads), np.uint8), starts, ends, np.array(counts))


def one_by_one(payloads: list[bytes], counts: list[int]) -> list[int]:
    positions: array[int] = array("q")
    start = 0
    for payload, count in zip(payloads, counts, strict=True):
        walk(b"".join(payloads), start, start + len(payload), count, positions)
        start += len(payload)
    return list(positions)


@given(st.lists(VALUES, min_size=1, max_size=40))
def test_the_same_places_are_found(batches):
    payloads, counts = payloads_of(batches), [len(values) for values in batches]
    assert together(payloads, counts).tolist() == one_by_one(payloads, counts)


@given(st.lists(VALUES, min_size=2, max_size=6), st.data())
def test_what_is_broken_is_never_taken_for_whole(batches, data):
    payloads, counts = payloads_of(batches), [len(values) for values in batches]
    which = data.draw(st.integers(0, len(batches) - 1))
    at = data.draw(st.integers(0, len(payloads[which]) - 1))
    byte = data.draw(st.integers(0, 255))
    payloads[which] = payloads[which][:at] + bytes([byte]) + payloads[which][at + 1 :]
    found = together(payloads, counts)
    try:
        expected = one_by_one(payloads, counts)
    except CorruptRecordBatch:
        assert found is None
    else:
        assert found is None or found.tolist() == expected


LIKE_RECORDS = bytes(payload_of(batch := encode_batch([Record(0, 5, b"k", b"v")] * 9), decode_header(batch)))
LONG_VALUES = st.lists(
    st.sampled_from([b"", b"row", b"x" * 100, b"y" * 9_000, b"\0" * 40, b"\x1e\0" * 30, LIKE_RECORDS]),
    min_size=1,
    max_size=7,
)


@given(st.lists(st.tuples(LONG_VALUES, st.integers(1, 400)), min_size=1, max_size=4))
@settings(max_examples=settings().max_examples * 3 // 5)
def test_long_batches_are_cut_where_a_record_begins_or_not_at_all(drawn):
    batches = [(values * repeats)[:500] for values, repeats in drawn]
    payloads, counts = payloads_of(batches), [len(values) for values in batches]
    found = together(payloads, counts)
    assert found is None or found.tolist() == one_by_one(payloads, counts)


@given(st.data())
@settings(max_examples=settings().max_examples * 3 // 5)
def test_a_long_batch_that_is_broken_is_never_taken_for_whole(data):
    payload = bytearray(payloads_of([[b'{"user":"u%d"}' % number for number in range(700)]])[0])
    assert together([bytes(payload)], [700]).tolist() == one_by_one([bytes(payload)], [700])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    found = together([bytes(payload)], [700])
    try:
        expected = one_by_one([bytes(payload)], [700])
    except CorruptRecordBatch:
        assert found is None
    else:
        assert found is None or found.tolist() == expected


def test_records_of_one_long_batch_are_found_side_by_side(monkeypatch):
    monkeypatch.setattr(index, "walk", None)
    values = [b"%d" % number * (number % 40) for number in range(5_000)]
    batch = bytes(encode_batch([Record(0, 5, None, value) for value in values]))
    assert decode_table([batch], topic="t", partition=0)["value"].to_pylist() == values


@pytest.mark.parametrize("counts", [[2, 1], [1, 2], [3, 0]])
def test_wrong_counts_are_left_to_the_walk_that_says_so(counts):
    assert together(payloads_of([[b"a"], [b"b"]]), counts) is None


def test_long_records_among_many_batches():
    rows = [[b"x" * 20_000], *([[b"%d" % number] * 3 for number in range(30)])]
    table = decode_table(
        [bytes(encode_batch([Record(0, 5, None, value) for value in values])) for values in rows],
        topic="t",
        partition=0,
    )
    assert table["value"].to_pylist() == [value for values in rows for value in values]
