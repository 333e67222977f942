"""Found by seed 2: the data folder's own name was never synced, so a power cut took all of it at once.

The first start makes the folder; a topic is created and a batch is acknowledged, each synced in its own
file and folder; then the power goes. Whatever the parent folder forgot, the batch must be there.
"""

from pathlib import Path
from random import Random

import pytest

from semel.record.batch import Record, decode_header, encode_batch
from semel.server.storage.aside import at_once
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace


@pytest.mark.parametrize("seed", range(12))
def test_an_acknowledged_batch_survives_with_its_folder(seed: int) -> None:
    disk = Disk(Random(seed), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
    data_dir = Path("/var/lib/data")
    storage = Storage.open(data_dir, disk.mount(), now_ms=0)
    at_once(storage.create_topic("events", 1, now_ms=0))
    partition = storage.partition("events", 0)
    assert partition is not None
    batch = memoryview(encode_batch([Record(0, 0, None, b"row")]))
    partition.append(batch, [decode_header(batch)], 0)
    partition.sync()
    assert partition.high_watermark == 1

    disk.power_cut()

    recovered = Storage.open(data_dir, disk.mount(), now_ms=0).partition("events", 0)
    assert recovered is not None
    assert recovered.log_end_offset == 1
