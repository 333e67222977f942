"""Found by seed 226: the disk is full when a new segment is begun, and an empty file of it stays behind.

The old segment goes on growing past that file's offset, and later rolls succeed. The file must not pass for a
segment of the log: it holds nothing, and the offsets after its own are in the segment before it.
"""

from pathlib import Path
from random import Random

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

SETTINGS = StorageSettings(default_config=LogConfig(segment_bytes=1_200))


def append(partition: Partition, value_bytes: int) -> ErrorCode:
    batch = memoryview(encode_batch([Record(0, 1, None, b"v" * value_bytes)]))
    return partition.append(batch, [decode_header(batch)], 1).error_code


def open_log(disk: Disk) -> tuple[Storage, Partition]:
    storage = Storage.open(Path("/data"), disk.mount(), SETTINGS, now_ms=0)
    if storage.partition("events", 0) is None:
        at_once(storage.create_topic("events", 1, now_ms=0))
    partition = storage.partition("events", 0)
    assert partition is not None
    return storage, partition


def log_with_a_left_over() -> tuple[Disk, Partition]:
    disk = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
    _, partition = open_log(disk)
    assert append(partition, 900) is ErrorCode.NONE
    disk.full_writes = 1
    assert append(partition, 900) is ErrorCode.KAFKA_STORAGE_ERROR  # the roll at offset 1 fails
    assert append(partition, 10) is ErrorCode.NONE  # this still fits in the old segment
    return disk, partition


def test_a_left_over_between_segments_is_no_damage() -> None:
    disk, partition = log_with_a_left_over()
    assert append(partition, 900) is ErrorCode.NONE
    partition.sync()
    _, recovered = open_log(disk)
    assert recovered.is_online
    assert (recovered.log_end_offset, recovered.segment_base_offsets) == (3, (0, 2))


def test_a_left_over_at_the_end_does_not_hide_the_records_of_the_segment_before_it() -> None:
    disk, partition = log_with_a_left_over()
    partition.sync()
    assert at_once(partition.delete_records(1)) is ErrorCode.NONE
    _, recovered = open_log(disk)
    assert recovered.is_online
    assert (recovered.log_start_offset, recovered.log_end_offset) == (1, 2)
