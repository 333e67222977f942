"""A partition may have any number of segments; a process has only so many open files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from semel.core.log.config import LogConfig
from semel.errors import ErrorCode
from semel.record.batch import decode_records, scan_batches
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
COLD_FILES_MAX = 6


def open_it(folder: Path, *, durable: bool = True) -> Storage:
    config = LogConfig(segment_bytes=1024, retention_ms=-1)
    settings = StorageSettings(durable=durable, default_config=config, cold_files_max=COLD_FILES_MAX)
    return Storage.open(folder, None, settings, now_ms=NOW_MS)


def open_files(storage: Storage) -> int:
    below = f"{storage.data_dir}/t-"
    descriptors = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    return sum(os.path.exists(one) and os.readlink(one).startswith(below) for one in descriptors)


@pytest.mark.parametrize("durable", [True, False])
def test_many_segments_need_few_open_files(tmp_path: Path, make_batch, durable: bool) -> None:
    storage = open_it(tmp_path / "data", durable=durable)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for n in range(200):
        outcome = partition.append(*make_batch(n, value_bytes=300), NOW_MS)
        assert outcome.error_code is ErrorCode.NONE
        if partition.wants_sync or (durable and n % 3 == 0):
            partition.sync()
    partition.sync()
    assert len(partition.segment_base_offsets) > 60
    few = COLD_FILES_MAX + 3 * 9 + 1
    assert open_files(storage) <= few

    def offset_at(offset: int) -> int:
        piece = partition.read(offset, 1)
        (batch, _), *_ = scan_batches(piece.read())
        return decode_records(batch)[0].offset

    assert [offset_at(n) for n in range(200)] == list(range(200))
    assert partition.offset_for_timestamp(NOW_MS).offset == 0
    storage.close(now_ms=NOW_MS)
    assert open_files(storage) <= 1, "the recovery point, which this test still holds"

    storage = open_it(tmp_path / "data", durable=durable)
    partition = storage.partition("t", 0)
    assert open_files(storage) <= few
    assert [offset_at(n) for n in range(200)] == list(range(200))
    assert at_once(partition.delete_records(150)) is ErrorCode.NONE
    assert partition.append(*make_batch(200), NOW_MS).base_offset == 200
    partition.sync()
    assert [offset_at(n) for n in range(150, 201)] == list(range(150, 201))


def test_a_piece_that_is_being_read_stays_open_whatever_happens(tmp_path: Path, make_batch) -> None:
    storage = open_it(tmp_path / "data")
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    for n in range(60):
        partition.append(*make_batch(n, value_bytes=300), NOW_MS)
        partition.sync()
    piece = partition.read(0, 1)
    before = piece.read()
    for n in range(10, 50):
        partition.read(n, 1).read()
    assert piece.read() == before
    at_once(storage.delete_topic("t", now_ms=NOW_MS))
    assert piece.read() == before
