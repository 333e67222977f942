"""The newest record that may be seen, wherever it lies and whatever was trimmed, against a look at them all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semel.core.log.config import LogConfig
from semel.record.batch import Record, assemble_batch, decode_header, encode_batch
from semel.record.compression import Compression
from semel.server.storage.aside import at_once
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
NONE = Compression.NONE
TIMES = st.integers(0, 12).map(lambda n: NOW_MS + n)
BATCHES = st.lists(
    st.tuples(st.lists(TIMES, min_size=1, max_size=5), st.sampled_from(Compression), st.integers(1, 300)),
    min_size=1,
    max_size=25,
)


@contextmanager
def log(folder: Path, index_interval_bytes: int = 100) -> Iterator[Partition]:
    """One partition with small segments."""
    config = LogConfig(segment_bytes=1024, index_interval_bytes=index_interval_bytes)
    storage = Storage.open(folder, None, StorageSettings(default_config=config), now_ms=NOW_MS)
    if storage.topics.get("t") is None:
        at_once(storage.create_topic("t", 1, {}, now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    assert partition is not None
    yield partition
    storage.close(now_ms=NOW_MS)


def append(
    partition: Partition, times_ms: list[int], compression: Compression, value_bytes: int = 10
) -> None:
    rows = [Record(0, time_ms, None, b"v" * value_bytes) for time_ms in times_ms]
    batch = encode_batch(rows, compression=compression)
    partition.append(memoryview(batch), [decode_header(batch)], NOW_MS)


def newest(partition: Partition) -> tuple[int, int] | None:
    found = at_once(partition.newest_record())
    return None if found is None else (found.offset, found.timestamp_ms)


@example(
    [([NOW_MS + 9, NOW_MS], NONE, 10), ([NOW_MS + 5], NONE, 10), ([NOW_MS + 5], NONE, 1)], 100, 25, 0, False
)
@given(BATCHES, st.integers(0, 100), st.integers(0, 100), st.sampled_from([0, 100, 4096]), st.booleans())
def test_the_newest_record_is_found(
    batches: list[tuple[list[int], Compression, int]],
    synced_percent: int,
    trimmed_percent: int,
    index_interval_bytes: int,
    reopened: bool,
) -> None:
    """Some batches are not synced, so that nobody may see them; some records are trimmed, also within a batch."""
    folder = Path(tempfile.mkdtemp())
    synced = len(batches) * synced_percent // 100
    every_ms = [time_ms for its_times_ms, _, _ in batches for time_ms in its_times_ms]
    try:
        with log(folder / "data", index_interval_bytes) as partition:
            for its_times_ms, compression, value_bytes in batches[:synced]:
                append(partition, its_times_ms, compression, value_bytes)
            partition.sync()
            synced_end = partition.log_end_offset
            for its_times_ms, compression, value_bytes in batches[synced:]:
                append(partition, its_times_ms, compression, value_bytes)
            start = synced_end * trimmed_percent // 100
            at_once(partition.delete_records(start))
            # a trim that lets go of a segment syncs what lies above it
            assert newest(partition) == first_of_newest(every_ms[: partition.high_watermark], start)
        if reopened:
            with log(folder / "data", index_interval_bytes) as partition:
                assert newest(partition) == first_of_newest(every_ms, start)
    finally:
        shutil.rmtree(folder)


def first_of_newest(times_ms: list[int], start: int) -> tuple[int, int] | None:
    seen = times_ms[start:]
    return (start + seen.index(max(seen)), max(seen)) if seen else None


def test_what_the_log_stamped_is_as_old_as_its_batch(tmp_path: Path) -> None:
    with log(tmp_path / "data") as partition:
        partition.config = LogConfig(message_timestamp_type="LogAppendTime")
        append(partition, [5, 9, 7], Compression.GZIP)
        partition.sync()
        assert newest(partition) == (0, NOW_MS)


def test_records_without_a_time_are_not_the_newest(tmp_path: Path) -> None:
    with log(tmp_path / "data") as partition:
        append(partition, [-1, -1], NONE)
        partition.sync()
        assert newest(partition) is None
        append(partition, [0], NONE)
        partition.sync()
        assert newest(partition) == (2, 0)


def test_records_that_nobody_can_read_are_as_new_as_their_batch_says(tmp_path: Path) -> None:
    rubbish = assemble_batch(
        b"\xff" * 40, record_count=2, last_offset_delta=1, base_timestamp=2000, max_timestamp=2000
    )
    with log(tmp_path / "data") as partition:
        append(partition, [1000], NONE)
        partition.append(memoryview(rubbish), [decode_header(rubbish)], NOW_MS)
        append(partition, [1500], NONE)
        partition.sync()
        assert newest(partition) == (1, 2000)


def test_a_damaged_log_is_not_searched(tmp_path: Path) -> None:
    with log(tmp_path / "data") as partition:
        append(partition, [1000], NONE)
        partition.sync()
        path = next((tmp_path / "data" / "t-0").glob("*.log"))
        path.write_bytes(b"\0" * path.stat().st_size)
        with pytest.raises(OSError, match="impossible length"):
            newest(partition)
