"""Trimming a log: what its batches said of their producers outlives them, over any restart."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from semel.core.producer_state.verdict import Duplicate
from semel.errors import ErrorCode
from semel.server.storage.aside import at_once
from semel.server.storage.checkpoints import LogStarts
from semel.server.storage.snapshots import SnapshotFiles
from semel.types import TopicPartition

NOW_MS = 1_000_000


@pytest.fixture
def storage(open_storage):
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    return storage


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("then_roll", [False, True])
def test_who_wrote_what_was_trimmed_is_still_known_after_a_crash(
    open_storage, crashed, make_batch, durable: bool, then_roll: bool
) -> None:
    storage = open_storage(durable=durable)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 3), NOW_MS)
    partition.sync()
    assert at_once(partition.delete_records(-1)) is ErrorCode.NONE
    if then_roll:
        partition.roll(NOW_MS)
    for n in range(3):
        storage = open_storage(crashed(storage, f"crash {n}"), durable=durable)
        partition = storage.partition("t", 0)
        assert partition.log_start_offset == 3
        assert isinstance(partition.append(*make_batch(0, 3), NOW_MS).verdict, Duplicate)
        at_once(partition.apply_retention(NOW_MS))


def test_batches_are_not_trimmed_before_a_snapshot_speaks_for_them(
    open_storage, crashed, make_batch, storage, monkeypatch
) -> None:
    """The disk is full when the snapshot is due; retention waits for it."""
    partition = storage.partition("t", 0)
    written = SnapshotFiles.write

    def no_room(self: SnapshotFiles, snapshot: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(SnapshotFiles, "write", no_room)
    partition.append(*make_batch(0, 3), NOW_MS)
    partition.roll(NOW_MS)
    partition.append(*make_batch(count=1), NOW_MS)
    partition.sync()
    assert at_once(partition.delete_records(4)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.segment_base_offsets == (0, 3)
    known = open_storage(crashed(storage, "crashed")).partition("t", 0).producers()
    assert known == partition.producers()

    monkeypatch.setattr(SnapshotFiles, "write", written)
    at_once(partition.apply_retention(NOW_MS))
    assert partition.segment_base_offsets == (3,)
    assert open_storage(crashed(storage, "again")).partition("t", 0).producers() == known


def test_the_start_of_a_deleted_topic_is_forgotten(storage, make_batch) -> None:
    """Else every topic that ever was would stay in the checkpoint for ever."""
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 3), NOW_MS)
    partition.sync()
    at_once(partition.delete_records(2))
    checkpoint = Path(storage.data_dir) / "log-start-offset-checkpoint"
    assert "t 0 2" in checkpoint.read_text()
    at_once(storage.delete_topic("t", now_ms=NOW_MS))
    assert "t 0 2" not in checkpoint.read_text()
    assert TopicPartition("t", 0) not in {one.name for one in storage}


def test_the_epochs_of_what_was_trimmed_go_with_it(open_storage, crashed, make_batch, storage) -> None:
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 3), NOW_MS)
    partition.sync()
    folder = crashed(storage, "torn")
    with (folder / "t-0" / f"{0:020d}.log").open("ab") as log:
        log.write(b"half a batch")
    after = open_storage(folder)
    partition = after.partition("t", 0)
    partition.append(*make_batch(3, 3), NOW_MS)
    partition.sync()
    assert partition.epochs == ((0, 0), (partition.leader_epoch, 3))
    assert partition.end_offset_for_leader_epoch(0) == (0, 3)
    at_once(partition.delete_records(5))
    for _ in range(2):
        assert partition.epochs[0] == (after.partition("t", 0).leader_epoch, 5)
        assert partition.end_offset_for_leader_epoch(0) == (0, 5), "what a reader of epoch 0 had is gone"
        partition = open_storage(crashed(after, "again")).partition("t", 0)


def test_a_start_that_could_not_be_forgotten_with_its_topic_is_not_the_next_topics(
    open_storage, crashed, make_batch, storage, monkeypatch
) -> None:
    """The disk fails while a topic is deleted; the one of its name that is made then begins at 0, after a kill too."""
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 3), NOW_MS)
    partition.sync()
    assert at_once(partition.delete_records(-1)) is ErrorCode.NONE

    def no_room(self: LogStarts) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    with monkeypatch.context() as failing:
        failing.setattr(LogStarts, "_save", no_room)
        at_once(storage.delete_topic("t", now_ms=NOW_MS))
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0, 5), NOW_MS)
    partition.sync()
    partition = open_storage(crashed(storage, "crash")).partition("t", 0)
    assert partition.is_online, partition.offline_reason
    assert (partition.log_start_offset, partition.log_end_offset) == (0, 5)
