"""Rows counted in offsets with gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.copy.spans import joined, offset_of, row_count, rows_before, spans_of

OFFSETS = st.sets(st.integers(0, 60)).map(sorted)


@pytest.mark.parametrize(
    ("offsets", "spans"),
    [
        ([], ()),
        ([4], ((4, 5),)),
        ([4, 5, 6], ((4, 7),)),
        ([4, 6, 7, 11], ((4, 5), (6, 8), (11, 12))),
    ],
)
def test_rows_that_follow_on_each_other_are_one_span(offsets, spans):
    assert spans_of(np.array(offsets, dtype=np.int64)) == spans


@given(offsets=OFFSETS, cut=st.integers(0, 60))
def test_spans_stand_for_their_rows(offsets, cut):
    spans = spans_of(np.array(offsets, dtype=np.int64))
    assert row_count(spans) == len(offsets)
    assert [offset_of(spans, row) for row in range(len(offsets))] == offsets
    assert rows_before(spans, cut) == sum(offset < cut for offset in offsets)
    with pytest.raises(IndexError):
        offset_of(spans, len(offsets))


@given(offsets=OFFSETS, cut=st.integers(0, 60))
def test_pieces_are_joined_again(offsets, cut):
    pieces = [np.array(part, dtype=np.int64) for part in (offsets[:cut], offsets[cut:])]
    assert joined(span for piece in pieces for span in spans_of(piece)) == spans_of(np.concatenate(pieces))
