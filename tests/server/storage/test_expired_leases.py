"""Rows of leases that are over go in small steps, and none of those that live."""

from __future__ import annotations

from typing import Any

import pytest

from semel.core.lease import LiveLeases
from semel.server.storage import expired_leases
from semel.server.storage.aside import at_once
from semel.server.storage.expired_leases import ExpiredLeases
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.types import LEASED_IDS_FROM, TopicPartition

NOW_MS = 1_000_000


class Rows:
    """A partition's rows, as their ids; every third of them takes as long as five others."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = sorted(LEASED_IDS_FROM + one for one in ids)
        self.most_steps = 0

    def forget_leases(self, expired_below: int, steps_max: int) -> int:
        steps = 0
        while steps < steps_max and self.ids and self.ids[0] < expired_below:
            steps += 1 if self.ids.pop(0) % 3 else 5
        self.most_steps = max(self.most_steps, steps)
        return steps


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_leases, "_STEPS", 16)


def test_a_few_at_a_time_until_none_is_left_and_the_next_end_begins_anew() -> None:
    live = LiveLeases()
    rows = {TopicPartition("t", n): Rows(list(range(n, 200, 40))) for n in range(40)}
    over = ExpiredLeases(rows, live)  # type: ignore[arg-type]
    assert not over.forget_some(), "nothing is over"
    for end in (100, 150):
        live.expired_below = LEASED_IDS_FROM + end
        rounds = 1
        while over.forget_some():
            rounds += 1
        assert rounds > 5
        left = sorted(one - LEASED_IDS_FROM for each in rows.values() for one in each.ids)
        assert left == list(range(end, 200))
        assert not over.forget_some()
    assert max(each.most_steps for each in rows.values()) < 16 + 5


def test_an_end_amid_a_round_is_not_missed() -> None:
    live = LiveLeases(expired_below=LEASED_IDS_FROM + 50)
    rows = {TopicPartition("t", 0): Rows(list(range(100)))}
    over = ExpiredLeases(rows, live)  # type: ignore[arg-type]
    assert over.forget_some()
    live.expired_below = LEASED_IDS_FROM + 80
    while over.forget_some():
        pass
    assert len(rows[TopicPartition("t", 0)].ids) == 20


def write(storage: Storage, partition: Partition, make_batch: Any, ids: range) -> None:
    storage.producer_ids.live_leases.granted_below = LEASED_IDS_FROM + ids.stop
    for producer_id in ids:
        storage._producer_bound.reserve(LEASED_IDS_FROM + producer_id, 2)
    for producer_id in ids:
        partition.append(*make_batch(0, producer_id=LEASED_IDS_FROM + producer_id, epoch=0), NOW_MS)


def test_a_partition_deleted_amid_a_round_takes_its_rows_with_it(open_storage: Any, make_batch: Any) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", 2, now_ms=NOW_MS))
    live = storage.producer_ids.live_leases
    for number in (0, 1):
        partition = storage.partition("t", number)
        assert partition is not None
        write(storage, partition, make_batch, range(30))
    assert storage.producer_count == 60
    live.expired_below = LEASED_IDS_FROM + 30
    bound = storage._producer_bound
    assert bound.forget_some()
    at_once(storage.delete_topic("t", now_ms=NOW_MS))
    while bound.forget_some():
        pass
    assert storage.producer_count == 0


def test_a_row_in_a_slab_that_a_snapshot_holds_counts_as_many_steps(
    open_storage: Any, make_batch: Any
) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    assert partition is not None
    write(storage, partition, make_batch, range(30))
    frozen = partition.freeze_producers()
    before = list(frozen)
    assert partition.forget_leases(LEASED_IDS_FROM + 30, 1) > 30, "it is copied first"
    assert partition.forget_leases(LEASED_IDS_FROM + 30, 2) == 2
    assert partition.producer_count == 27
    assert list(frozen) == before
