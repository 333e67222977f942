"""A partition that is compacted: what readers, writers, trims, crashes and power cuts see of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from semel.core.log.config import LogConfig
from semel.core.log.watermarks import FetchIsolation
from semel.core.producer_state.verdict import Duplicate
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, decode_records, encode_batch, scan_batches
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.sim.world.disk import Disk, Killed, Mount, PowerCut
from semel.sim.world.faults import NO_FAULTS, Counts
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace

NOW_MS = 1_000_000
HOUR_MS = 3_600_000
COMPACTED = LogConfig(
    segment_bytes=1024, index_interval_bytes=150, cleanup_policy="compact", delete_retention_ms=HOUR_MS
)
FOLDER = Path("/data/t-0")


class Kept:
    """A topic, and what was written to it."""

    def __init__(self, disk: Disk, config: LogConfig = COMPACTED, **settings: object) -> None:
        self.disk = disk
        self.settings = StorageSettings(default_config=config, **settings)
        self.sequence = 0
        self.written: list[Record] = []
        self.open(disk.mount())
        at_once(self.storage.create_topic("t", now_ms=NOW_MS))

    def open(self, mount: Mount) -> None:
        self.mount = mount
        self.storage = Storage.open(Path("/data"), mount, self.settings, now_ms=NOW_MS)

    @property
    def partition(self) -> Partition:
        partition = self.storage.partition("t", 0)
        assert partition is not None
        return partition

    def write(self, *pairs: tuple[bytes, bytes | None], time_ms: int = NOW_MS) -> None:
        records = [Record(n, time_ms + n, *pair) for n, pair in enumerate(pairs)]
        outcome = self.send(self.sequence, records)
        assert outcome.error_code is ErrorCode.NONE
        self.sequence += len(pairs)
        self.written += [one._replace(offset=outcome.base_offset + n) for n, one in enumerate(records)]

    def send(self, sequence: int, records: list[Record]):
        batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
        return self.partition.append(memoryview(batch), [decode_header(batch)], NOW_MS)

    def fill(self, segments: int = 6, keys: int = 5) -> None:
        """Values of a few keys, over so many full segments; synced."""
        n = 0
        while len(self.partition.segment_base_offsets) <= segments:
            self.write((b"k%d" % (n % keys), b"%d" % n + b"." * 100), (b"n%d" % n, b"once"))
            n += 1
        self.partition.sync()

    def clean(self, now_ms: int = NOW_MS) -> None:
        for begin in self.partition.clean(now_ms):
            at_once(begin())

    def records(self) -> list[Record]:
        return records_of(self.partition)


def records_of(partition: Partition) -> list[Record]:
    found: list[Record] = []
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        piece = partition.read(offset, 700, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice)
        for batch, header in scan_batches(piece.read_whole()):
            assert header.base_offset <= offset <= header.last_offset
            if not header.is_control:
                found += [record for record in decode_records(batch) if record.offset >= offset]
            offset = header.last_offset + 1
    return found


def newest(records: list[Record]) -> dict[bytes | None, Record]:
    return {one.key: one for one in records}


def new_disk(seed: int = 0) -> Disk:
    return Disk(Random(seed), Trace(Scheduler()), Counts(), lambda: NO_FAULTS)


@pytest.fixture
def kept() -> Kept:
    return Kept(new_disk())


def test_a_log_gets_smaller_and_says_the_same(kept: Kept) -> None:
    kept.fill()
    partition = kept.partition
    before, producers = partition.size_bytes, partition.producers()
    first_active = partition.segment_base_offsets[-1]
    kept.clean()
    assert partition.size_bytes < before * 2 / 3
    assert newest(kept.records()) == newest(kept.written)
    below = [one for one in kept.records() if one.offset < first_active]
    assert len(below) == len({one.key for one in below})
    assert partition.producers() == producers
    cleaner = kept.storage.cleaner
    assert (cleaner.passes, cleaner.failures) == (1, 0)
    assert cleaner.read_bytes > cleaner.written_bytes > 0
    assert not [name for name in kept.mount.listdir(FOLDER) if "cleaned" in name or "swap" in name]


def test_what_is_clean_is_left_alone_until_enough_is_not(kept: Kept) -> None:
    kept.fill()
    kept.clean(), kept.clean()
    assert kept.storage.cleaner.passes == 1
    kept.fill(len(kept.partition.segment_base_offsets))
    kept.clean()
    assert kept.storage.cleaner.passes == 1, "one segment of four is not the half"
    kept.fill(len(kept.partition.segment_base_offsets) + 4)
    kept.clean()
    assert kept.storage.cleaner.passes == 2
    assert newest(kept.records()) == newest(kept.written)


def test_offsets_can_be_read_from_and_found_by_time(kept: Kept) -> None:
    kept.fill()
    kept.clean()
    partition = kept.partition
    left = kept.records()
    for offset in range(partition.log_end_offset):
        piece = partition.read(offset, 1, FetchIsolation.LOG_END)
        assert isinstance(piece, Slice)
        header = decode_header(piece.read_whole())
        assert header.base_offset <= offset <= header.last_offset
    for one in left:
        found = partition.offset_for_timestamp(one.timestamp_ms)
        first = next(other for other in left if other.timestamp_ms >= one.timestamp_ms)
        assert found is not None
        assert found[:2] == (first.offset, first.timestamp_ms)


def test_the_newest_record_is_one_that_is_there(kept: Kept) -> None:
    """A window's batch keeps its time, of which no record may be left."""
    kept.write((b"a", b"1"), time_ms=NOW_MS + 900)
    kept.write((b"a", b"2"), (b"b", b"2"), time_ms=NOW_MS + 300)
    kept.write((b"c", b"."), (b"b", b"3"), time_ms=NOW_MS + 500)
    kept.write((b"c", b"1"), time_ms=NOW_MS + 400)
    kept.partition.roll(NOW_MS)
    kept.partition.sync()
    kept.clean()
    assert kept.storage.cleaner.passes == 1
    found = at_once(kept.partition.newest_record())
    assert found is not None
    assert found[:2] == (4, NOW_MS + 501)
    assert [one.offset for one in kept.records()] == [1, 4, 5]


def test_duplicates_are_known_also_without_snapshots(kept: Kept) -> None:
    kept.fill()
    for value in b"xyz":
        kept.write((b"k", b"%d" % value))
    kept.partition.roll(NOW_MS)
    kept.partition.sync()
    kept.clean()
    kept.mount = kept.disk.mount()
    for name in kept.mount.listdir(FOLDER):
        if name.endswith((".producers", ".snapshot")):
            kept.mount.unlink(FOLDER / name)
    before = kept.partition.producers()
    kept.open(kept.mount)
    assert kept.partition.producers() == before
    last = kept.sequence - 1
    for back, verdict in ((2, Duplicate(last - 2)), (5, Duplicate(None))):
        assert kept.send(last - back, [Record(0, NOW_MS, b"k", b"-")]).verdict == verdict


def test_a_reader_goes_on_in_the_file_that_it_has(kept: Kept) -> None:
    kept.fill()
    piece = kept.partition.read(0, 1 << 20)
    assert isinstance(piece, Slice)
    before = piece.read_whole()
    kept.clean()
    assert piece.read_whole() == before


def test_tombstones_go_when_their_time_is_over(kept: Kept) -> None:
    kept.fill()
    kept.write((b"k0", None))
    kept.partition.roll(NOW_MS)
    kept.fill(len(kept.partition.segment_base_offsets))
    kept.write((b"k0", None))
    kept.partition.roll(NOW_MS)
    kept.partition.sync()
    kept.clean()
    assert [one.value for one in kept.records() if one.key == b"k0"] == [None]
    kept.fill(len(kept.partition.segment_base_offsets) + 8, keys=1)
    kept.write((b"k0", None))
    kept.clean(NOW_MS + HOUR_MS)
    assert kept.storage.cleaner.passes == 2


def test_the_newest_versions_of_a_config_count(kept: Kept) -> None:
    """Between two parts of a pass the topic may be told to be compacted no more."""
    kept.fill()
    parts = kept.partition.clean(NOW_MS)
    at_once(next(parts)())
    at_once(kept.storage.alter_topic_config("t", {"cleanup.policy": "delete"}, now_ms=NOW_MS))
    for begin in parts:
        at_once(begin())
    assert kept.storage.cleaner.passes == 0
    assert kept.records() == kept.written
    assert not [name for name in kept.mount.listdir(FOLDER) if "cleaned" in name]
    kept.clean()
    assert kept.storage.cleaner.passes == 0


@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("what", ["trim", "trim all", "delete", "make anew", "append"])
def test_whatever_comes_between_two_parts(kept: Kept, what: str, part: int, monkeypatch) -> None:
    monkeypatch.setattr("semel.server.storage.cleaning._CHUNK_BYTES", 400)
    kept.fill()
    partition, end_offset = kept.partition, kept.partition.log_end_offset
    parts = kept.partition.clean(NOW_MS)
    for _ in range(part * 3 + 1):
        at_once(next(parts)())
    start = {"trim": end_offset // 2, "trim all": end_offset}.get(what, 0)
    if start:
        assert at_once(partition.delete_records(start)) is ErrorCode.NONE
    elif what == "append":
        kept.fill(len(partition.segment_base_offsets) + 1)
    else:
        at_once(kept.storage.delete_topic("t", now_ms=NOW_MS))
        if what == "make anew":
            at_once(kept.storage.create_topic("t", now_ms=NOW_MS))
            kept.sequence, kept.written = 0, []
            kept.fill()
    for begin in parts:
        at_once(begin())
    if what == "delete":
        assert not kept.mount.exists(FOLDER)
        return
    partition = kept.partition
    assert partition.is_online
    assert not [name for name in kept.mount.listdir(FOLDER) if "cleaned" in name]
    expected = newest([one for one in kept.written if one.offset >= start])
    assert newest(kept.records()) == expected
    kept.open(kept.disk.mount())
    assert kept.partition.is_online, kept.partition.offline_reason
    assert newest(kept.records()) == expected
    kept.clean()
    assert newest(kept.records()) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("end", [Killed, PowerCut])
def test_a_crash_at_any_file_operation(end) -> None:
    """The values, the offsets and the producers are there; and what was begun is done by the next pass."""
    step = 0
    while True:
        kept = Kept(new_disk(step))
        kept.fill(4)
        kept.write((b"n1", None), (b"k1", b"last"))
        kept.partition.sync()
        before, producers = kept.records(), kept.partition.producers()
        kept.mount.end_inside_step(step, end)
        try:
            kept.clean()
        except end:
            pass
        else:
            break
        if end is PowerCut:
            kept.disk.power_cut()
        step += 1
        kept.open(kept.disk.mount())
        assert kept.partition.is_online, kept.partition.offline_reason
        assert kept.partition.log_end_offset == len(kept.written)
        assert newest(kept.records()) == newest(kept.written)
        assert set(kept.records()) <= set(before)
        assert kept.partition.producers() == producers
        assert not [name for name in kept.mount.listdir(FOLDER) if "cleaned" in name or "swap" in name]
        kept.clean()
        assert newest(kept.records()) == newest(kept.written)
        kept.open(kept.disk.mount())
        assert newest(kept.records()) == newest(kept.written)
        assert kept.partition.producers() == producers
    assert step > 20


def test_a_log_that_is_damaged_is_left_as_it_is(kept: Kept) -> None:
    kept.fill()
    kept.disk.rot(FOLDER / f"{0:020d}.log", 100, 3)
    size_bytes = kept.partition.size_bytes
    kept.clean(), kept.clean()
    cleaner = kept.storage.cleaner
    assert cleaner.left_alone == {kept.partition.name}
    assert [(one.partition, one.is_final) for one in cleaner.untold] == [(kept.partition.name, True)]
    assert kept.partition.is_online
    assert kept.partition.size_bytes == size_bytes
    assert not [name for name in kept.mount.listdir(FOLDER) if "cleaned" in name]


@pytest.mark.parametrize("full_writes", range(2, 7))
def test_a_full_disk_is_tried_again(kept: Kept, full_writes: int) -> None:
    kept.fill()
    kept.disk.full_writes = full_writes
    while kept.storage.cleaner.passes == 0:
        kept.clean()
        assert kept.partition.is_online
        assert newest(kept.records()) == newest(kept.written)
        assert not [name for name in kept.mount.listdir(FOLDER) if "cleaned" in name]
    assert kept.storage.cleaner.failures > 0


def test_a_small_map_takes_several_passes(kept: Kept) -> None:
    kept = Kept(new_disk(), cleaner_map_bytes=24 * 8)
    kept.fill()
    first_active = kept.partition.segment_base_offsets[-1]
    while True:
        passes = kept.storage.cleaner.passes
        kept.clean()
        assert newest(kept.records()) == newest(kept.written)
        if kept.storage.cleaner.passes == passes:
            break
    assert passes > 3
    cleaned_to = kept.storage.cleaner.cleaned_to.find(kept.partition.name)
    assert cleaned_to is not None
    below = [one for one in kept.records() if one.offset < cleaned_to]
    assert len(below) == len({one.key for one in below})
    assert cleaned_to > first_active // 2


def test_two_rounds_of_upkeep_at_once_are_one_pass(kept: Kept, monkeypatch) -> None:
    monkeypatch.setattr("semel.server.storage.cleaning._CHUNK_BYTES", 400)
    kept.fill()
    parts = kept.partition.clean(NOW_MS)
    at_once(next(parts)())
    kept.clean()
    assert kept.storage.cleaner.passes == 0
    for begin in parts:
        at_once(begin())
        kept.clean()
    assert (kept.storage.cleaner.passes, kept.storage.cleaner.failures) == (1, 0)
    assert newest(kept.records()) == newest(kept.written)


def test_both_policies_together(kept: Kept) -> None:
    kept = Kept(
        new_disk(),
        LogConfig(segment_bytes=1024, cleanup_policy="compact,delete", retention_bytes=2000),
    )
    kept.fill()
    kept.clean()
    assert at_once(kept.partition.apply_retention(NOW_MS)) > 0
    start = kept.partition.log_start_offset
    assert start > 0
    assert newest(kept.records()) == newest([one for one in kept.written if one.offset >= start])


def test_of_a_compacted_log_alone_age_takes_nothing(kept: Kept) -> None:
    kept.fill()
    assert at_once(kept.partition.apply_retention(NOW_MS * 10**6)) == 0
    assert kept.partition.log_start_offset == 0


def test_an_idle_log_is_compacted_when_the_lag_is_over() -> None:
    config = LogConfig(cleanup_policy="compact", max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio=1.0)
    kept = Kept(new_disk(), config)
    kept.write((b"a", b"1")), kept.write((b"a", b"2"))
    kept.partition.sync()
    kept.clean(NOW_MS + HOUR_MS - 1)
    assert kept.storage.cleaner.passes == 0
    kept.clean(NOW_MS + HOUR_MS + 1)
    assert kept.storage.cleaner.passes == 1
    assert [one.value for one in kept.records()] == [b"2"]


def test_the_group_log_is_compacted(kept: Kept) -> None:
    assert kept.storage.group_log.partition.config.is_compacted
    assert not kept.storage.metadata_log.partition.config.is_compacted
