"""Damage in an answer: what in front of it is sound, where it is, and where the next batch begins."""

from __future__ import annotations

import pickle

import pytest
from tests import poison

from semel.client.unreadable import check_progress, sound_part
from semel.errors import CorruptRecordBatch
from semel.record.batch import Record, crc32c, decode_header, encode_batch
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
    assert error.is_damaged


def placed(*batches: bytes) -> memoryview:
    """As a log has them: at offsets that follow on each other."""
    answer, offset = bytearray(), 0
    for batch in batches:
        answer += offset.to_bytes(8, "big") + batch[8:]
        offset += decode_header(batch).last_offset_delta + 1
    return memoryview(answer)


@pytest.mark.parametrize(
    "batch", [*poison.UNREADABLE.values(), poison.BOMB], ids=[*poison.UNREADABLE, "bomb"]
)
def test_what_was_produced_so_is_not_called_damage(batch: bytes) -> None:
    before = poison.good(b"a", b"b", b"c")
    answer = placed(before, batch, poison.good(b"d"))
    sound, error = sound_part(TP, answer, 0, CorruptRecordBatch("found by column"))
    assert bytes(sound) == before
    assert (error.offset, error.next_offset, error.batch[8:]) == (3, 5, batch[8:])
    assert not error.is_damaged
    assert "its producer wrote it so, and it stays so: seek to 5 to go on behind it" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.batch) == (str(error), error.batch)


def test_a_count_that_lies_is_not_damage_either() -> None:
    """A header's fields, under the checksum."""
    batch = bytearray(placed(poison.good(b"z"), poison.good(b"a"))[len(poison.good(b"z")) :])
    batch[57:61] = (2).to_bytes(4, "big")
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    answer = memoryview(poison.good(b"a") + batch)
    sound, error = sound_part(TP, answer, 0, CorruptRecordBatch("found"))
    assert (len(sound) > 0, error.offset, error.is_damaged) == (True, 1, False)


def test_what_an_aborted_transaction_wrote_is_in_nobodys_way() -> None:
    hidden = bytearray(poison.UNREADABLE["rubbish"])
    hidden[22] |= 16  # transactional
    hidden[43:51] = (7).to_bytes(8, "big")  # of this producer
    hidden[17:21] = crc32c(memoryview(hidden)[21:]).to_bytes(4, "big")
    answer = placed(bytes(hidden), poison.good(b"a"), poison.UNREADABLE["no gzip"])
    _, error = sound_part(TP, answer, 0, CorruptRecordBatch("found"), aborted=[(7, 0)])
    assert error.offset == 3


def test_an_answer_that_never_gets_whole_is_not_asked_for_again() -> None:
    whole = BATCHES[0]
    check_progress(memoryview(b""))
    check_progress(memoryview(whole + whole[:20]))
    for cut in (whole[:-1], whole[:20]):
        with pytest.raises(CorruptRecordBatch, match="no whole batch"):
            check_progress(memoryview(cut))
