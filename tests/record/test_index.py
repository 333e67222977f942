"""Walking many batches at once finds what walking each alone finds, or leaves it to that."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptRecordBatch
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
