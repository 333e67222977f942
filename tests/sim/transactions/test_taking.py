"""What a reader makes of a fetch: as Kafka's own client, batch by batch."""

from __future__ import annotations

from semel.record.batch import Record, assign_offsets, encode_batch
from semel.record.control import encode_abort_marker, encode_commit_marker
from semel.sim.transactions.taking import taken
from semel.wire.fetch import FetchedPartition


def answer(aborted: list[tuple[int, int]]) -> FetchedPartition:
    """Two producers, one behind the other: a row of each, the end of each, a row of each."""
    batches = [
        rows(1, b"a"),
        rows(2, b"b"),
        encode_abort_marker(1, 0, 0, 0),
        encode_commit_marker(2, 0, 0, 0),
        rows(1, b"c"),
        rows(2, b"d"),
    ]
    for offset, batch in enumerate(batches):
        assign_offsets(memoryview(batch), offset, 0)
    return FetchedPartition("t", 0, 0, 6, 6, 0, b"".join(batches), aborted)


def rows(producer_id: int, value: bytes) -> bytearray:
    return encode_batch(
        [Record(0, 0, None, value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def test_rows_of_an_aborted_transaction_are_passed_over_up_to_its_marker() -> None:
    assert taken(answer([(1, 0)]), 0, is_committed=True) == (6, [(1, b"b"), (4, b"c"), (5, b"d")])


def test_who_reads_all_gets_all_but_markers() -> None:
    assert taken(answer([]), 0, is_committed=False) == (6, [(0, b"a"), (1, b"b"), (4, b"c"), (5, b"d")])


def test_one_that_began_before_what_was_asked_for() -> None:
    """The list says where it began; the batch before the offset asked for comes along."""
    assert taken(answer([(1, 0)]), 1, is_committed=True) == (6, [(1, b"b"), (4, b"c"), (5, b"d")])


def test_a_batch_that_is_cut_off_is_left() -> None:
    cut = answer([])
    cut.records = bytes(cut.records or b"")[:-1]
    assert taken(cut, 0, is_committed=True)[0] == 5
