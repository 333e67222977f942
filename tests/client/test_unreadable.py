"""Damage in an answer: what in front of it is sound, where it is, and where the next batch begins."""

from __future__ import annotations

import pytest

from semel.client.unreadable import check_progress, sound_part
from semel.errors import CorruptRecordBatch
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

TP = TopicPartition("t", 0)
BATCHES = [
    bytes(encode_batch([Record(0, 0, None, b"x")] * count, base_offset=base_offset))
    for base_offset, count in ((0, 2), (2, 3), (5, 1))
]
SIZES = [len(batch) for batch in BATCHES]


def damaged(batch: int, at_byte: int) -> memoryview:
    """Three batches at offsets 0, 2 and 5; one bit of one of them is another."""
    answer = bytearray(b"".join(BATCHES))
    answer[sum(SIZES[:batch]) + at_byte] ^= 1
    return memoryview(answer)


@pytest.mark.parametrize(
    ("batch", "at_byte", "sound_batches", "offset", "next_offset"),
    [
        (1, -1 + SIZES[1], 1, 2, 5),  # a record
        (1, 26, 1, 2, 5),  # its last offset delta: the next batch shows where it ends
        (1, 7, 1, 2, 5),  # its offset: it begins at 3, and the next one not behind it
        (2, 7, 2, 5, None),  # begins at 4, which is in the one before
        (1, 10, 1, 2, 5),  # its length, past the end of the answer
        (2, -1 + SIZES[2], 2, 5, 6),
        (2, 60, 2, 5, None),  # its count: nothing says where it ends
        (0, 16, 0, 0, 2),
    ],
)
def test_the_damage_is_found_where_it_is(
    batch: int, at_byte: int, sound_batches: int, offset: int, next_offset: int | None
) -> None:
    sound, error = sound_part(TP, damaged(batch, at_byte), 0, CorruptRecordBatch("found by column"))
    assert len(sound) == sum(SIZES[:sound_batches])
    assert (error.partition, error.offset, error.next_offset) == (TP, offset, next_offset)


def test_an_answer_that_never_gets_whole_is_not_asked_for_again() -> None:
    whole = BATCHES[0]
    check_progress(memoryview(b""))
    check_progress(memoryview(whole + whole[:20]))
    for cut in (whole[:-1], whole[:20]):
        with pytest.raises(CorruptRecordBatch, match="no whole batch"):
            check_progress(memoryview(cut))
