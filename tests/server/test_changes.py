"""The line of changes on a real event loop, over a disk whose folder syncs take as long as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from semel.core.topics import Topic
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.changes import Changes, ChangesByTopic
from semel.server.event_loop import LoopThreads
from semel.server.storage.aside import aside, at_once
from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
LONG_S = 20.0


class Disk(OsFileSystem):
    """The real file system; the syncs of its folders wait for the gate."""

    def __init__(self) -> None:
        self.gate = Event()
        self.gate.set()
        self.reached = Event()

    def fsync_dir(self, path: Path) -> None:
        self.reached.set()
        assert self.gate.wait(LONG_S)
        super().fsync_dir(path)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def storage(tmp_path: Path, disk: Disk) -> Storage:
    storage = Storage.open(tmp_path / "data", disk, now_ms=NOW_MS)
    at_once(storage.create_topic("old", now_ms=NOW_MS))
    append(storage, "old")
    storage.partition("old", 0).sync()
    return storage


def append(storage: Storage, topic: str) -> ErrorCode:
    partition = storage.partition(topic, 0)
    assert partition is not None
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v")])
    return partition.append(memoryview(batch), [decode_header(batch)], NOW_MS).error_code


class Told:
    """What changes ended in."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._more = asyncio.Event()

    def __call__(self, result: object) -> None:
        self.results.append(result)
        self._more.set()

    async def until(self, count: int) -> None:
        while len(self.results) < count:
            self._more.clear()
            await self._more.wait()


def run(storage: Storage, test: Callable[[Changes, Told], Awaitable[None]]) -> None:
    async def whole() -> None:
        loop = asyncio.get_running_loop()
        threads = LoopThreads(loop, "change", 1)
        changes = Changes(loop, threads)
        async with asyncio.timeout(LONG_S):
            await test(changes, Told())
            await closed(changes)
        threads.close()

    asyncio.run(whole())
    storage.close(now_ms=NOW_MS)


async def closed(changes: Changes) -> None:
    ended = asyncio.Event()
    changes.close(ended.set)
    await ended.wait()


async def held(disk: Disk) -> None:
    """Until a folder's sync is under way."""
    await asyncio.to_thread(disk.reached.wait, LONG_S)


def test_the_loop_goes_on_while_a_topic_is_made(disk: Disk, storage: Storage) -> None:
    async def test(changes: Changes, told: Told) -> None:
        disk.gate.clear()
        disk.reached.clear()
        changes.request(partial(storage.create_topic, "new", 20, now_ms=NOW_MS), told)
        await held(disk)
        assert append(storage, "old") is ErrorCode.NONE
        storage.partition("old", 0).sync()
        assert storage.partition("old", 0).high_watermark == 2
        assert storage.topics.get("new") is None, "not before it is durable"
        assert storage.partition("new", 0) is None
        assert told.results == []
        disk.gate.set()
        await told.until(1)
        assert isinstance(told.results[0], Topic)
        assert append(storage, "new") is ErrorCode.NONE

    run(storage, test)


def test_changes_go_one_at_a_time_and_in_order(disk: Disk, storage: Storage) -> None:
    async def test(changes: Changes, told: Told) -> None:
        disk.gate.clear()
        disk.reached.clear()
        changes.request(partial(storage.create_topic, "new", now_ms=NOW_MS), told)
        changes.request(partial(storage.create_topic, "new", now_ms=NOW_MS), told)
        changes.request(partial(storage.add_partitions, "new", 3, now_ms=NOW_MS), told)
        changes.request(partial(storage.delete_topic, "new", now_ms=NOW_MS), told)
        changes.request(partial(storage.create_topic, "new", 2, now_ms=NOW_MS), told)
        await held(disk)
        disk.gate.set()
        await told.until(5)
        first, again, grown, deleted, other = told.results
        assert again.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert first.topic_id == grown.topic_id == deleted.topic_id != other.topic_id
        assert [one.partition_count for one in (first, grown, deleted, other)] == [1, 3, 3, 2]
        assert [storage.partition("new", n) is not None for n in range(3)] == [True, True, False]

    run(storage, test)


def test_a_stop_ends_what_has_begun_and_begins_nothing(disk: Disk, storage: Storage) -> None:
    async def test(changes: Changes, told: Told) -> None:
        disk.gate.clear()
        disk.reached.clear()
        changes.request(partial(storage.create_topic, "begun", now_ms=NOW_MS), told)
        changes.request(partial(storage.create_topic, "never", now_ms=NOW_MS), told)
        await held(disk)
        closing = asyncio.ensure_future(closed(changes))
        await asyncio.sleep(0)
        assert not closing.done()
        disk.gate.set()
        await closing
        assert len(told.results) == 1
        assert [topic.name for topic in storage.topics if not topic.is_internal] == ["begun", "old"]

    run(storage, test)


def test_a_change_with_a_defect_keeps_nobody_waiting(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        await aside(divmod, 1, 0)

    async def test(changes: Changes, told: Told) -> None:
        changes.request(broken, told)
        changes.request(partial(storage.create_topic, "next", now_ms=NOW_MS), told)
        await told.until(2)
        assert told.results[0] is None
        assert isinstance(told.results[1], Topic)
        assert "ZeroDivisionError" in caplog.text

    run(storage, test)


def test_a_deleted_topic_waits_for_its_sync_aside(disk: Disk, storage: Storage) -> None:
    """A sync that is under way holds the deletion up, and nobody else."""

    async def test(changes: Changes, told: Told) -> None:
        partition = storage.partition("old", 0)
        partition.roll(NOW_MS)  # its next sync includes the folder
        append(storage, "old")
        waits, let_go = Event(), partition.let_go
        partition.let_go = lambda: waits.set() or let_go()
        disk.gate.clear()
        disk.reached.clear()
        syncing = asyncio.ensure_future(asyncio.to_thread(partition.sync))
        await held(disk)
        changes.request(partial(storage.delete_topic, "old", now_ms=NOW_MS), told)
        await asyncio.to_thread(waits.wait, LONG_S)
        assert storage.topics.get("old") is None
        assert not partition.is_online
        assert not syncing.done()
        disk.gate.set()
        await told.until(1)
        await syncing
        assert not (storage.data_dir / "old-0").exists()

    run(storage, test)


def test_a_topic_that_is_kept_busy_holds_up_another_for_one_piece(storage: Storage) -> None:
    pieces: list[str] = []

    async def work(name: str, count: int) -> str:
        for _ in range(count):
            await aside(pieces.append, name)
        return name

    async def test(_: Changes, told: Told) -> None:
        threads = LoopThreads(asyncio.get_running_loop(), "compress", 1)
        lines = ChangesByTopic(asyncio.get_running_loop(), threads)
        for _ in range(3):
            lines.request("busy", partial(work, "busy", 100), told)
        lines.request("other", partial(work, "other", 1), told)
        await told.until(4)
        assert pieces.index("other") <= 2
        assert told.results == ["other", "busy", "busy", "busy"]
        assert lines.is_idle

        lines.request("last", partial(work, "last", 2), told)
        await asyncio.sleep(0)  # it has begun
        ended = asyncio.Event()
        lines.close(ended.set)
        lines.request("late", partial(work, "late", 1), told)
        await ended.wait()
        assert told.results[4:] == ["last"]
        threads.close()

    run(storage, test)
