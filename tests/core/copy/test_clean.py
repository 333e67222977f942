"""Rows of a doubling writer, each once, whatever was killed in between."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.copy.clean import Cleaner, WithoutLineage, clean_behind
from semel.core.copy.journal import Chunk, Clean, LineageMark, Place
from semel.core.copy.resume import place_behind
from semel.core.copy.spans import row_count, spans_of
from semel.core.flow.lineage import Lineage
from semel.core.flow.pieces import HEADERS_TYPE
from semel.types import TopicPartition

TP = TopicPartition("dirty", 0)


def headers_of(lineages):
    return pa.array(
        [
            [] if each is None else [dict(zip(("key", "value"), each.header(), strict=True))]
            for each in lineages
        ],
        HEADERS_TYPE,
    )


def taken(cleaner, rows):
    """``rows``: (offset, lineage) each."""
    return cleaner.take(
        np.array([offset for offset, _ in rows], np.int64), headers_of([of for _, of in rows])
    )


def of(offset, index=0, partition=0):
    return Lineage("clicks", partition, offset, index)


def test_each_row_comes_once_by_source_partition():
    cleaner = Cleaner(Clean())
    rows = [of(5), of(5, 1), of(5), of(3, partition=1), of(6), of(5, 1), of(6), of(4, partition=1)]
    assert taken(cleaner, list(enumerate(rows, 10))) == [10, 11, 13, 14, 17]
    assert cleaner.behind(18) == Clean((LineageMark("clicks/0", 6, 0), LineageMark("clicks/1", 4, 0)), (), 18)
    assert taken(Cleaner(cleaner.behind(18)), [(18, of(6)), (19, of(7))]) == [19]


def test_a_row_without_lineage_is_named():
    assert taken(Cleaner(Clean()), [(7, of(1)), (8, None), (9, None)]) == WithoutLineage(8)


def test_what_is_left_of_a_chunk_comes_without_being_judged_again():
    chunk = Chunk(
        TP, ((10, 12), (14, 16)), 20, 0, 0, 0, None, Clean((LineageMark("clicks/0", 9, 0),), (), 20)
    )
    left = clean_behind(chunk, 3)
    assert left == Clean(chunk.clean.marks, ((15, 16),), 20)
    rows = [(14, of(7)), (15, of(8)), (16, of(8)), (17, None), (20, of(9)), (21, of(10))]
    assert taken(Cleaner(left), rows) == [15, 21]
    assert Cleaner(left).behind(15).rest == ((15, 16),) and Cleaner(left).behind(15).judged_to == 20


@pytest.mark.slow
@given(data=st.data())
def test_every_row_comes_once_whatever_is_killed(data):
    """A writer goes back again and again; fetches are cut anyhow, and of what was planned any prefix is stored."""
    dirty = []
    for partition in range(2):
        at, end = 0, data.draw(st.integers(1, 12))
        while at < end:
            at = data.draw(st.integers(0, at)) if data.draw(st.booleans()) else at
            upto = data.draw(st.integers(at + 1, end))
            dirty += [of(offset, index, partition) for offset in range(at, upto) for index in range(2)]
            at = upto
    place, stored = Place(TP, None, 0, "t", None, 0, 0, 0, clean=Clean()), []
    lives = 0
    while place.offset < len(dirty):
        lives += 1
        chunks, planned, position, clean = [], 0, place.offset, place.clean
        for _ in range(data.draw(st.integers(1, 4))):
            end = min(len(dirty), position + data.draw(st.integers(1, 9)))
            cleaner = Cleaner(clean)
            offsets = taken(cleaner, [(offset, dirty[offset]) for offset in range(position, end)])
            clean = cleaner.behind(end)
            chunks.append(Chunk(TP, spans_of(np.array(offsets, np.int64)), end, planned, 0, 0, None, clean))
            planned, position = planned + len(offsets), end
        kept = data.draw(st.integers(0, planned)) if lives < 20 else planned
        rows = [offset for chunk in chunks for start, end in chunk.spans for offset in range(start, end)]
        assert planned == sum(row_count(chunk.spans) for chunk in chunks)
        stored += rows[:kept]
        behind = place_behind(place, chunks, kept)
        assert isinstance(behind, Place)
        place = Place(TP, None, behind.offset, "t", None, 0, 0, 0, clean=behind.clean)
    lineages = [dirty[offset].header() for offset in stored]
    assert len(set(lineages)) == len(lineages) and set(lineages) == {each.header() for each in dirty}
    for partition in range(2):
        found = [(x.offset, x.index) for x in (dirty[at] for at in stored) if x.partition == partition]
        assert found == sorted(found)
