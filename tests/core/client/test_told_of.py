"""A leader that tells of batches before they are committed, as Apache Kafka's does: that settles nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.client.test_pipeline import GRANT, SMALL, TP, Bench, long

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import LastStored, LogAnswered, LogSilent, ReadBack
from semel.core.client.fate import InDoubt, Stored
from semel.errors import ErrorCode

TOLD = LogAnswered(TP, GRANT.producer_epoch, 1, GRANT, may_be_lost=True)
FOUND = LogAnswered(TP, GRANT.producer_epoch, 1, GRANT)
NOT_FOUND = LogAnswered(TP, GRANT.producer_epoch, 0, GRANT)


def doubted(bench: Bench) -> ProducerBatch:
    """Row 0 is stored at offset 7; the answer to row 1 was lost, and its repeat is refused as out of order."""
    bench.append(long("a"))
    bench.answer(bench.take_sends()[0], ErrorCode.NONE, 7)
    (batch,) = bench.append(long("b"))
    bench.lose(bench.take_sends()[0])
    bench.tick()
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.asked_log == [GRANT]
    return batch


def patient() -> Bench:
    return Bench(replace(SMALL, delivery_timeout_ms=100_000))


def test_told_is_not_stored() -> None:
    """The leader has it and no follower does. It dies, and the next one is sent the batch again."""
    bench = patient()
    batch = doubted(bench)
    effects = bench.feed(TOLD)
    assert batch not in bench.fates, "told of by a leader that may lose it"
    assert effects.read_back == [ReadBack(TP, GRANT, LastStored(8, GRANT, 0), shuts_out=False)]
    bench.feed(NOT_FOUND)
    assert batch not in bench.fates
    bench.tick()
    (send,) = bench.take_sends()
    assert send.batches == (batch,)
    bench.answer(send, ErrorCode.NONE, 8)
    assert bench.fates[batch] == Stored(GRANT, 1, 8, -1)


def test_what_can_be_read_is_stored() -> None:
    bench = patient()
    batch = doubted(bench)
    bench.feed(TOLD)
    bench.feed(FOUND)
    assert bench.fates[batch] == Stored(GRANT, 1, None, -1)


def test_a_log_that_cannot_be_read_now_is_no_answer() -> None:
    bench = patient()
    batch = doubted(bench)
    bench.feed(TOLD)
    bench.feed(LogSilent(TP, "no leader"))
    assert batch not in bench.fates
    bench.tick()
    bench.answer(bench.take_sends()[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert isinstance(bench.fates[batch], Stored)


@pytest.mark.parametrize("strict", [False, True])
def test_what_neither_way_finds_is_in_doubt_in_the_end(strict: bool) -> None:
    bench = Bench(replace(SMALL, delivery_timeout_ms=10_000, strict=strict))
    batch = doubted(bench)
    for _ in range(20):
        bench.feed(TOLD)
        bench.feed(NOT_FOUND)
        bench.tick()
        for send in bench.take_sends():
            bench.answer(send, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert isinstance(bench.fates[batch], InDoubt)


def test_a_first_batch_goes_again_rather_than_that_the_whole_log_is_read() -> None:
    bench = patient()
    (batch,) = bench.append(long("a"))
    bench.lose(bench.take_sends()[0])
    bench.tick()
    bench.answer(bench.take_sends()[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    told = replace(TOLD, last_sequence=0)
    assert bench.feed(told).read_back == []
    assert batch not in bench.fates
    bench.tick()
    bench.answer(bench.take_sends()[0], ErrorCode.NONE, 0)
    assert bench.fates[batch] == Stored(GRANT, 0, 0, -1)
