"""Found by seeds 3, 4 and 36: what a trim takes away, and what must not go with it.

What deleted segments said of their producers decides for ever whether a batch is new. A start that could not
be made durable is none, and where the page cache is trusted it may not lie behind the end of the disk's log.
"""

from pathlib import Path
from random import Random

import pytest

from semel.core.log.config import LogConfig
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.storage.aside import at_once
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace


def append(partition: Partition, producer_id: int, base_sequence: int) -> None:
    rows = [Record(0, 1, None, b"v" * 400)]
    batch = memoryview(
        encode_batch(rows, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence)
    )
    assert partition.append(batch, [decode_header(batch)], 1).error_code is ErrorCode.NONE


def open_log(disk: Disk, *, durable: bool) -> Partition:
    settings = StorageSettings(durable=durable, default_config=LogConfig(segment_bytes=1_200))
    storage = Storage.open(Path("/data"), disk.mount(), settings, now_ms=0)
    if storage.partition("events", 0) is None:
        at_once(storage.create_topic("events", 1, now_ms=0))
    partition = storage.partition("events", 0)
    assert partition is not None
    return partition


def new_disk(seed: int = 0) -> Disk:
    return Disk(Random(seed), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)


@pytest.mark.parametrize("durable", [True, False])
def test_producers_of_deleted_segments_stay_known(durable: bool) -> None:
    disk = new_disk()
    partition = open_log(disk, durable=durable)
    append(partition, 7, 0)
    for n in range(6):
        append(partition, 8, n)
    partition.sync() if durable else None
    assert at_once(partition.delete_records(6)) is ErrorCode.NONE
    before = partition.producers()
    recovered = open_log(disk, durable=durable)  # killed: the page cache survives
    assert recovered.log_start_offset == 6
    assert recovered.producers() == before


def test_a_full_disk_keeps_the_snapshot_due_and_the_segments() -> None:
    disk = new_disk()
    partition = open_log(disk, durable=True)
    for n in range(7):
        append(partition, 7, n)
    disk.full_writes = 3  # the snapshot of the roll cannot be written
    partition.sync()
    disk.full_writes = 3
    assert at_once(partition.delete_records(6)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log_start_offset == 0
    disk.full_writes = 0
    assert at_once(partition.delete_records(6)) is ErrorCode.NONE
    assert open_log(disk, durable=True).producers() == partition.producers()


@pytest.mark.parametrize("seed", range(20))
def test_a_start_lies_within_what_a_power_cut_leaves(seed: int) -> None:
    disk = new_disk(seed)
    partition = open_log(disk, durable=False)
    for n in range(7):
        append(partition, 7, n)
    assert at_once(partition.delete_records(5)) is ErrorCode.NONE
    disk.power_cut()
    recovered = open_log(disk, durable=False)
    assert recovered.is_online, recovered.offline_reason
    assert recovered.log_start_offset == 5
