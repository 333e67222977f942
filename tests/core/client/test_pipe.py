"""One partition's line by itself: the invariants that its docstring names, each by its name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from semel.core.client.batch import ProducerBatch
from semel.core.client.pipe import KNOWN_FOR_MS, PartitionPipe
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.types import LEASED_IDS_FROM, ProducerGrant, TopicPartition

OLD, NEW, LEASED = ProducerGrant(7, 0), ProducerGrant(8, 0), ProducerGrant(LEASED_IDS_FROM, 0)
IN_FLIGHT_MAX = 5


def pipe_of(*record_counts: int, grant: ProducerGrant = OLD, ends_ms: int | None = None) -> PartitionPipe:
    """Batches of so many records wait, and the log knows the grant."""
    pipe = PartitionPipe(TopicPartition("t", 0))
    pipe.adopt(grant, ends_ms)
    pipe.known_until_ms = KNOWN_FOR_MS
    add(pipe, *record_counts)
    return pipe


def add(pipe: PartitionPipe, *record_counts: int) -> None:
    for record_count in record_counts:
        batch = ProducerBatch(pipe.tp, 0)
        for _ in range(record_count):
            batch.add(Record(0, 0, None, b"row"))
        batch.encode(Compression.NONE)
        pipe.waiting.append(batch)


def send_all(pipe: PartitionPipe, *, now_ms: int = 0) -> list[ProducerBatch]:
    sent = []
    while pipe.head(now_ms, IN_FLIGHT_MAX) is not None:
        sent.append(pipe.take())
    return sent


def sequences(batches: Sequence[ProducerBatch]) -> list[int]:
    return [batch.base_sequence for batch in batches]


def test_sequences_are_dense() -> None:
    pipe = pipe_of(2, 1, 3)
    sent = send_all(pipe)
    assert sequences(sent) == [0, 2, 3]
    for batch in reversed(sent):
        pipe.put_back(batch)
    add(pipe, 1)
    assert sequences(send_all(pipe)) == [0, 2, 3, 6]


@pytest.mark.parametrize("fail", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_order_is_kept(fail: tuple[int, ...]) -> None:
    pipe = pipe_of(1, 1, 1, 1)
    sent = send_all(pipe)
    add(pipe, 1)
    for place in fail:
        pipe.put_back(sent[place])
        assert send_all(pipe) == []  # the answer for the last one is outstanding
    pipe.let_go(sent[3])
    assert sequences(send_all(pipe)) == [0, 1, 2, 4]


def test_order_is_kept_while_the_front_one_pauses() -> None:
    pipe = pipe_of(1, 1)
    sent = send_all(pipe)
    for batch in sent:
        pipe.put_back(batch)
    sent[0].not_before_ms = 100
    assert send_all(pipe, now_ms=99) == []
    assert send_all(pipe, now_ms=100) == sent


def test_first_goes_alone() -> None:
    pipe = pipe_of(1, 1, 1)
    pipe.known_until_ms = 0
    (first,) = send_all(pipe)
    pipe.taken_by_log(first, now_ms=0)
    assert sequences(send_all(pipe, now_ms=KNOWN_FOR_MS - 1)) == [1, 2]
    add(pipe, 1)
    assert send_all(pipe, now_ms=KNOWN_FOR_MS) == []


@pytest.mark.parametrize("comes_back", [False, True])
def test_one_grant_at_a_time(comes_back: bool) -> None:
    """One in flight, or back from there, holds the partition to the old grant; only that one is sent."""
    pipe = pipe_of(1)
    (unsettled,) = send_all(pipe)
    if comes_back:
        pipe.put_back(unsettled)
    add(pipe, 1)
    assert not pipe.adopt(NEW)
    assert send_all(pipe) == [unsettled] * comes_back
    assert unsettled.grant == pipe.grant == OLD
    pipe.let_go(unsettled)
    assert pipe.adopt(NEW)
    (behind,) = send_all(pipe)
    assert (behind.grant, behind.base_sequence) == (NEW, 0)


def test_one_grant_at_a_time_unless_what_is_unsettled_is_proven_not_to_be_stored() -> None:
    pipe = pipe_of(1, 1)
    for batch in send_all(pipe):
        pipe.put_back(batch)
    pipe.forget_attempts()
    assert pipe.adopt(NEW)
    pipe.known_until_ms = KNOWN_FOR_MS
    assert [(batch.grant, batch.base_sequence) for batch in send_all(pipe)] == [(NEW, 0), (NEW, 1)]


def test_nothing_after_the_end() -> None:
    pipe = pipe_of(1, 1, grant=LEASED, ends_ms=1_000)
    sent = pipe.take()
    pipe.put_back(sent)
    assert pipe.head(999, IN_FLIGHT_MAX) is sent
    assert pipe.head(1_000, IN_FLIGHT_MAX) is None
    pipe.let_go(sent)
    assert pipe.head(1_000, IN_FLIGHT_MAX) is None
    assert pipe.adopt(NEW)
    assert pipe.head(1_000, IN_FLIGHT_MAX) is not None
