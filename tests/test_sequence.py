from hypothesis import given
from hypothesis import strategies as st

from semel.sequence import SEQUENCE_MAX, advance, distance, last_of

sequences = st.integers(0, SEQUENCE_MAX)
counts = st.integers(1, 2**20)


def test_the_last_sequence_wraps_to_zero() -> None:
    assert advance(SEQUENCE_MAX, 1) == 0
    assert last_of(SEQUENCE_MAX, 2) == 0


def test_distance_crosses_the_wrap() -> None:
    assert distance(3, 2147483640) == 11
    assert distance(2147483640, 3) == -11


@given(sequences, counts)
def test_distance_undoes_advance(sequence: int, count: int) -> None:
    assert distance(advance(sequence, count), sequence) == count
    assert distance(sequence, advance(sequence, count)) == -count


@given(sequences, counts)
def test_a_batch_ends_just_before_the_next_one(sequence: int, count: int) -> None:
    assert advance(last_of(sequence, count), 1) == advance(sequence, count)
