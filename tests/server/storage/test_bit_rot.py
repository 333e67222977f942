"""One bit of any file rots: its partition alone is refused, or all that was stored is served.

What no checksum covers is a batch's base offset and length; a reader sees that offsets do not follow each other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.group.requests import CommitOffsets, OffsetToCommit
from semel.core.log.config import LogConfig
from semel.core.log.names import (
    GROUP_OFFSETS_TOPIC,
    METADATA_TOPIC,
    SNAPSHOT_SUFFIX,
    file_name,
    folder_of,
)
from semel.core.log.recovery import Damaged
from semel.errors import CorruptRecordBatch, ErrorCode, StorageError
from semel.record.batch import Record, decode_records, scan_batches
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import TopicPartition

NOW_MS = 1_000_000
GONE = 6  # a producer that wrote what is trimmed, and nothing else
NEEDED_SNAPSHOT = Path(
    "t-0", file_name(36, SNAPSHOT_SUFFIX)
)  # the only one after a kill: it knows of that one
SETTINGS = StorageSettings(default_config=LogConfig(segment_bytes=1024, index_interval_bytes=100))
INTERNAL = tuple(folder_of(TopicPartition(topic, 0)) for topic in (METADATA_TOPIC, GROUP_OFFSETS_TOPIC))


def open_folder(folder: Path) -> Storage:
    return Storage.open(folder, settings=SETTINGS, now_ms=NOW_MS)


def read_all(partition: Partition) -> list[Record]:
    """From every batch on, as whoever begins there does."""
    offset, found = partition.log_start_offset, []
    while offset < partition.high_watermark:
        piece = partition.read(offset, 300)
        assert isinstance(piece, Slice)
        for batch, header in scan_batches(piece.read_whole()):
            if not header.base_offset <= offset <= header.last_offset:
                raise CorruptRecordBatch(f"offset {header.base_offset} where {offset} is due")
            found += [record for record in decode_records(batch) if record.offset >= offset]
            offset = header.last_offset + 1
        assert piece.length
    return found


@dataclass(frozen=True)
class Stored:
    """A folder, and what is in it."""

    folder: Path
    files: tuple[Path, ...]
    records: dict[TopicPartition, list[Record]]
    producers: dict[TopicPartition, object]
    since: dict[TopicPartition, list[object]]  # the first offset at or after some times


def times_of(partition: Partition) -> list[object]:
    found = [partition.offset_for_timestamp(NOW_MS + ms) for ms in range(0, 450, 30)]
    return [one and one[:2] for one in found]


@pytest.fixture(scope="module", params=["clean", "killed"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, make_batch, fence
) -> Stored:
    """Two partitions with some segments, one of them trimmed, a fence, an identity and a committed offset."""
    root = tmp_path_factory.mktemp("rot")
    storage = open_folder(root / "live")
    at_once(storage.create_topic("t", 2, now_ms=NOW_MS))
    names = [TopicPartition("t", 0), TopicPartition("t", 1)]
    storage.init_producer(now_ms=NOW_MS)
    commit = CommitOffsets("readers", [OffsetToCommit(names[0], 5, 0, "")])
    storage.group_log.submit(storage.groups.commit(commit, 0, NOW_MS), NOW_MS)
    for name in names:
        partition = storage.find(name)
        partition.append(*make_batch(0, producer_id=GONE, epoch=0, timestamp_ms=NOW_MS), NOW_MS)
        for n in range(40):
            partition.append(*make_batch(n, timestamp_ms=NOW_MS + 10 * n), NOW_MS)
        fence(partition, 7, 1)
    for partition in storage:
        partition.sync()
    assert at_once(storage.find(names[0]).delete_records(13)) is ErrorCode.NONE
    everything = [storage.find(name) for name in names]
    records = {one.name: read_all(one) for one in everything}
    producers = {one.name: one.producers() for one in everything}
    since = {one.name: times_of(one) for one in everything}
    if request.param == "clean":
        assert storage.close(now_ms=NOW_MS)
    shutil.copytree(root / "live", root / "kept")
    files = sorted(path.relative_to(root / "kept") for path in (root / "kept").rglob("*") if path.is_file())
    held = tuple(path for path in files if (root / "kept" / path).stat().st_size)
    return Stored(root / "kept", held, records, producers, since)


def rot(stored: Stored, file: Path, bit: int) -> Path:
    """A copy of the folder in which one bit is another."""
    folder = stored.folder.with_name("rotten")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stored.folder, folder)
    content = bytearray((folder / file).read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    (folder / file).write_bytes(content)
    return folder


def check(stored: Stored, file: Path, bit: int) -> None:
    folder = rot(stored, file, bit)
    try:
        storage = open_folder(folder)
    except StorageError as error:
        assert file.name in str(error), error
        assert len(file.parts) == 1 or file.parts[0] in INTERNAL, "no other partition is that important"
        return
    for name, records in stored.records.items():
        partition = storage.find(name)
        may_be_damaged = file.parts[0] == str(name) and file.suffix == ".log"
        if not partition.is_online:
            assert may_be_damaged or file == NEEDED_SNAPSHOT
            assert isinstance(partition.recovery.verdict, Damaged)
            assert all(part in str(partition.recovery) for part in (str(name), file.name, "offset"))
            continue
        assert partition.log_end_offset == 42
        assert partition.producers() == stored.producers[name]
        try:
            assert read_all(partition) == records
        except (OSError, CorruptRecordBatch):
            assert may_be_damaged
        if not may_be_damaged:
            assert times_of(partition) == stored.since[name]


@given(data=st.data())
def test_a_bit_that_rots_takes_at_most_its_own_partition(stored: Stored, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(stored.files))
    size_bytes = (stored.folder / file).stat().st_size
    check(stored, file, data.draw(st.integers(0, 8 * size_bytes - 1)))


def header_bit(field: str) -> int:
    return 8 * {"base_offset": 7, "length": 10, "record_count": 58, "magic": 16}[field]


@pytest.fixture
def snapshots_lost(stored: Stored) -> Callable[[Path], None]:
    """Then the producers' state comes from a replay of every segment, also of those that are not scanned."""

    def lose(folder: Path) -> None:
        for path in folder.rglob("*"):
            if path.suffix in (".producers", ".snapshot"):
                path.unlink()

    return lose


@pytest.mark.parametrize("field", ["base_offset", "length", "record_count", "magic"])
def test_a_header_that_cannot_be_replayed_takes_its_partition_only(
    field: str, stored: Stored, snapshots_lost, make_batch
) -> None:
    """Found by a simulated run: the header's error ended the start of the whole server."""
    log = Path("t-1", f"{0:020d}.log")
    folder = rot(stored, log, header_bit(field))
    snapshots_lost(folder)
    storage = open_folder(folder)
    rotten, other = storage.partition("t", 1), storage.partition("t", 0)
    assert isinstance(rotten.recovery.verdict, Damaged)
    assert str(rotten.recovery).startswith(f"t-1: OFFLINE, damaged at offset 0: {log.name}, byte 0: ")
    assert rotten.append(*make_batch(40), NOW_MS).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert other.append(*make_batch(0, producer_id=8, epoch=0), NOW_MS).error_code is ErrorCode.NONE


@pytest.mark.parametrize("topic", INTERNAL)
@pytest.mark.parametrize("field", ["base_offset", "length", "record_count", "magic"])
def test_without_its_own_logs_the_server_says_where_they_are_damaged(
    topic: str, field: str, stored: Stored
) -> None:
    log = Path(topic, f"{0:020d}.log")
    folder = rot(stored, log, header_bit(field))
    with pytest.raises(
        StorageError, match=rf"{topic}: .*offset 0: {log.name}, byte 0: .*nothing can be served"
    ):
        open_folder(folder)
