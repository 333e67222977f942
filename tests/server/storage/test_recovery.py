"""A crash at any moment: what was acknowledged is there, and the log ends at its last whole batch."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from semel.core.log.recovery import Cut, Damaged, Sound
from semel.errors import ErrorCode
from semel.record.batch import decode_records, scan_batches
from semel.server.storage import leader_epoch
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import OffsetOutOfRange, Slice
from semel.server.storage.partition import Partition

NOW_MS = 1_000_000
LOG = "00000000000000000000.log"
EPOCHS = "leader-epoch-checkpoint"


def values(partition: Partition) -> list[int]:
    offset, found = partition.log_start_offset, []
    while offset < partition.high_watermark:
        piece = partition.read(offset, 1 << 20)
        assert isinstance(piece, Slice)
        for batch, header in scan_batches(piece.read()):
            found += [record.offset for record in decode_records(batch)]
            offset = header.last_offset + 1
    return found


@pytest.fixture
def fill(open_storage, make_batch):
    """A data folder whose topic ``t`` has ``synced`` durable batches of one record, and ``written`` more."""

    def fill_it(synced: int, written: int, **config: int):
        storage = open_storage("live", **config)
        at_once(storage.create_topic("t", now_ms=NOW_MS))
        partition = storage.partition("t", 0)
        for n in range(synced):
            partition.append(*make_batch(n), NOW_MS)
        partition.sync()
        for n in range(synced, synced + written):
            partition.append(*make_batch(n), NOW_MS)
        return storage

    return fill_it


def test_after_kill_minus_9_all_that_was_written_is_there(fill, open_storage, crashed) -> None:
    live = fill(10, 5)
    after = open_storage(crashed(live, "crashed"))
    partition = after.partition("t", 0)
    assert not after.was_clean
    assert values(partition) == list(range(15))
    assert partition.producers() == live.partition("t", 0).producers()
    assert partition.recovery.verdict == Sound()


def test_after_a_clean_stop_nothing_is_scanned(fill, open_storage) -> None:
    live = fill(10, 5, segment_bytes=1024)
    before = live.partition("t", 0).producers()
    assert live.close(now_ms=NOW_MS)
    after = open_storage("live")
    partition = after.partition("t", 0)
    assert after.was_clean
    assert partition.recovery.scanned_bytes == 0
    assert values(partition) == list(range(15))
    assert partition.producers() == before


@pytest.mark.thorough
@pytest.mark.parametrize("damage", ["cut", "zeroed", "flipped"])
def test_a_tail_damaged_at_any_byte_is_cut_at_the_last_whole_batch(
    damage: str, fill, open_storage, crashed, make_batch, tmp_path: Path
) -> None:
    live = fill(2, 2)
    base = crashed(live, "base")
    content = (base / "t-0" / LOG).read_bytes()
    size = len(content) // 4
    for position in range(2 * size, len(content)):
        folder = tmp_path / "case"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base, folder)
        if damage == "cut":
            left = content[:position]
        elif damage == "zeroed":
            left = content[:position] + bytes(len(content) - position)
        else:
            left = content[:position] + bytes([content[position] ^ 0x20]) + content[position + 1 :]
        (folder / "t-0" / LOG).write_bytes(left)
        if left == content or (position % size in range(12, 16) and damage == "flipped"):
            continue  # nothing changed, or only the leader epoch, which no CRC covers
        after = open_storage(folder)
        partition = after.partition("t", 0)
        whole = position // size
        assert values(partition) == list(range(whole)), f"{damage} at {position}"
        assert (folder / "t-0" / LOG).read_bytes() == content[: whole * size]
        ((_, entry),) = partition.producers()
        assert entry.last_sequence == whole - 1
        if left != content[: whole * size]:
            assert isinstance(partition.recovery.verdict, Cut)
            assert partition.recovery.cut_bytes == len(left) - whole * size
            assert f"cut {len(left) - whole * size} bytes at offset {whole}" in str(partition.recovery)
        assert partition.append(*make_batch(whole), NOW_MS).base_offset == whole
        del after, partition


def test_what_was_synced_is_never_cut(fill, open_storage, crashed) -> None:
    live = fill(3, 1)
    folder = crashed(live, "crashed")
    log = folder / "t-0" / LOG
    content = bytearray(log.read_bytes())
    content[len(content) // 4 + 80] ^= 1  # in the second batch
    log.write_bytes(content)
    partition = open_storage(folder).partition("t", 0)
    assert isinstance(partition.recovery.verdict, Damaged)
    assert not partition.is_online
    assert "OFFLINE" in str(partition.recovery)
    assert log.read_bytes() == bytes(content), "left as it is, for whoever looks into it"


def test_a_lost_log_is_not_an_empty_one(fill, open_storage, crashed) -> None:
    folder = crashed(fill(3, 0), "crashed")
    (folder / "t-0" / LOG).unlink()
    assert not open_storage(folder).partition("t", 0).is_online


def test_a_damaged_partition_refuses_and_leaves_the_others_alone(
    fill, open_storage, crashed, make_batch
) -> None:
    live = fill(3, 0)
    at_once(live.create_topic("other", now_ms=NOW_MS))
    folder = crashed(live, "crashed")
    (folder / "t-0" / LOG).write_bytes(b"")
    after = open_storage(folder)
    outcome = after.partition("t", 0).append(*make_batch(3), NOW_MS)
    assert outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert after.partition("other", 0).append(*make_batch(0), NOW_MS).error_code is ErrorCode.NONE


@pytest.mark.parametrize("lost", [".index", ".timeindex", ".producers", ".snapshot", "recovery-point"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["missing", "empty", "garbage"])
def test_everything_but_the_log_can_be_built_anew(
    lost: str, clean: bool, how: str, fill, open_storage, crashed
) -> None:
    live = fill(40, 5, segment_bytes=1024, index_interval_bytes=100)
    before = live.partition("t", 0).producers()
    segments = live.partition("t", 0).segment_base_offsets
    if clean:
        live.close(now_ms=NOW_MS)
    folder = crashed(live, "crashed")
    files = [path for path in (folder / "t-0").iterdir() if path.name.endswith(lost)]
    for path in files:
        if how == "missing":
            path.unlink()
        else:
            path.write_bytes(b"" if how == "empty" else b"\x01" * 37)
    assert files
    partition = open_storage(folder).partition("t", 0)
    assert values(partition) == list(range(45))
    assert partition.producers() == before
    assert partition.segment_base_offsets == segments


def test_a_cut_in_an_older_segment_takes_the_newer_ones(fill, open_storage, crashed) -> None:
    live = fill(1, 40, segment_bytes=1024)
    partition = live.partition("t", 0)
    second = partition.segment_base_offsets[1]
    folder = crashed(live, "crashed")
    log = folder / "t-0" / f"{second:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    after = open_storage(folder).partition("t", 0)
    assert after.segment_base_offsets == partition.segment_base_offsets[:2]
    assert values(after) == list(range(partition.segment_base_offsets[2] - 1))


def test_whoever_read_what_was_cut_can_see_it(fill, open_storage, crashed) -> None:
    live = fill(2, 2)
    folder = crashed(live, "crashed")
    log = folder / "t-0" / LOG
    log.write_bytes(log.read_bytes()[:-1])
    partition = open_storage(folder).partition("t", 0)
    assert partition.leader_epoch > 0
    assert partition.end_offset_for_leader_epoch(0) == (0, 3)
    assert partition.parts_from(0, 4) == (0, 3)


def cut_at_a_batch(folder: Path, offset: int) -> None:
    """As a power cut may leave a log that was not synced: it ends where a batch ends."""
    log = folder / "t-0" / LOG
    position = sum(h.size_bytes for _, h in scan_batches(log.read_bytes()) if h.base_offset < offset)
    with log.open("r+b") as file:
        file.truncate(position)


def write(storage, make_batch, *sequences: int) -> Partition:
    partition = storage.partition("t", 0)
    for sequence in sequences:
        assert partition.append(*make_batch(sequence), NOW_MS).error_code is ErrorCode.NONE
    partition.sync()
    return partition


def test_a_log_that_lost_its_end_at_the_end_of_a_batch_and_grew_says_so(
    fill, open_storage, crashed, make_batch
) -> None:
    folder = crashed(fill(2, 4), "crashed")
    cut_at_a_batch(folder, 3)
    after = open_storage(folder)
    partition = after.partition("t", 0)
    assert (partition.recovery.verdict, partition.log_end_offset) == (Sound(), 3)
    for grown in (range(3, 9), ()):  # before others stand there, and then
        assert partition.parts_from(0, 6) == partition.parts_from(0, 4) == (0, 3)
        assert partition.parts_from(0, 3) is None
        write(after, make_batch, *grown)
    assert partition.leader_epoch_at(2) == 0
    assert partition.leader_epoch_at(3) == partition.leader_epoch


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_folder_that_was_put_back_from_an_older_copy_begins_another_epoch(
    stop: str, fill, open_storage, crashed, make_batch
) -> None:
    first = fill(3, 0)
    if stop == "clean":
        first.close(now_ms=NOW_MS)
    older = crashed(first, "older")
    first = open_storage(crashed(first, "newer"))
    lost = write(first, make_batch, 3, 4, 5)
    put_back = write(open_storage(older), make_batch, 3, 4, 5, 6, 7)
    assert lost.leader_epoch != put_back.leader_epoch, "but for once in a thousand times"
    parted = put_back.parts_from(lost.leader_epoch_at(5), 6)
    assert parted in ((0, 3), (-1, -1))


def test_an_epoch_without_rows_costs_no_file_and_does_not_come_again(
    fill, open_storage, crashed, make_batch
) -> None:
    folder = crashed(fill(2, 0), "crashed")
    content = (folder / "t-0" / EPOCHS).read_bytes()
    seen = [0]
    for n in range(3):
        storage = open_storage(folder)
        partition = storage.partition("t", 0)
        assert partition.leader_epoch > seen[-1]
        assert partition.end_offset_for_leader_epoch(partition.leader_epoch) == (partition.leader_epoch, 2)
        assert partition.parts_from(0, 2) is None
        if seen[1:]:  # who committed the leader's epoch, of which no row came, has lost nothing
            parted = partition.parts_from(seen[-1], 2)
            assert parted is not None and parted.start_offset == 2
        seen.append(partition.leader_epoch)
        assert (folder / "t-0" / EPOCHS).read_bytes() == content
        folder = crashed(storage, f"crashed-{n}")
    write(open_storage(folder), make_batch, 2)
    assert (folder / "t-0" / EPOCHS).read_bytes() != content


@pytest.mark.parametrize("segment_bytes", [200, 1 << 30])
@pytest.mark.parametrize("damage", ["older", "gone", "zeroed", "torn"])
def test_a_checkpoint_of_epochs_that_is_damaged_is_read_from_the_log(
    damage: str, segment_bytes: int, fill, open_storage, crashed, make_batch
) -> None:
    storage = open_storage(
        crashed(fill(2, 0, segment_bytes=segment_bytes), "one"), segment_bytes=segment_bytes
    )
    write(storage, make_batch, 2, 3)
    folder = crashed(storage, "two")
    older = (folder / "t-0" / EPOCHS).read_bytes()
    storage = open_storage(folder, segment_bytes=segment_bytes)
    was = write(storage, make_batch, 4, 5).epochs
    storage.close(now_ms=NOW_MS)
    checkpoint = storage.data_dir / "t-0" / EPOCHS
    whole = checkpoint.read_bytes()
    if damage == "gone":
        checkpoint.unlink()
    else:
        damaged = {"older": older, "zeroed": bytes(len(whole)), "torn": whole[:-2]}
        checkpoint.write_bytes(damaged[damage])
    (storage.data_dir / "leader-epoch").write_bytes(b"")  # nor does the folder know
    partition = open_storage(storage.data_dir, segment_bytes=segment_bytes).partition("t", 0)
    assert partition.epochs[:-1] == was
    assert partition.epochs[-1].start_offset == 6
    assert partition.leader_epoch == partition.epochs[-1].leader_epoch > was[-1].leader_epoch


def test_a_full_disk_at_the_start_leaves_room_for_the_next_epoch(
    fill, open_storage, crashed, make_batch, monkeypatch
) -> None:
    folder = crashed(fill(2, 0), "crashed")

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(leader_epoch, "replace_file", no_room)
        storage = open_storage(folder)
    once = storage.partition("t", 0).leader_epoch
    assert 0 < once < open_storage(crashed(storage, "again")).partition("t", 0).leader_epoch


def test_a_second_crash_during_recovery_changes_nothing(fill, open_storage, crashed) -> None:
    live = fill(2, 5)
    folder = crashed(live, "crashed")
    log = folder / "t-0" / LOG
    log.write_bytes(log.read_bytes()[:-5])
    once = open_storage(folder)
    twice = open_storage(crashed(once, "again"))
    assert values(twice.partition("t", 0)) == values(once.partition("t", 0)) == list(range(6))
    assert twice.partition("t", 0).producers() == once.partition("t", 0).producers()


def test_a_trimmed_start_survives(fill, open_storage, crashed) -> None:
    live = fill(10, 0)
    at_once(live.partition("t", 0).delete_records(4))
    partition = open_storage(crashed(live, "crashed")).partition("t", 0)
    assert partition.log_start_offset == 4
    assert values(partition) == list(range(4, 10))
    assert isinstance(partition.read(3, 10), OffsetOutOfRange)


@pytest.mark.parametrize("before_it", [(), ("roll",), ("roll", "crash")])
def test_who_wrote_what_was_trimmed_is_still_known(
    fill, open_storage, crashed, make_batch, before_it: tuple[str, ...]
) -> None:
    """A producer that sends its last batch again after a trim and a crash must hear that it was stored."""
    live = fill(3, 0)
    if "roll" in before_it:  # then the trim takes the file, and no sync has come by to keep a snapshot
        live.partition("t", 0).roll(NOW_MS)
    if "crash" in before_it:
        live = open_storage(crashed(live, "first"))
    at_once(live.partition("t", 0).delete_records(3))
    after = open_storage(crashed(live, "crashed")).partition("t", 0)
    assert after.producers() == live.partition("t", 0).producers()
    assert after.append(*make_batch(2), NOW_MS).base_offset == 2
    assert after.log_end_offset == 3


@pytest.mark.parametrize("loss", ["folder", "unreadable", "epochs"])
def test_a_partition_that_cannot_be_opened_leaves_the_others_alone(
    loss: str, open_storage, crashed, make_batch
) -> None:
    live = open_storage()
    at_once(live.create_topic("t", 2, now_ms=NOW_MS))
    live.partition("t", 1).append(*make_batch(0), NOW_MS)
    live.partition("t", 1).sync()
    folder = crashed(live, "crashed")
    log = folder / "t-0" / f"{0:020d}.log"
    if loss == "folder":
        shutil.rmtree(folder / "t-0")
    elif loss == "epochs":
        (folder / "t-0" / EPOCHS).mkdir()
    else:  # reading a folder as a file fails as a bad disk does, and also for whoever may read everything
        log.unlink()
        log.mkdir()
    after = open_storage(folder)
    assert str(after.partition("t", 0).offline_reason).startswith("t-0: OFFLINE, cannot be opened: ")
    refused = after.partition("t", 0).append(*make_batch(0), NOW_MS)
    assert refused.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert after.partition("t", 1).append(*make_batch(1), NOW_MS).base_offset == 1
    assert after.close(now_ms=NOW_MS) is False, "the next start looks again"
