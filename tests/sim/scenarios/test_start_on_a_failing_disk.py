"""Found by seed 34: the disk fails under one partition while the server starts.

The partition is offline, and says that it could not be opened: nobody may take it for damaged, or for empty.
The others serve. The next start asks the disk again, and everything is there.
"""

import errno
from pathlib import Path
from random import Random

from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.storage.aside import at_once
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk, Mount
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace

DATA = Path("/data")


class FailingUnderOne(Mount):
    """The names of one partition's folder cannot be synced."""

    def fsync_dir(self, path: Path) -> None:
        if path.name == "events-0":
            raise OSError(errno.EIO, "input/output error")
        super().fsync_dir(path)


def append(partition: Partition) -> ErrorCode:
    batch = memoryview(
        encode_batch([Record(0, 1, None, b"row")], producer_id=7, producer_epoch=0, base_sequence=0)
    )
    return partition.append(batch, [decode_header(batch)], 1).error_code


def partitions(mount: Mount) -> tuple[Partition, Partition]:
    storage = Storage.open(DATA, mount, now_ms=0)
    if storage.partition("events", 0) is None:
        at_once(storage.create_topic("events", 2, now_ms=0))
    first, second = storage.partition("events", 0), storage.partition("events", 1)
    assert first is not None
    assert second is not None
    return first, second


def test_a_partition_that_the_disk_does_not_give_is_offline_until_it_does() -> None:
    disk = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
    first, _ = partitions(disk.mount())
    assert append(first) is ErrorCode.NONE
    first.sync()
    stored = first.producers()

    first, second = partitions(FailingUnderOne(disk))
    assert not first.is_online
    assert first.offline_reason == "events-0: OFFLINE, cannot be opened: [Errno 5] input/output error"
    assert append(first) is ErrorCode.KAFKA_STORAGE_ERROR
    assert append(second) is ErrorCode.NONE

    disk.power_cut()
    first, _ = partitions(disk.mount())
    assert first.is_online
    assert (first.log_end_offset, first.producers()) == (1, stored)
