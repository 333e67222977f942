"""Producers' sequences, judged from the headers of real batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.sequences import SequenceCheck, SequenceVerdict
from semel.errors import SemelError
from semel.record.batch import decode_header, encode_batch
from semel.record.control import encode_abort_marker
from semel.record.records import Record
from semel.sequence import SEQUENCE_MODULUS
from semel.types import TopicPartition

PARTITION = TopicPartition("flights", 0)


class Log:
    """One partition's batches, fed to a check as they are written."""

    def __init__(
        self, *, log_start_offset: int = 0, compacted: bool = False, producers_max: int = 10
    ) -> None:
        self.check = SequenceCheck(examples_max=2, producers_max=producers_max)
        self.check.begin(PARTITION, log_start_offset=log_start_offset, compacted=compacted)
        self.end_offset = log_start_offset

    def write(self, producer_id: int, producer_epoch: int, base_sequence: int, count: int) -> Log:
        records = [Record(offset, 0, None, b"x") for offset in range(count)]
        batch = encode_batch(
            records,
            base_offset=self.end_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        self.check.feed(PARTITION, decode_header(batch))
        self.end_offset += count
        return self

    def marker(self, producer_id: int, producer_epoch: int) -> Log:
        batch = encode_abort_marker(producer_id, producer_epoch, 0, 0)
        batch[:8] = self.end_offset.to_bytes(8, "big")
        self.check.feed(PARTITION, decode_header(batch))
        self.end_offset += 1
        return self

    @property
    def verdict(self) -> SequenceVerdict:
        return self.check.verdict()

    @property
    def checks(self) -> list[str]:
        return [finding.check for finding in self.verdict.findings]


def test_batches_that_follow_each_other_are_whole() -> None:
    log = Log().write(7, 0, 0, 3).write(8, 0, 0, 2).write(7, 0, 3, 1).write(8, 0, 2, 5)
    assert log.checks == []
    assert (log.verdict.records, log.verdict.batches, log.verdict.producers) == (11, 4, 2)


def test_a_new_epoch_starts_at_zero() -> None:
    assert Log().write(7, 0, 0, 3).write(7, 1, 0, 3).checks == []
    assert Log().write(7, 0, 0, 3).write(7, 1, 3, 3).checks == ["sequence_gap"]


def test_a_gap_says_what_was_to_come() -> None:
    (finding,) = Log().write(7, 0, 0, 3).write(7, 0, 5, 1).verdict.findings
    assert str(finding) == "flights-0 offset 3: producer 7 epoch 0: sequence 5 where 3 was to come"


def test_a_repetition_is_found_and_does_not_move_the_mark_back() -> None:
    log = Log().write(7, 0, 0, 3).write(7, 0, 0, 3).write(7, 0, 3, 2)
    assert log.checks == ["sequence_repeated"]


def test_an_epoch_never_falls() -> None:
    assert Log().write(7, 2, 0, 1).write(7, 1, 0, 1).checks[0] == "epoch_fell"


def test_a_fence_raises_the_epoch_and_is_no_row() -> None:
    log = Log().write(7, 0, 0, 3).marker(7, 2).write(7, 2, 0, 3)
    assert log.checks == []
    assert (log.verdict.records, log.verdict.control_batches) == (6, 1)
    assert Log().write(7, 0, 0, 3).marker(7, 2).write(7, 1, 0, 3).checks[0] == "epoch_fell"


def test_a_hole_in_the_offsets_is_found() -> None:
    log = Log().write(7, 0, 0, 3)
    log.end_offset += 4
    assert log.write(7, 0, 3, 1).checks == ["offset_gap"]


def test_a_log_without_its_head_says_nothing_of_what_came_before() -> None:
    log = Log(log_start_offset=90).write(7, 3, 55, 2).write(7, 3, 57, 2)
    assert log.checks == []
    assert Log(log_start_offset=90).write(7, 3, 55, 2).write(7, 3, 58, 2).checks == ["sequence_gap"]


def test_holes_are_wanted_in_a_compacted_log_but_repetitions_are_not() -> None:
    assert Log(compacted=True).write(7, 0, 0, 2).write(7, 0, 9, 2).checks == []
    assert Log(compacted=True).write(7, 0, 9, 2).write(7, 0, 9, 2).checks == ["sequence_repeated"]


def test_rows_without_an_identity_are_counted_apart() -> None:
    assert Log().write(-1, -1, -1, 4).verdict.unsequenced_records == 4


def test_examples_are_bounded_and_counts_are_not() -> None:
    log = Log()
    for _ in range(5):
        log.write(7, 0, 40, 1)
    assert (log.verdict.finding_count, len(log.verdict.findings)) == (4 + 1, 2)


def test_producers_are_bounded() -> None:
    with pytest.raises(SemelError, match="--producers-max"):
        Log(producers_max=1).write(1, 0, 0, 1).write(2, 0, 0, 1)


@given(st.integers(0, 50), st.lists(st.integers(1, 20), min_size=1, max_size=20))
def test_the_wrap_is_no_gap(before_wrap: int, counts: list[int]) -> None:
    sequence = SEQUENCE_MODULUS - 1 - before_wrap
    log = Log(log_start_offset=1)
    for count in counts:
        log.write(7, 0, sequence, count)
        sequence = (sequence + count) % SEQUENCE_MODULUS
    assert log.checks == []
