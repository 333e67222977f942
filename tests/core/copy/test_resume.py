"""Where the next holder goes on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Begun, Chunk, Held, Mark, Place
from semel.core.copy.resume import Ending, Lost, StoredRows, acknowledged, ending_of, place_behind, unsaid
from semel.core.copy.spans import spans_of
from semel.record.batch import Record, decode_header, encode_batch
from semel.sequence import SEQUENCE_MAX
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("clicks", 0)
PLACE = Place(TP, "id", 10, "clicks", "out", 100, 0, 0, sequence=4)
CHUNKS = [
    Chunk(TP, ((10, 12), (14, 15)), 18, 4, 4, 100, Mark(17, 1)),
    Chunk(TP, ((18, 20),), 20, 7, 6, 102, Mark(19, 2)),
]


@pytest.mark.parametrize(
    ("stored", "offset", "sequence"),
    [
        (6, 12, 6),  # in the first of the chunk's spans
        (7, 18, 7),  # all of a chunk: behind what is no row, too
        (8, 19, 8),
        (9, 20, 9),
    ],
)
def test_the_last_stored_row_says_where(stored, offset, sequence):
    place = place_behind(PLACE, CHUNKS, stored)
    assert (place.offset, place.sequence) == (offset, sequence)


def test_nothing_of_it_is_stored():
    assert place_behind(PLACE, CHUNKS[:1], 4) == PLACE


@pytest.mark.parametrize(
    ("stored", "says"),
    [(5, "6 rows of its last holder were acknowledged there, and 5"), (10, "9 were planned")],
)
def test_a_log_that_says_otherwise_is_not_believed(stored, says):
    lost = place_behind(PLACE, CHUNKS, stored)
    assert isinstance(lost, Lost) and says in lost.evidence


def test_what_was_acknowledged_is_the_most_that_was_said():
    assert acknowledged(PLACE, []) == 4
    assert acknowledged(PLACE, CHUNKS) == 6


def test_batches_are_counted_on():
    rows = StoredRows(3)
    for base, count in ((0, 2), (2, 3), (5, 1)):  # some of it was sure before
        rows = rows.over(base, count)
    assert rows.sequence == 6
    assert rows.over(8, 1) == Lost("sequence 8 stands behind 6 rows, 2 are missing")
    assert StoredRows(3, has_holes=True).over(8, 2).sequence == 10


def test_a_sequence_wraps():
    whole = SEQUENCE_MAX + 1
    assert StoredRows(whole - 2).over(SEQUENCE_MAX - 1, 5).sequence == whole + 3
    assert StoredRows(whole + 3).over(3, 4).sequence == whole + 7


def test_what_was_passed_by_without_a_row():
    passed = Chunk(TP, (), 40, 9, 6, 102, Mark(39, 3))
    assert place_behind(PLACE, [*CHUNKS, passed], 9).offset == 40
    assert place_behind(PLACE, [*CHUNKS, passed], 8).offset == 19  # rows in front of it are not stored


@given(data=st.data())
def test_a_prefix_of_the_plan_is_a_prefix_of_the_source(data):
    """Whatever the gaps, the chunks and the batches: what is stored, and what follows, is the source."""
    offsets = sorted(data.draw(st.sets(st.integers(0, 200), min_size=1)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(offsets)))) | {len(offsets)})
    chunks, before = [], 0
    for cut in cuts:
        rows = offsets[before:cut]
        end = data.draw(st.integers(rows[-1] + 1, offsets[cut] if cut < len(offsets) else rows[-1] + 9))
        chunks.append(Chunk(TP, spans_of(np.array(rows)), end, before, 0, 0))
        before = cut
    stored = data.draw(st.integers(0, len(offsets)))
    place = place_behind(Place(TP, None, 0, "t", None, 0, 0, 0), chunks, stored)
    assert isinstance(place, Place)
    assert [offset for offset in offsets if offset >= place.offset] == offsets[stored:]
    assert place.sequence == stored


WRITER = ProducerGrant(7, 3)


def last_batch(*values, by=WRITER, at=96):
    made = encode_batch(
        [Record(0, 1, None, value) for value in values],
        base_offset=at,
        producer_id=by.producer_id,
        producer_epoch=by.producer_epoch,
        base_sequence=0,
    )
    return decode_header(made)


def test_an_output_is_known_again_by_its_last_batch():
    found = last_batch(b"a", b"b", b"c", b"d")
    ending = ending_of(replace(PLACE, output_mark=Mark(99, found.crc)), 0, WRITER)
    assert ending == Ending(99, crc=found.crc) and ending.missing(found) is None
    assert ending.missing(last_batch(b"a", b"b", b"c", b"x"))
    assert ending.missing(last_batch(b"a", b"b", b"c", b"d", at=97))  # it ends elsewhere
    assert ending.missing(last_batch(b"a", at=105)) is None  # compacted: that one is gone


def test_what_a_holder_had_acknowledged_is_its_own():
    ending = ending_of(PLACE, 4, WRITER)
    assert ending == Ending(99, WRITER)
    assert ending.missing(last_batch(b"a", b"b", b"c", b"d")) is None
    assert ending.missing(last_batch(b"a", b"b", b"c", b"d", by=ProducerGrant(7, 4)))


@pytest.mark.parametrize("place", [PLACE, replace(PLACE, output_start=100)])
def test_where_nothing_was_acknowledged_nothing_is_known(place):
    assert ending_of(place, 0, WRITER) is None
    assert ending_of(replace(PLACE, output_start=100), 4, WRITER) is None


NEXT, OTHER = ProducerGrant(7, 5), ProducerGrant(90, 0)


def journal_of(*held):
    """Begun by ``WRITER``, and taken over by these."""
    history = CopyHistory()
    for entry in (Held(WRITER, "", 0), Begun(WRITER, "", (PLACE,)), *(Held(grant, "", 1) for grant in held)):
        history.apply(entry)
    return history


@pytest.mark.parametrize(
    ("held", "found", "has_rows"),
    [
        ((NEXT,), WRITER, True),
        ((NEXT,), NEXT, False),  # it took the job over, and died in front of its BEGUN
        ((NEXT,), ProducerGrant(7, 2), True),  # late
        ((NEXT,), ProducerGrant(8, 9), True),  # of somebody else
        ((NEXT,), ProducerGrant(90, 0), False),
        (
            (NEXT, OTHER),
            ProducerGrant(7, 6),
            False,
        ),  # the name was forgotten: behind all at which it was held
        ((OTHER,), OTHER, False),
    ],
)
def test_what_may_stand_behind_a_begun(held, found, has_rows):
    assert unsaid(journal_of(*held), found, has_rows=has_rows) is None


@pytest.mark.parametrize(
    ("held", "found", "has_rows"),
    [
        (
            (NEXT,),
            ProducerGrant(7, 4),
            True,
        ),  # its HELD and its BEGUN are gone, and the one after it is there
        ((NEXT,), ProducerGrant(7, 4), False),
        ((NEXT,), ProducerGrant(7, 6), True),  # it goes on elsewhere
        ((NEXT,), NEXT, True),
        ((NEXT,), ProducerGrant(7, 6), False),  # nobody had forgotten the name
        ((ProducerGrant(90, 1),), OTHER, True),  # likewise, where the name was forgotten
        ((ProducerGrant(90, 1),), OTHER, False),
    ],
)
def test_a_journal_that_lost_a_holder_is_not_believed(held, found, has_rows):
    lost = unsaid(journal_of(*held), found, has_rows=has_rows)
    assert isinstance(lost, Lost) and str(found.producer_id) in lost.evidence


def test_a_journal_without_a_begun_knows_nothing():
    assert unsaid(CopyHistory(), NEXT, has_rows=True) is None
