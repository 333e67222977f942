"""The metadata log fails while a topic is written to it: the topic may be there at the next start, with its folders.

A second request for it made its folders anew, or took them away where that failed, too; a process that was killed
then came up with a topic whose partition had no folder, and never got it online. Found by the simulator (copies make
their topics while disks fail).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from semel.core.topics import Refused
from semel.errors import StorageError
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.server.machine import DATA_DIR
from semel.sim.world.disk import Disk
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace


def test_the_folders_of_a_topic_that_may_be_in_the_log_are_not_touched() -> None:
    mix, numbers = NO_FAULTS, Random(1)
    disk = Disk(Random(0), Trace(Scheduler()), Counts(), lambda: mix)

    def opened() -> Storage:
        new_uuid = lambda: UUID(int=numbers.getrandbits(128))  # noqa: E731
        return Storage.open(DATA_DIR, disk.mount(), StorageSettings(), now_ms=0, new_uuid=new_uuid)

    storage = opened()
    change = storage.create_topic("t", 1, now_ms=0)
    change.send(None).run()  # its folder
    to_sync = change.send(None)
    mix = replace(NO_FAULTS, sync_failed=1.0, folder_sync_failed=1.0)
    to_sync.run()
    with pytest.raises(StorageError):
        change.send(None)
    assert isinstance(at_once(storage.create_topic("t", 1, now_ms=0)), Refused)
    mix = NO_FAULTS
    partition = opened().partition("t", 0)  # killed, and the page cache survives
    assert partition is not None
    assert partition.is_online, partition.offline_reason
