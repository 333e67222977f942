"""A disk that fails: nothing false is acknowledged, and nothing torn stays in the middle."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from semel.core.log.admission import AppendOrigin
from semel.core.log.recovery import Sound
from semel.core.producer_state.verdict import Duplicate
from semel.errors import ErrorCode, StorageError
from semel.record.batch import decode_header
from semel.record.control import encode_abort_marker
from semel.server.storage.aside import at_once
from semel.server.storage.filesystem import OsFile, OsFileSystem
from semel.server.storage.outcome import Incoming
from semel.types import LEASED_IDS_FROM

NOW_MS = 1_000_000


class FaultyFile(OsFile):
    """A real file that does as its disk says."""

    __slots__ = ("disk", "path")

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        room = self.disk.room_bytes if self.path.suffix == ".log" else None
        if self.disk.write_error is not None and self.path.suffix == ".log":
            raise OSError(self.disk.write_error, "write failed")
        if room is None:
            return super().pwritev(buffers, position)
        if room == 0:
            raise OSError(errno.ENOSPC, "disk full")
        piece = b"".join(buffers)[:room]
        written = super().pwritev([piece], position)
        self.disk.room_bytes = room - written
        return written

    def truncate(self, size_bytes: int) -> None:
        if self.disk.truncate_fails:
            raise OSError(errno.EIO, "truncate failed")
        super().truncate(size_bytes)

    def fdatasync(self) -> None:
        if self.disk.while_syncing is not None:
            self.disk.while_syncing()
        if self.disk.sync_fails:
            raise OSError(errno.EIO, "sync failed")
        super().fdatasync()


class FaultyDisk(OsFileSystem):
    """Faults that are switched on in the middle of a test."""

    __slots__ = ("room_bytes", "sync_fails", "truncate_fails", "while_syncing", "write_error")

    def __init__(self) -> None:
        self.room_bytes: int | None = None
        self.sync_fails = self.truncate_fails = False
        self.write_error: int | None = None
        self.while_syncing: Callable[[], None] | None = None

    def open(self, path: Path, *, create: bool = False) -> FaultyFile:
        real = super().open(path, create=create)
        file = FaultyFile(os.dup(real.fileno()))
        file.disk, file.path = self, path
        return file


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def storage(open_storage, disk):
    storage = open_storage(file_system=disk, segment_bytes=4096)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    return storage


@pytest.fixture
def partition(storage, make_batch):
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0), NOW_MS)
    partition.sync()
    return partition


def test_a_failed_sync_takes_the_partition_offline_for_good(
    partition, disk, make_batch, open_storage, crashed, storage
) -> None:
    outcome = partition.append(*make_batch(1), NOW_MS)
    disk.sync_fails = True
    partition.sync()
    assert partition.high_watermark < outcome.sync_offset, "so it is not acknowledged"
    assert not partition.is_online
    disk.sync_fails = False
    partition.sync()
    assert partition.high_watermark == 1, "never tried again"
    assert partition.append(*make_batch(2), NOW_MS).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert storage.close(now_ms=NOW_MS) is False, "no marker of a clean stop"
    after = open_storage(crashed(storage, "restarted")).partition("t", 0)
    assert after.is_online
    assert after.append(*make_batch(2), NOW_MS).error_code is ErrorCode.NONE


@pytest.mark.parametrize("room_bytes", [0, 1, 60, 61, 75])
def test_a_full_disk_leaves_no_trace_and_the_log_goes_on(
    room_bytes: int, partition, disk, make_batch
) -> None:
    before = partition.producers()
    disk.room_bytes = room_bytes
    outcome = partition.append(*make_batch(1), NOW_MS)
    assert outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (partition.log_end_offset, partition.producers()) == (1, before)
    disk.room_bytes = None
    assert partition.is_online
    assert partition.append(*make_batch(1), NOW_MS).base_offset == 1
    partition.sync()
    assert partition.append(*make_batch(1), NOW_MS).verdict == Duplicate(1)
    assert partition.append(*make_batch(0), NOW_MS).verdict == Duplicate(0)


def test_a_full_disk_fails_a_whole_group(partition, disk, make_batch) -> None:
    before = partition.producers()
    disk.room_bytes = 150  # the first would fit, the second not
    outcomes = partition.append_all([Incoming(*make_batch(n)) for n in (1, 2, 0)], NOW_MS)
    assert [outcome.error_code for outcome in outcomes] == [56, 56, 0]
    assert partition.producers() == before
    disk.room_bytes = None
    assert partition.append(*make_batch(1), NOW_MS).base_offset == 1


def test_what_was_judged_by_batches_that_were_not_written_is_no_answer(partition, disk, make_batch) -> None:
    """A duplicate of a batch that never reached the disk must not be called stored, nor its epoch known."""
    raised = make_batch(0, producer_id=7, epoch=3)
    asked = [
        make_batch(1),
        make_batch(1),
        make_batch(5),
        raised,
        make_batch(2),
        make_batch(9, producer_id=8, epoch=0),
    ]
    disk.room_bytes = 0
    outcomes = partition.append_all([Incoming(*one) for one in asked], NOW_MS)
    assert [outcome.error_code for outcome in outcomes] == [56, 56, 56, 56, 56, 59]
    disk.room_bytes = None
    outcomes = partition.append_all([Incoming(*one) for one in asked], NOW_MS)
    assert [outcome.error_code for outcome in outcomes] == [0, 0, 45, 0, 47, 59]
    assert [outcome.base_offset for outcome in outcomes[:2]] == [1, 1]
    assert outcomes[1].sync_offset > partition.high_watermark, "a duplicate waits for its original's sync"


def test_a_fence_among_batches_that_were_not_written_is_none(partition, disk, make_batch) -> None:
    def asked() -> list[Incoming]:
        markers = [encode_abort_marker(7, epoch, 0, NOW_MS) for epoch in (4, 4, 3)]
        fences = [
            Incoming(memoryview(marker), [decode_header(marker)], AppendOrigin.COORDINATOR)
            for marker in markers
        ]
        return [Incoming(*make_batch(1)), *fences, Incoming(*make_batch(2))]

    before = partition.producers()
    disk.room_bytes = 0
    assert [one.error_code for one in partition.append_all(asked(), NOW_MS)] == [56] * 5
    assert partition.producers() == before
    disk.room_bytes = None
    outcomes = partition.append_all(asked(), NOW_MS)
    assert [one.error_code for one in outcomes] == [0, 0, 0, 47, 47]
    assert [one.sync_offset for one in outcomes] == [2, 3, 3, 0, 0]


def test_short_writes_are_gone_on_with(partition, disk, make_batch, monkeypatch) -> None:
    whole = OsFile.pwritev

    def at_most_7(self: OsFile, buffers: Sequence[memoryview], position: int) -> int:
        return whole(self, [b"".join(buffers)[:7]], position)

    monkeypatch.setattr(FaultyFile, "pwritev", at_most_7)
    assert partition.append(*make_batch(1), NOW_MS).error_code is ErrorCode.NONE
    partition.sync()
    assert partition.read(1, 1000).length == make_batch(1)[1][0].size_bytes


def test_a_snapshot_that_cannot_be_written_harms_nobody(partition, disk, make_batch, monkeypatch) -> None:
    partition.append(*make_batch(1), NOW_MS)
    partition.roll(NOW_MS)

    def no_room(self: FaultyDisk, source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(FaultyDisk, "rename", no_room)
    partition.sync()
    assert partition.is_online
    assert partition.high_watermark == 2


def test_a_write_error_takes_the_partition_offline(partition, disk, make_batch) -> None:
    disk.write_error = errno.EIO
    assert partition.append(*make_batch(1), NOW_MS).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.write_error = None
    assert not partition.is_online


def test_a_torn_write_that_stays_takes_the_partition_offline(
    partition, disk, make_batch, open_storage, crashed, storage
) -> None:
    disk.room_bytes, disk.truncate_fails = 50, True
    assert partition.append(*make_batch(1), NOW_MS).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not partition.is_online
    disk.room_bytes, disk.truncate_fails = None, False
    after = open_storage(crashed(storage, "restarted")).partition("t", 0)
    assert after.recovery.cut_bytes == 50
    assert after.append(*make_batch(1), NOW_MS).base_offset == 1


def test_a_marker_that_cannot_be_written_fences_nobody(partition, disk, make_batch, fence) -> None:
    disk.room_bytes = 10
    assert fence(partition, 7, 4).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.room_bytes = None
    assert partition.append(*make_batch(1), NOW_MS).error_code is ErrorCode.NONE


def test_room_made_amid_a_write_that_fails_is_counted_right(storage, disk, make_batch) -> None:
    """Two leases are over; one batch takes what is free, and the next one has them forgotten."""
    partition, live, bound = (
        storage.partition("t", 0),
        storage.producer_ids.live_leases,
        storage._producer_bound,
    )
    live.granted_below = LEASED_IDS_FROM + 2
    for leased_id in (LEASED_IDS_FROM, LEASED_IDS_FROM + 1):
        bound.reserve(leased_id, 1)
        partition.append(*make_batch(0, producer_id=leased_id, epoch=0), NOW_MS)
    live.expired_below = LEASED_IDS_FROM + 2
    bound.release_below(live.expired_below)
    bound.known_max = 3
    disk.room_bytes = 0
    group = [Incoming(*make_batch(0, producer_id=n, epoch=0)) for n in (1, 2)]
    codes = [outcome.error_code for outcome in partition.append_all(group, NOW_MS)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert bound.known == partition.producer_count == 0
    disk.room_bytes = None
    group = [Incoming(*make_batch(0, producer_id=n, epoch=0)) for n in (1, 2, 3, 4)]
    codes = [outcome.error_code for outcome in partition.append_all(group, NOW_MS)]
    assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert bound.known == partition.producer_count == 3


def test_a_topic_that_cannot_be_made_is_not_there(storage, disk, open_storage, crashed) -> None:
    disk.sync_fails = True
    with pytest.raises(StorageError, match="sync failed"):
        at_once(storage.create_topic("u", now_ms=NOW_MS))
    assert storage.topics.get("u") is None
    disk.sync_fails = False
    after = open_storage(crashed(storage, "restarted"))
    assert (after.topics.get("u") is None) == (after.partition("u", 0) is None), "all of it, or nothing"


def test_an_identity_is_granted_only_when_its_block_is_durable(storage, disk) -> None:
    disk.sync_fails = True
    granted = storage.init_producer(now_ms=NOW_MS)
    log = storage.metadata_log.partition
    log.sync()
    assert log.high_watermark < granted.sync_offset, "so it is not answered"
    again = storage.init_producer(now_ms=NOW_MS)
    assert log.high_watermark < again.sync_offset
    third = storage.init_producer(now_ms=NOW_MS)
    assert log.high_watermark < third.sync_offset or third.error_message is not None


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path, open_storage) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StorageError, match="cannot be used"):
        open_storage()


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".log"])
def test_a_roll_that_fails_leaves_the_segment_growing(
    suffix: str, partition, disk, make_batch, open_storage, crashed, storage, monkeypatch
) -> None:
    """A smaller batch may still fit into the old segment, and no stray file may call it complete."""
    opened = FaultyDisk.open

    def no_room(self: FaultyDisk, path: Path, *, create: bool = False) -> FaultyFile:
        if create and path.suffix == suffix:
            raise OSError(errno.ENOSPC, "disk full")
        return opened(self, path, create=create)

    sequence = 1
    while partition.append(*make_batch(sequence, value_bytes=300), NOW_MS).base_offset < 7:
        sequence += 1
    monkeypatch.setattr(FaultyDisk, "open", no_room)
    large = partition.append(*make_batch(sequence + 1, value_bytes=3000), NOW_MS)
    assert large.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.is_online
    for n in range(5):
        small = partition.append(*make_batch(sequence + 1 + n, value_bytes=1), NOW_MS)
        assert small.error_code is ErrorCode.NONE
    partition.sync()
    assert partition.segment_base_offsets == (0,)
    after = open_storage(crashed(storage, "crashed")).partition("t", 0)
    assert (after.segment_base_offsets, after.log_end_offset) == ((0,), partition.log_end_offset)
    assert after.recovery.verdict == Sound()


@pytest.mark.parametrize("durable", [True, False])
def test_appends_never_wait_for_a_slow_sync_and_end_at_a_bound(
    durable: bool, open_storage, disk, make_batch
) -> None:
    """What runs meanwhile is another thread's in the server; an append that waited here would wait for ever."""
    storage = open_storage(file_system=disk, segment_bytes=100, durable=durable)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    codes: list[ErrorCode] = []

    def append_meanwhile() -> None:
        while len(codes) < 100 and ErrorCode.KAFKA_STORAGE_ERROR not in codes:
            codes.append(partition.append(*make_batch(len(codes)), NOW_MS).error_code)

    disk.while_syncing = append_meanwhile
    partition.sync()
    assert codes == [*[ErrorCode.NONE] * 33, ErrorCode.KAFKA_STORAGE_ERROR], "one growing, 32 to be synced"
    assert partition.is_online
    assert partition.wants_sync
    disk.while_syncing = None
    partition.sync()
    assert not partition.wants_sync
    assert partition.append(*make_batch(33), NOW_MS).base_offset == 33, "the refused batch left no trace"
