"""What was seen in the topics of a site, while they are trimmed, cut short and made anew."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest

from semel.record.batch import decode_header, encode_batch
from semel.record.records import Record
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.copies.ledger import SiteLedger
from semel.sim.server.machine import DATA_DIR
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.types import TopicPartition

TP = TopicPartition("a", 0)


@pytest.fixture
def storage() -> Storage:
    disk, numbers = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: NO_FAULTS), Random(1)
    return Storage.open(
        DATA_DIR,
        disk.mount(),
        StorageSettings(),
        now_ms=0,
        new_uuid=lambda: UUID(int=numbers.getrandbits(128)),
    )


def append(storage: Storage, *values: bytes) -> None:
    partition = storage.partition(*TP)
    assert partition is not None
    batch = encode_batch([Record(0, 0, None, value) for value in values])
    partition.append_all([Incoming(memoryview(batch), (decode_header(batch),))], 0)
    partition.sync()


def test_rows_are_remembered_whatever_becomes_of_them(storage: Storage) -> None:
    looks: list[None] = []
    ledger = SiteLedger(lambda: ["a", "b"], lambda: looks.append(None))
    at_once(storage.create_topic("a", 1, now_ms=0))
    append(storage, b"1", b"2")
    ledger.synced(storage, [TP])
    ledger.synced(storage, [TopicPartition("other", 0)])
    at_once(storage.partition(*TP).delete_records(-1))  # type: ignore[union-attr]
    append(storage, b"3")
    ledger.recovered(storage)
    assert values(ledger) == [b"1", b"2", b"3"]
    assert len(looks) == 2
    at_once(storage.delete_topic("a", now_ms=0))
    at_once(storage.create_topic("a", 1, now_ms=0))
    append(storage, b"4")
    ledger.synced(storage, [TP])
    assert values(ledger) == [b"4"]
    assert [len(log.records) for log in ledger.logs.values()] == [3, 1]
    assert [place.topic_id for place, _ in ledger.current(["a"])] == [ledger.ids["a"]]


def values(ledger: SiteLedger) -> Sequence[bytes | None]:
    seen = ledger.log(TP)
    assert seen is not None
    return [record.value for record in seen.records]


def test_a_log_that_is_shorter_than_it_was(storage: Storage) -> None:
    ledger = SiteLedger(lambda: ["a"], lambda: None)
    at_once(storage.create_topic("a", 1, now_ms=0))
    for value in (b"1", b"2", b"3"):
        append(storage, value)
    ledger.synced(storage, [TP])
    seen = ledger.log(TP)
    assert seen is not None
    seen.forget_from(2)
    assert (values(ledger), len(seen.batches), seen.end) == ([b"1", b"2"], 2, 2)
    ledger.synced(storage, [TP])
    assert values(ledger) == [b"1", b"2", b"3"]
