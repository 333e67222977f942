from __future__ import annotations

from semel.core.log.recovery import Bad, Cut, Damaged, NeedMore, Sound, Whole, decide_cut, examine
from semel.record.batch import Record, encode_batch

BATCH = encode_batch([Record(5, 1000, b"k", b"v" * 50)], base_offset=5)


def look(
    content: bytes | bytearray, *, expected_offset: int = 5, left: int | None = None
) -> Whole | NeedMore | Bad:
    file_left_bytes = len(content) if left is None else left
    return examine(memoryview(content), 0, expected_offset=expected_offset, file_left_bytes=file_left_bytes)


def test_a_whole_batch_is_good() -> None:
    found = look(BATCH)
    assert isinstance(found, Whole)
    assert found.header.size_bytes == len(BATCH)


def test_the_buffer_may_end_before_the_file() -> None:
    assert look(BATCH[:20], left=len(BATCH)) == NeedMore(61)
    assert look(BATCH[:70], left=len(BATCH)) == NeedMore(len(BATCH))


def test_every_torn_zeroed_or_flipped_batch_is_bad() -> None:
    assert isinstance(look(BATCH, expected_offset=6), Bad)
    for length in range(len(BATCH)):
        assert isinstance(look(BATCH[:length]), Bad), f"cut to {length}"
        zeroed = BATCH[:length] + bytes(len(BATCH) - length)
        assert zeroed == BATCH or isinstance(look(zeroed), Bad), f"zeroed from {length}"
    for position in range(len(BATCH)):
        flipped = bytearray(BATCH)
        flipped[position] ^= 0x10
        if position not in range(12, 16):  # the leader epoch is nobody's business
            assert isinstance(look(flipped), Bad), f"flipped at {position}"


def test_nothing_that_was_synced_is_cut() -> None:
    bad = Bad("torn")
    assert decide_cut(None, at_offset=9, recovery_point=9) == Sound()
    assert decide_cut(bad, at_offset=9, recovery_point=9) == Cut(9, "torn")
    assert isinstance(decide_cut(bad, at_offset=9, recovery_point=10), Damaged)
    assert isinstance(decide_cut(None, at_offset=9, recovery_point=10), Damaged)
