"""Found by seed 483: after a power cut, what a time led to was skipped.

A segment that was synced to its end while it grew, and was full then, never had its indexes synced. Below the recovery
point they were believed all the same: a time index that has lost its end says that the segment holds nothing newer.
Searches by time skipped records, and retention would have gone by it.
"""

from pathlib import Path
from random import Random

import pytest

from semel.core.log.config import LogConfig
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace

SETTINGS = StorageSettings(default_config=LogConfig(segment_bytes=1_200, index_interval_bytes=100))
TIMES_MS = [n ^ 7 for n in range(40)]  # of each eight the newest comes first


@pytest.mark.parametrize("seed", range(60))
def test_a_time_leads_to_its_record_after_a_power_cut(seed: int) -> None:
    disk = Disk(Random(seed), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)
    storage = Storage.open(Path("/data"), disk.mount(), SETTINGS, now_ms=0)
    at_once(storage.create_topic("events", 1, now_ms=0))
    partition = storage.partition("events", 0)
    assert partition is not None
    for time_ms in TIMES_MS:
        batch = memoryview(encode_batch([Record(0, time_ms, None, b"v" * 30)]))
        assert partition.append(batch, [decode_header(batch)], 0).error_code is ErrorCode.NONE
        partition.sync()
    disk.power_cut()
    recovered = Storage.open(Path("/data"), disk.mount(), SETTINGS, now_ms=0).partition("events", 0)
    assert recovered is not None
    assert recovered.is_online
    for wanted_ms in TIMES_MS:
        found = recovered.offset_for_timestamp(wanted_ms)
        assert found is not None
        assert found.offset == next(n for n, time_ms in enumerate(TIMES_MS) if time_ms >= wanted_ms)
