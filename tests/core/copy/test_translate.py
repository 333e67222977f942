"""What an offset of the source is at the destination."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from semel.core.copy import translate
from semel.core.copy.journal import Begun, Chunk, Joined, Next, Place
from semel.core.copy.spans import spans_of
from semel.core.copy.translate import At, AtRow, Forgotten, NotYet, Translation
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("clicks", 0)
A, B = ProducerGrant(7, 1), ProducerGrant(7, 2)
PLACE = Place(TP, "id", 10, "clicks", "out", 100, 10, 100)


def fed(*entries):
    translation = Translation()
    for entry in entries:
        translation.take(entry)
    return translation


def chunk(spans, end, sequence, output_end=100):
    return Chunk(TP, spans, end, sequence, 0, output_end)


TWO_RUNS = (
    Begun(A, "", (PLACE,)),
    Next(A, (chunk(((10, 12), (14, 16)), 18, 0),)),
    Next(A, (chunk(((18, 20),), 20, 4, 104),)),
    Begun(B, "", (replace(PLACE, offset=19, output_end=110),)),  # the row at 19 was never stored by A
    Next(B, (chunk(((19, 25),), 25, 0, 110),)),
)


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (3, At(100)),
        (10, At(100)),
        (11, AtRow(A, 1, 100, False)),
        (12, AtRow(A, 2, 100, False)),  # a gap: the next row is meant
        (17, AtRow(A, 4, 100, False)),
        (19, AtRow(B, 0, 110, False)),
        (24, AtRow(B, 5, 110, False)),
        (25, AtRow(B, 5, 110, True)),
        (26, NotYet()),
    ],
)
def test_an_offset_is_that_of_its_next_row(offset, found):
    assert fed(*TWO_RUNS).find(TP, offset, 25) == found


def test_what_was_passed_by_is_the_next_row():
    entries = (*TWO_RUNS, Next(B, (chunk((), 60, 6, 116),)))
    assert fed(*entries).find(TP, 40, 60) == AtRow(B, 5, 110, True)
    more = Next(B, (chunk(((70, 71),), 71, 6, 116),))
    assert fed(*entries, more).find(TP, 40, 71) == AtRow(B, 6, 110, False)
    assert fed(Begun(A, "", (PLACE,)), Next(A, (chunk((), 30, 0),))).find(TP, 20, 30) == At(100)


def test_where_nothing_was_copied_since_the_journal_was_cut():
    translation = fed(Begun(B, "", (replace(PLACE, offset=40, output_end=130),)))
    assert translation.find(TP, 40, 40) == At(130)
    assert translation.find(TP, 39, 40) == Forgotten(40)
    assert translation.find(TopicPartition("other", 0), 0, 0) == NotYet()


def test_a_topic_that_was_made_anew_has_other_rows():
    anew = replace(PLACE, topic_id="new", offset=0, start=0, output_start=110, output_end=110)
    translation = fed(*TWO_RUNS, Joined(B, (anew,)), Next(B, (chunk(((0, 4),), 4, 6, 110),)))
    assert translation.find(TP, 0, 4) == At(110)
    assert translation.find(TP, 2, 4) == AtRow(B, 8, 110, False)


def test_what_is_further_back_than_is_known_is_said_to_be(monkeypatch):
    monkeypatch.setattr(translate, "PIECES_MAX", 10)
    monkeypatch.setattr(translate, "PIECE_ROWS_MIN", 1)
    entries = [Next(A, (chunk(((10 + n, 11 + n),), 11 + n, n),)) for n in range(11)]
    translation = fed(Begun(A, "", (PLACE,)), *entries)
    assert translation.find(TP, 10, 21) == At(100)
    assert translation.find(TP, 11, 21) == AtRow(A, 1, 100, False)
    translation.take(Next(A, (chunk(((21, 22),), 22, 11),)))
    assert translation.find(TP, 11, 22) == Forgotten(12)


@given(data=st.data())
def test_it_finds_the_sequence_of_the_first_row_at_or_behind(data):
    """Whatever the gaps, chunks, and copies that were killed in between."""
    offsets = sorted(data.draw(st.sets(st.integers(0, 120), min_size=1, max_size=40)))
    translation, stored, done, number = Translation(), {}, 0, 0
    position = 0
    while done < len(offsets):
        grant, sequence = ProducerGrant(1, number), 0
        number += 1
        translation.take(Begun(grant, "", (replace(PLACE, offset=position, start=0, output_start=0),)))
        for _ in range(data.draw(st.integers(1, 3))):
            rows = offsets[done : done + data.draw(st.integers(1, 15))]
            if not rows:
                break
            translation.take(Next(grant, (chunk(spans_of(np.array(rows)), rows[-1] + 1, sequence, 0),)))
            kept = rows[: data.draw(st.integers(0, len(rows)))] if data.draw(st.booleans()) else rows
            stored |= {row: (grant, sequence + n) for n, row in enumerate(kept)}
            done, sequence = done + len(kept), sequence + len(kept)
            position = kept[-1] + 1 if kept else position
            if len(kept) < len(rows):
                break
    translation.take(
        Begun(ProducerGrant(2, 0), "", (replace(PLACE, offset=position, start=0, output_start=0),))
    )
    wanted = data.draw(st.integers(1, position))
    found = translation.find(TP, wanted, position)
    behind = [row for row in offsets if row >= wanted]
    assert isinstance(found, AtRow)
    assert (found.grant, found.sequence) == stored[behind[0] if behind else offsets[-1]]
    assert found.is_behind is not bool(behind)
