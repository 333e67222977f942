"""What is saved of a producer comes back as it was, or is told to be damaged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.client.saved import (
    UNCOUNTED,
    SavedIdentity,
    SavedPartition,
    SavedRows,
    Unreadable,
    decode_identity,
    decode_text,
    encode_identity,
)
from semel.types import TopicPartition

names = st.text(max_size=20)
counts = st.integers(0, 2**40)
saved_partitions = st.builds(
    SavedPartition, counts, counts, counts, counts, st.integers(UNCOUNTED, 2**31 - 1), counts, counts
) | st.builds(SavedPartition, counts, counts, counts, counts, st.integers(UNCOUNTED, 2**31 - 1))
positions = st.none() | st.integers() | names | st.lists(st.integers(), max_size=3)
saved_rows = st.builds(SavedRows, positions, names, st.dictionaries(names, counts, max_size=2))
identities = st.builds(
    SavedIdentity,
    names,
    st.integers(-1, 2**40),
    st.integers(-1, 2**15 - 1),
    positions,
    st.dictionaries(names, st.integers(1, 1000), max_size=3),
    st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 999)), saved_partitions, max_size=5),
    st.dictionaries(names, names, max_size=3),
    st.lists(saved_rows, max_size=3).map(tuple),
    st.lists(counts, max_size=3).map(tuple),
)


@given(identities)
def test_an_identity_comes_back_as_it_was(saved: SavedIdentity) -> None:
    assert decode_identity(encode_identity(saved)) == saved
    assert SavedIdentity.from_text(saved.to_text()) == saved


@given(identities, st.data())
def test_a_torn_or_damaged_identity_is_told_from_a_whole_one(
    saved: SavedIdentity, data: st.DataObject
) -> None:
    stored = encode_identity(saved)
    cut = data.draw(st.integers(0, len(stored) - 2))  # without its last line break it is still whole
    assert isinstance(decode_identity(stored[:cut]), Unreadable)
    at = data.draw(st.integers(0, len(stored) - 2))
    other = data.draw(st.integers(1, 255))
    damaged = bytearray(stored)
    damaged[at] ^= other
    assert isinstance(decode_identity(bytes(damaged)), Unreadable)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_identity_or_unreadable(stored: bytes) -> None:
    assert isinstance(decode_identity(stored), Unreadable)
    assert isinstance(decode_text("semel-identity:" + stored.decode("latin-1")), Unreadable)


def test_an_identity_too_large_for_a_commit_says_how_large() -> None:
    partitions = {
        TopicPartition(f"topic-{number}", number): SavedPartition(
            number**3, number**4, number**5, number**6, number
        )
        for number in range(2_000)
    }
    with pytest.raises(ValueError, match=r"2000 partitions .* above 4096: keep it in a file"):
        SavedIdentity("loader", 1, 0, 5, {}, partitions).to_text()


def test_150_partitions_fit_into_a_commit() -> None:
    """With the fingerprints of as many positions as are kept."""
    choose = random.Random(1)
    partitions = {}
    for number in range(150):
        rows, offset = choose.randrange(10**6), choose.randrange(10**7)
        partitions[TopicPartition("out", number)] = SavedPartition(
            rows, rows, rows, offset, rows, rows, offset
        )
    recent = [SavedRows(10**8 + n, choose.randbytes(8).hex(), {"out": 1}) for n in range(16)]
    saved = SavedIdentity("loader", 1000, 3, 10**8 + 15, {"out": 150}, partitions, {"out": "x" * 36}, recent)
    assert len(saved.to_text()) <= 4096
