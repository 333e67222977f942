"""A log-backed core's log, over any core."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from semel.core.decision import Decision, StateRecord
from semel.errors import StorageError
from semel.server.storage.aside import at_once
from semel.server.storage.partition import Partition
from semel.server.storage.state_log import StateLog
from semel.types import ProducerGrant

NOW_MS = 1_000_000
GRANT = ProducerGrant(7, 0)


class Applied:
    """A core that remembers what it was given."""

    def __init__(self) -> None:
        self.records: list[StateRecord] = []
        self.pending: list[StateRecord] = []

    def apply(self, record: StateRecord) -> bool:
        self.records.append(record)
        return record.key != b"unknown"

    def live_records(self) -> Iterable[StateRecord]:
        return list({record.key: record for record in self.records}.values())

    def apply_pending(self, producer_id: int, record: StateRecord) -> bool:
        assert producer_id == GRANT.producer_id
        self.pending.append(record)
        return True

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        raise AssertionError("nothing is ended")


@pytest.fixture
def partition(open_storage) -> Partition:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    found = storage.partition("t", 0)
    assert found is not None
    return found


def record(key: str, value: str | None) -> StateRecord:
    return StateRecord(key.encode(), None if value is None else value.encode())


def write(partition: Partition, *records: StateRecord) -> None:
    assert StateLog(partition, [Applied()]).submit(Decision(records, None), NOW_MS).error_message is None


def read(partition: Partition, *, newest_only: bool = False) -> list[StateRecord]:
    core = Applied()
    StateLog(partition, [core], newest_only=newest_only)
    return core.records


def test_all_that_was_submitted_is_read_again_in_order(partition: Partition) -> None:
    written = [record("a", "1"), record("b", "1"), record("a", "2"), record("b", None)]
    write(partition, *written[:2])
    write(partition, *written[2:])
    assert read(partition) == written


def test_of_each_key_only_the_newest_is_read_where_that_is_enough(partition: Partition) -> None:
    """A tombstone, too: it may speak of what another log says."""
    write(partition, record("a", "1"), record("b", "1"), record("c", "1"))
    write(partition, record("a", "2"), record("b", None))
    assert sorted(read(partition, newest_only=True)) == [
        record("a", "2"),
        record("b", None),
        record("c", "1"),
    ]


def test_what_is_submitted_behind_such_a_start_is_applied_each(partition: Partition) -> None:
    core = Applied()
    log = StateLog(partition, [core], newest_only=True)
    written = (record("a", "1"), record("a", "2"))
    log.submit(Decision(written, None), NOW_MS)
    assert core.records == list(written)


def test_what_is_in_a_transaction_is_not_the_newest_of_its_key(partition: Partition) -> None:
    core = Applied()
    log = StateLog(partition, [core], core)
    log.submit(Decision([record("a", "1")], None), NOW_MS)
    log.submit_pending(Decision([record("a", "2")], None), GRANT, NOW_MS)
    again = Applied()
    StateLog(partition, [again], again, newest_only=True)
    assert (again.records, again.pending) == ([record("a", "1")], [record("a", "2")])


@pytest.mark.parametrize("newest_only", [False, True])
def test_a_record_that_no_core_knows_is_an_error(partition: Partition, newest_only: bool) -> None:
    with pytest.raises(StorageError, match="unknown kind"):
        write(partition, record("unknown", "1"))
    with pytest.raises(StorageError, match="unknown kind"):
        read(partition, newest_only=newest_only)
