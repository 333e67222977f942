"""One partition's line by itself: the invariants that its docstring names, each by its name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from semel.core.client.batch import ProducerBatch
from semel.core.client.partition_queue import KNOWN_FOR_MS, PartitionQueue
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.types import LEASED_IDS_FROM, ProducerGrant, TopicPartition

OLD, NEW, LEASED = ProducerGrant(7, 0), ProducerGrant(8, 0), ProducerGrant(LEASED_IDS_FROM, 0)
IN_FLIGHT_MAX = 5


def queue_of(*record_counts: int, grant: ProducerGrant = OLD, ends_ms: int | None = None) -> PartitionQueue:
    """Batches of so many records wait, and the log knows the grant."""
    queue = PartitionQueue(TopicPartition("t", 0))
    queue.adopt(grant, ends_ms)
    queue.known_until_ms = KNOWN_FOR_MS
    add(queue, *record_counts)
    return queue


def add(queue: PartitionQueue, *record_counts: int) -> None:
    for record_count in record_counts:
        batch = ProducerBatch(queue.tp, 0)
        for _ in range(record_count):
            batch.add(Record(0, 0, None, b"row"))
        batch.encode(Compression.NONE)
        queue.waiting.append(batch)


def send_all(queue: PartitionQueue, *, now_ms: int = 0) -> list[ProducerBatch]:
    sent = []
    while queue.head(now_ms, IN_FLIGHT_MAX) is not None:
        sent.append(queue.take())
    return sent


def sequences(batches: Sequence[ProducerBatch]) -> list[int]:
    return [batch.base_sequence for batch in batches]


def test_sequences_are_dense() -> None:
    queue = queue_of(2, 1, 3)
    sent = send_all(queue)
    assert sequences(sent) == [0, 2, 3]
    for batch in reversed(sent):
        queue.put_back(batch)
    add(queue, 1)
    assert sequences(send_all(queue)) == [0, 2, 3, 6]


@pytest.mark.parametrize("fail", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_order_is_kept(fail: tuple[int, ...]) -> None:
    queue = queue_of(1, 1, 1, 1)
    sent = send_all(queue)
    add(queue, 1)
    for place in fail:
        queue.put_back(sent[place])
        assert send_all(queue) == []  # the answer for the last one is outstanding
    queue.let_go(sent[3])
    assert sequences(send_all(queue)) == [0, 1, 2, 4]


def test_order_is_kept_while_the_front_one_pauses() -> None:
    queue = queue_of(1, 1)
    sent = send_all(queue)
    for batch in sent:
        queue.put_back(batch)
    sent[0].not_before_ms = 100
    assert send_all(queue, now_ms=99) == []
    assert send_all(queue, now_ms=100) == sent


def test_first_goes_alone() -> None:
    queue = queue_of(1, 1, 1)
    queue.known_until_ms = 0
    (first,) = send_all(queue)
    queue.stored(first, None, now_ms=0)
    assert sequences(send_all(queue, now_ms=KNOWN_FOR_MS - 1)) == [1, 2]
    add(queue, 1)
    assert send_all(queue, now_ms=KNOWN_FOR_MS) == []


@pytest.mark.parametrize("comes_back", [False, True])
def test_one_grant_at_a_time(comes_back: bool) -> None:
    """One in flight, or back from there, holds the partition to the old grant; only that one is sent."""
    queue = queue_of(1)
    (unsettled,) = send_all(queue)
    if comes_back:
        queue.put_back(unsettled)
    add(queue, 1)
    assert not queue.adopt(NEW)
    assert send_all(queue) == [unsettled] * comes_back
    assert unsettled.grant == queue.grant == OLD
    queue.let_go(unsettled)
    assert queue.adopt(NEW)
    (behind,) = send_all(queue)
    assert (behind.grant, behind.base_sequence) == (NEW, 0)


def test_one_grant_at_a_time_unless_what_is_unsettled_is_proven_not_to_be_stored() -> None:
    queue = queue_of(1, 1)
    for batch in send_all(queue):
        queue.put_back(batch)
    queue.forget_attempts()
    assert queue.adopt(NEW)
    queue.known_until_ms = KNOWN_FOR_MS
    assert [(batch.grant, batch.base_sequence) for batch in send_all(queue)] == [(NEW, 0), (NEW, 1)]


def test_nothing_after_the_end() -> None:
    queue = queue_of(1, 1, grant=LEASED, ends_ms=1_000)
    sent = queue.take()
    queue.put_back(sent)
    assert queue.head(999, IN_FLIGHT_MAX) is sent
    assert queue.head(1_000, IN_FLIGHT_MAX) is None
    queue.let_go(sent)
    assert queue.head(1_000, IN_FLIGHT_MAX) is None
    assert queue.adopt(NEW)
    assert queue.head(1_000, IN_FLIGHT_MAX) is not None
