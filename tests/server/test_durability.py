"""Group commit over real partitions, on a disk whose syncs take as long as a test wants."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Event

import pytest

from semel.core.log.names import LOG_SUFFIX, SNAPSHOT_SUFFIX
from semel.core.producer_state.slot_index import FEW_ROWS
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.durability import LATER_MS, SYNC_THREADS, GroupCommit
from semel.server.event_loop import LoopThreads
from semel.server.storage.aside import at_once
from semel.server.storage.filesystem import OsFile, OsFileSystem
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

NOW_MS = 1_000_000
LONG_S = 20.0


class Disk(OsFileSystem):
    """The real file system; a partition's syncs wait while it is held, and so do its snapshots."""

    def __init__(self) -> None:
        self.held: dict[str, Event] = {}
        self.begun: dict[str, int] = {}
        self.fails = False
        self.began = Condition()

    def open(self, path: Path, *, create: bool = False) -> OsFile:
        file = super().open(path, create=create)
        name = path.parent.name
        if SNAPSHOT_SUFFIX in path.suffixes:
            name += SNAPSHOT_SUFFIX
        elif path.suffix != LOG_SUFFIX:
            return file
        return SlowFile(file, self, name)  # type: ignore[return-value]

    def hold(self, partition: Partition, suffix: str = "") -> Event:
        gate = self.held[f"{partition.name}{suffix}"] = Event()
        return gate


class SlowFile:
    def __init__(self, file: OsFile, disk: Disk, name: str) -> None:
        self.fileno, self.size, self.pread, self.truncate = file.fileno, file.size, file.pread, file.truncate
        self.pwritev = file.pwritev
        self._file, self._disk, self._name = file, disk, name

    def fdatasync(self) -> None:
        with self._disk.began:
            self._disk.begun[self._name] = self._disk.begun.get(self._name, 0) + 1
            self._disk.began.notify_all()
        gate = self._disk.held.get(self._name)
        assert gate is None or gate.wait(LONG_S)
        if self._disk.fails:
            raise OSError(errno.EIO, "sync failed")
        self._file.fdatasync()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def partitions(tmp_path: Path, disk: Disk) -> Iterator[list[Partition]]:
    storage = Storage.open(tmp_path / "data", disk, now_ms=NOW_MS)
    at_once(storage.create_topic("t", 6, now_ms=NOW_MS))
    disk.begun.clear()
    found = [storage.partition("t", number) for number in range(6)]
    yield [partition for partition in found if partition is not None]
    storage.close(now_ms=NOW_MS)


def append(partition: Partition, producer_id: int = NO_PRODUCER_ID) -> int:
    is_idempotent = producer_id != NO_PRODUCER_ID
    epoch, sequence = (0, 0) if is_idempotent else (NO_PRODUCER_EPOCH, NO_SEQUENCE)
    batch = encode_batch(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return partition.append(memoryview(batch), [decode_header(batch)], NOW_MS).sync_offset


class Told:
    """What was told, and when what is asked for has been."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.durable: list[TopicPartition] = []
        self._changed = asyncio.Event()

    def __call__(self, name: str) -> None:
        self.names.append(name)
        self._changed.set()

    async def until(self, name: str) -> None:
        async with asyncio.timeout(LONG_S):
            while name not in self.names:
                self._changed.clear()
                await self._changed.wait()


async def begun(disk: Disk, partition: Partition, count: int, suffix: str = "") -> None:
    def wait() -> None:
        with disk.began:
            assert disk.began.wait_for(
                lambda: disk.begun.get(f"{partition.name}{suffix}", 0) >= count, LONG_S
            )

    await asyncio.to_thread(wait)


class Group(GroupCommit):
    """With threads of its own."""

    def __init__(self, told: Told) -> None:
        loop = asyncio.get_running_loop()
        self.threads = LoopThreads(loop, "sync", SYNC_THREADS), LoopThreads(loop, "snapshots", 1)
        super().__init__(loop, *self.threads, told.durable.extend, lambda seconds: None, time.perf_counter)

    async def drained(self) -> None:
        ended = asyncio.Event()
        self.drain(ended.set)
        await ended.wait()

    def close(self) -> None:
        for threads in self.threads:
            threads.close()


def test_a_request_waits_for_a_sync_that_started_after_it(disk: Disk, partitions: list[Partition]) -> None:
    async def run() -> None:
        told, partition = Told(), partitions[0]
        group = Group(told)
        gate = disk.hold(partition)
        first = append(partition)
        group.request([partition], lambda: told("first"))
        await begun(disk, partition, 1)
        second = append(partition)
        group.request([partition], lambda: told("second"))
        group.request([partition, partition], lambda: told("third"))
        gate.set()
        next_gate = disk.hold(partition)
        await told.until("first")
        assert told.names == ["first"]
        assert first <= partition.high_watermark < second, "what came during the sync is not seen yet"
        await begun(disk, partition, 2)
        next_gate.set()
        await told.until("third")
        assert told.names == ["first", "second", "third"]
        assert partition.high_watermark == second
        assert disk.begun[str(partition.name)] == 2, "one sync for both"
        assert told.durable == [partition.name, partition.name]
        await group.drained()
        group.close()

    asyncio.run(run())


def test_partitions_do_not_wait_for_each_other(disk: Disk, partitions: list[Partition]) -> None:
    async def run() -> None:
        told, slow, quick = Told(), partitions[0], partitions[1]
        group = Group(told)
        gate = disk.hold(slow)
        append(slow), append(quick)
        group.request([slow, quick], lambda: told("both"))
        group.request([quick], lambda: told("quick"))
        await told.until("quick")
        append(quick)
        group.request([quick], lambda: told("quick again"))
        await told.until("quick again")
        assert told.names == ["quick", "quick again"]
        gate.set()
        await told.until("both")
        await group.drained()
        group.close()

    asyncio.run(run())


def test_more_partitions_than_threads(partitions: list[Partition]) -> None:
    async def run() -> None:
        told = Told()
        group = Group(told)
        ends = [append(partition) for partition in partitions]
        group.request(partitions, lambda: told("all"))
        await told.until("all")
        assert [partition.high_watermark for partition in partitions] == ends
        group.close()

    asyncio.run(run())


def test_nobody_waits_for_a_large_snapshot(disk: Disk, partitions: list[Partition]) -> None:
    async def run() -> None:
        told, partition = Told(), partitions[0]
        group = Group(told)
        for producer_id in range(FEW_ROWS + 1):
            append(partition, producer_id)
        partition.roll(NOW_MS)
        gate = disk.hold(partition, SNAPSHOT_SUFFIX)
        group.request([partition], lambda: told("full"))
        await told.until("full")
        await begun(disk, partition, 1, SNAPSHOT_SUFFIX)
        end = append(partition)
        group.request([partition], lambda: told("next"))
        await told.until("next")
        assert partition.high_watermark == end
        assert partition.owes_snapshot
        gate.set()
        await group.drained()
        await asyncio.to_thread(group.close)
        assert not partition.owes_snapshot

    asyncio.run(run())


def test_nobody_waits_but_readers(partitions: list[Partition]) -> None:
    async def run() -> None:
        told = Told()
        group = Group(told)
        end = append(partitions[0])
        group.request(partitions[:1], None)
        await group.drained()
        assert partitions[0].high_watermark == end
        assert told.durable == [partitions[0].name]
        group.request([], lambda: told("nothing to sync"))
        await told.until("nothing to sync")
        group.close()

    asyncio.run(run())


def test_what_nobody_asks_for_is_synced_a_moment_later(
    disk: Disk, partitions: list[Partition], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that came meanwhile by one sync; and by none, where somebody asked for one before."""
    first, second = partitions[:2]
    timers: list[tuple[float, Callable[[], object]]] = []

    async def scenario() -> Told:
        told = Told()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", lambda delay, callback: timers.append((delay, callback)))
        group = Group(told)
        for _ in range(3):
            append(first)
            append(second)
            group.request_later([first, second])
        group.request([second], lambda: told("second"))
        await told.until("second")
        assert (first.high_watermark, second.high_watermark) == (0, 3)
        assert group.is_idle
        [(delay_s, sync_later)] = timers
        assert delay_s * 1000 == LATER_MS
        sync_later()
        await group.drained()
        assert not first.has_unseen
        group.close()
        return told

    told = asyncio.run(scenario())
    assert told.durable == [second.name, first.name]
    assert disk.begun[str(first.name)] == disk.begun[str(second.name)] == 1


def test_a_failed_sync_and_a_failing_answer_keep_nobody_waiting(
    disk: Disk, partitions: list[Partition]
) -> None:
    async def run() -> None:
        told, partition = Told(), partitions[0]
        group = Group(told)
        end = append(partition)
        disk.fails = True
        group.request([partition], lambda: told.until(1 / 0))  # type: ignore[arg-type]
        group.request([partition], lambda: told("told"))
        await told.until("told")
        assert not partition.is_online
        assert partition.high_watermark < end
        group.close()

    asyncio.run(run())
