"""A stop closes many partitions side by side, and ends in time over a disk that hangs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event

from tests.server.test_changes import NOW_MS, append

from semel.server.closing import close_in_time
from semel.server.storage.aside import at_once
from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.storage import Storage

LONG_S = 20.0
TOPICS = [f"t-{n}" for n in range(8)]


class Disk(OsFileSystem):
    """The real one; the syncs of folders wait for each other, or for the gate."""

    def __init__(self) -> None:
        self.together: Barrier | None = None
        self.gate = Event()
        self.gate.set()
        self.met = 0

    def fsync_dir(self, path: Path) -> None:
        if self.together is not None:
            try:
                self.together.wait(LONG_S)
                self.met += 1
            except BrokenBarrierError:
                pass
        assert self.gate.wait(LONG_S)
        super().fsync_dir(path)


def opened(folder: Path, disk: Disk) -> Storage:
    storage = Storage.open(folder, disk, now_ms=NOW_MS)
    for topic in TOPICS:
        if storage.partition(topic, 0) is None:
            at_once(storage.create_topic(topic, now_ms=NOW_MS))
        append(storage, topic)
        storage.partition(topic, 0).sync()
    return storage


def close(storage: Storage, within_s: float) -> bool:
    async def whole() -> bool:
        loop = asyncio.get_running_loop()
        return await close_in_time(storage, loop, loop.time() + within_s, NOW_MS)

    return asyncio.run(whole())


def test_partitions_are_closed_side_by_side(tmp_path: Path) -> None:
    disk = Disk()
    storage = opened(tmp_path, disk)
    disk.together = Barrier(2, action=lambda: setattr(disk, "together", None))
    assert close(storage, LONG_S)
    assert disk.met == 2, "two of them were synced at a time"
    again = Storage.open(tmp_path, disk, now_ms=NOW_MS)
    assert again.was_clean
    again.close(now_ms=NOW_MS)


def test_a_disk_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    disk = Disk()
    storage = opened(tmp_path, disk)
    disk.gate.clear()
    assert not close(storage, 0.05)
    disk.gate.set()
    give_up_s = time.monotonic() + LONG_S
    while any(partition.is_online for partition in storage):
        assert time.monotonic() < give_up_s
        time.sleep(0.01)
    storage.close(now_ms=NOW_MS)
