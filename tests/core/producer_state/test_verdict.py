"""The verdict table row by row, and the judge against a model that remembers every sequence ever stored."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.verdicts.log_in_memory import LogOfRow

from semel.core.lease import LiveLeases
from semel.core.producer_state.entry import BatchSpan, ProducerEntry
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.table import TABLE, Row
from semel.core.producer_state.verdict import (
    APPEND,
    Append,
    Duplicate,
    InvalidProducerEpoch,
    InvalidTxnState,
    LeaseExpired,
    OutOfOrderSequence,
    Straddling,
    UnknownProducer,
    Verdict,
    error_code,
    explain,
    judge,
    judge_lease,
    judge_marker,
)
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.sequence import SEQUENCE_MAX, advance, last_of
from semel.types import LEASED_IDS_FROM

PRODUCER = 7


def header(base_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = PRODUCER) -> BatchHeader:
    return BatchHeader(0, 100, -1, 2, 0, 0, count - 1, 0, 0, producer_id, epoch, base_sequence, count)


def entry(*spans: tuple[int, int], epoch: int = 0) -> ProducerEntry:
    window = tuple(BatchSpan(base, last, 1000 + n, 1000 + n) for n, (base, last) in enumerate(spans))
    return ProducerEntry(epoch, -1, 0, window)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.scenario)
def test_the_table_is_what_the_code_says(row: Row) -> None:
    log = LogOfRow(row)
    verdict, code, base_offset = log.send(row.sent)
    assert type(verdict) is row.outcome.verdict
    assert code is row.outcome.code
    assert base_offset == row.base_offset


def test_the_table_has_every_verdict() -> None:
    assert {row.outcome.verdict for row in TABLE} == set(get_args(Verdict))
    assert len({row.scenario for row in TABLE}) == len({row.batch for row in TABLE}) == len(TABLE)


def test_refusals_carry_their_evidence() -> None:
    known = entry((0, 4), (5, 9), epoch=3)
    assert judge(None, header(1)) == UnknownProducer(PRODUCER, 1)
    assert judge(known, header(5, epoch=2)) == InvalidProducerEpoch(3, 2)
    assert judge(known, header(5, epoch=4)) == OutOfOrderSequence(0, 5)
    assert judge(known, header(11, 3, epoch=3)) == OutOfOrderSequence(10, 11)
    assert judge(known, header(9, 2, epoch=3)) == Straddling(9, 9, 10)
    assert judge(entry((SEQUENCE_MAX - 9, SEQUENCE_MAX)), header(3)) == OutOfOrderSequence(0, 3)
    assert judge_marker(known, 2) == InvalidProducerEpoch(3, 2)


def test_leased_ids_are_judged_by_their_numbers_at_any_sequence() -> None:
    live = LiveLeases(expired_below=LEASED_IDS_FROM + 3, granted_below=LEASED_IDS_FROM + 5)
    for sequence in (0, 1, SEQUENCE_MAX):
        of = [header(sequence, producer_id=LEASED_IDS_FROM + number) for number in range(6)]
        for over in (of[0], of[2]):
            assert judge_lease(over, live) == LeaseExpired(over.producer_id, LEASED_IDS_FROM + 3)
        assert judge_lease(of[3], live) is judge_lease(of[4], live) is None
        assert judge_lease(of[5], live) == UnknownProducer(LEASED_IDS_FROM + 5, sequence)


def test_every_verdict_has_its_code_and_its_evidence() -> None:
    table: list[tuple[Verdict, int, bool]] = [
        (APPEND, 0, False),
        (Duplicate(5), 0, False),
        (Duplicate(None), 46, True),
        (OutOfOrderSequence(1, 2), 45, True),
        (Straddling(1, 0, 2), 87, True),
        (InvalidProducerEpoch(2, 1), 47, True),
        (UnknownProducer(PRODUCER, 2), 59, True),
        (UnknownProducer(LEASED_IDS_FROM, 0), 59, True),
        (LeaseExpired(LEASED_IDS_FROM, LEASED_IDS_FROM + 1), 59, True),
        (InvalidTxnState(5), 48, True),
    ]
    for verdict, code, has_evidence in table:
        assert error_code(verdict) == ErrorCode(code)
        assert (explain(verdict) is not None) == has_evidence


def send(state: ProducerState, batch: BatchHeader) -> Verdict:
    """As a partition does it."""
    if batch.base_sequence > 0 and state.append_next(batch, state.end_offset, now_ms=0) is not None:
        return APPEND
    verdict = state.judge(batch)
    if isinstance(verdict, Append):
        state.apply(batch, state.end_offset, now_ms=0)
    return verdict


class Model:
    """What a partition would say that never forgets a row: sequences as whole numbers that do not wrap."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.first = first
        self.batches: dict[tuple[int, int], int] = {}
        self.recent: list[tuple[int, int]] = []

    def send(self, base: int, count: int, offset: int) -> Verdict:
        span = (base, base + count - 1)
        if base == self.next:
            self.next += count
            self.batches[span] = offset
            self.recent = [*self.recent, span][-5:]
            return APPEND
        if base > self.next:
            return OutOfOrderSequence(self.next % 2**31, base % 2**31)
        if span[1] < self.next:
            return Duplicate(self.batches[span] if span in self.recent else None)
        return Straddling((self.next - 1) % 2**31, base % 2**31, span[1] % 2**31)


@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(-40, 6), st.integers(1, 12)), min_size=1, max_size=60),
)
def test_the_judge_agrees_with_a_model_that_forgets_nothing(
    before_wrap: int, sends: list[tuple[int, int]]
) -> None:
    first = 2**31 - before_wrap
    model = Model(first)
    state = ProducerState(
        {
            PRODUCER: ProducerEntry(
                0, -1, 0, (BatchSpan(advance(first, -50) % 2**31, advance(first, -1), 0, 49),)
            )
        },
        end_offset=50,
    )
    for jump, count in sends:
        base = max(model.first, model.next + jump)
        offset = state.end_offset
        batch = header(base % 2**31, count)
        assert batch.last_sequence == last_of(base % 2**31, count)
        assert send(state, batch) == model.send(base, count, offset)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 8)), max_size=40))
def test_no_epoch_ever_goes_back(steps: list[tuple[int, bool, int]]) -> None:
    state = ProducerState()
    highest = -1
    for epoch, is_marker, base_sequence in steps:
        batch = header(base_sequence, epoch=epoch)
        if is_marker:
            if judge_marker(state.get(PRODUCER), epoch) == APPEND:
                state.apply_marker(batch, state.end_offset, 0, now_ms=0)
                highest = max(highest, epoch)
        elif send(state, batch) == APPEND:
            assert epoch >= highest, "a fenced epoch has written"
            highest = max(highest, epoch)
        known = state.get(PRODUCER)
        assert (known.producer_epoch if known else -1) == highest
