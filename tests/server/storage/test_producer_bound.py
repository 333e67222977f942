"""A server remembers only so many producers, and forgets none of them to make room."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.errors import ErrorCode
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
SETTINGS = StorageSettings(producers_max=3, producer_id_expiration_ms=1000)
REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = Storage.open(tmp_path / "data", None, SETTINGS, now_ms=NOW_MS)
    at_once(storage.create_topic("t", 2, now_ms=NOW_MS))
    return storage


def test_at_the_bound_new_producers_are_told_to_come_again(storage, make_batch, fence) -> None:
    first, second = storage.partition("t", 0), storage.partition("t", 1)

    def send(partition, producer_id: int, sequence: int = 0, now_ms: int = NOW_MS) -> ErrorCode:
        batch, headers = make_batch(sequence, producer_id=producer_id, epoch=0)
        return partition.append(batch, headers, now_ms).error_code

    assert [send(first, 1), send(first, 2), send(second, 1)] == [0, 0, 0]
    assert [send(first, 3), send(second, 2)] == [REFUSED, REFUSED]
    assert REFUSED.retriable
    assert send(first, 1, 1, NOW_MS + 900) == 0, "who is known goes on"
    assert send(first, -1, -1) == 0, "and whoever has no id"
    assert fence(first, 9, 0).error_code is REFUSED

    storage.maintain(NOW_MS + 1001)
    assert storage.producer_count == 1
    assert send(second, 3, 0, NOW_MS + 1001) == 0


def test_the_bound_holds_within_one_group_and_over_a_restart(storage, make_batch) -> None:
    partition = storage.partition("t", 0)
    group = [Incoming(*make_batch(0, producer_id=n, epoch=0)) for n in range(5)]
    codes = [outcome.error_code for outcome in partition.append_all(group, NOW_MS)]
    assert codes == [0, 0, 0, REFUSED, REFUSED]
    partition.sync()
    storage.close(now_ms=NOW_MS)
    after = Storage.open(storage.data_dir, None, SETTINGS, now_ms=NOW_MS)
    assert after.producer_count == 3
    at_once(after.delete_topic("t", now_ms=NOW_MS))
    assert after.producer_count == 0


def test_upkeep_leaves_a_partition_alone_that_was_deleted_meanwhile(open_storage, make_batch) -> None:
    """Else its producers would count against the bound until the next start."""
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    storage.partition("t", 0).append(*make_batch(0), NOW_MS)
    assert storage.producer_count == 1
    changes = list(storage.upkeep(NOW_MS))
    at_once(storage.delete_topic("t", now_ms=NOW_MS))
    for begin in changes:
        at_once(begin())
    assert storage.producer_count == 0


def test_a_topic_deleted_during_upkeep_takes_its_producers_with_it(storage, make_batch) -> None:
    batch, headers = make_batch(0, producer_id=1, epoch=0)
    assert storage.partition("t", 0).append(batch, headers, NOW_MS).error_code == 0
    upkeep = storage.upkeep(NOW_MS)
    at_once(next(upkeep)())
    at_once(storage.delete_topic("t", now_ms=NOW_MS))
    for begin in upkeep:
        at_once(begin())
    assert storage.producer_count == 0
