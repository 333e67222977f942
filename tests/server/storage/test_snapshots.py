"""A snapshot is taken when a segment is full, and written when the disk is next synced; a large one after that."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.core.log.names import KAFKA_SNAPSHOT_SUFFIX, file_name
from semel.core.producer_state.kafka_snapshot import decode_kafka_snapshot
from semel.core.producer_state.slot_index import FEW_ROWS
from semel.core.producer_state.state import ProducerState
from semel.errors import ErrorCode
from semel.server.storage.aside import at_once
from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.snapshots import SnapshotFiles
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000


@pytest.mark.parametrize("producers", [3, 600], ids=["few", "many"])
def test_a_snapshot_is_of_the_time_when_it_was_taken(
    producers: int, open_storage, crashed, make_batch
) -> None:
    storage = open_storage(durable=False)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)

    def append(sequence: int) -> None:
        for producer_id in range(producers):
            batch = make_batch(sequence, producer_id=producer_id, epoch=0)
            assert partition.append(*batch, NOW_MS).error_code == 0

    append(0)
    append(1)
    taken = partition.producers()
    partition.roll(NOW_MS)
    append(2)
    append(3)
    assert not partition.owes_snapshot, "its batches are not synced"
    partition.sync()
    assert partition.owes_snapshot == (producers > FEW_ROWS)
    partition.write_snapshot()
    assert not partition.owes_snapshot

    snapshots = SnapshotFiles(OsFileSystem(), storage.data_dir / "t-0")
    state = snapshots.load_newest(now_ms=NOW_MS)
    assert state is not None
    assert (sorted(state), state.end_offset) == (taken, 2 * producers)
    content = (storage.data_dir / "t-0" / file_name(2 * producers, KAFKA_SNAPSHOT_SUFFIX)).read_bytes()
    kafkas = decode_kafka_snapshot(content, end_offset=2 * producers, now_ms=NOW_MS)
    assert isinstance(kafkas, ProducerState)
    assert sorted(kafkas) == [(name, entry._replace(window=entry.window[-1:])) for name, entry in taken]

    after = open_storage(crashed(storage, "crashed"))
    assert after.partition("t", 0).producers() == partition.producers(), "the snapshot and the tail"


@pytest.fixture
def trimmed(open_storage, make_batch) -> Storage:
    """A partition that knows eight producers, and has the rows of the last one only."""
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for producer_id in range(8):
        assert partition.append(*make_batch(0, producer_id=producer_id, epoch=0), NOW_MS).error_code == 0
        if producer_id % 3 == 0:
            partition.roll(NOW_MS)
        partition.sync()
    assert at_once(partition.delete_records(7)) is ErrorCode.NONE
    return storage


def rot_newest(folder: Path) -> Path:
    newest = max((folder / "t-0").glob("*.producers"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    return newest


def test_nobody_is_forgotten_with_a_snapshot_that_alone_knew_of_what_was_trimmed(
    trimmed: Storage, open_storage, crashed
) -> None:
    """Found by a simulated run: the log came up whole, and took any first batch of whom it had forgotten."""
    folder = crashed(trimmed, "crashed")
    newest = rot_newest(folder)
    partition = open_storage("crashed").partition("t", 0)
    assert not partition.is_online
    assert f"{newest.name}, byte 0: it cannot be read, and it alone knows who wrote" in str(
        partition.recovery
    )

    folder = crashed(trimmed, "without it")
    max((folder / "t-0").glob("*.producers")).unlink()
    partition = open_storage("without it").partition("t", 0)
    assert partition.is_online
    assert [producer_id for producer_id, _ in partition.producers()] == list(range(8)), "Kafka's knows them"


def test_a_snapshot_that_cannot_be_read_speaks_for_nothing_that_is_trimmed_later(
    open_storage, crashed, make_batch
) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for producer_id in range(3):
        assert partition.append(*make_batch(0, producer_id=producer_id, epoch=0), NOW_MS).error_code == 0
        partition.roll(NOW_MS)
        partition.sync()
    rot_newest(crashed(storage, "crashed"))
    reopened = open_storage("crashed")
    partition = reopened.partition("t", 0)
    assert partition.is_online, "the log goes back to the one before it"
    assert at_once(partition.delete_records(-1)) is ErrorCode.NONE
    again = open_storage(crashed(reopened, "again")).partition("t", 0)
    assert again.is_online
    assert [producer_id for producer_id, _ in again.producers()] == [0, 1, 2]
