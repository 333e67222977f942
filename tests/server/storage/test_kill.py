"""A process that appends and syncs is killed with -9: what it said is stored is stored."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from semel.core.producer_state.verdict import Duplicate
from semel.server.storage.storage import Storage

NOW_MS = 1_000_000
WRITER = """
import sys
from pathlib import Path
from semel.core.log.config import LogConfig
from semel.record.batch import Record, decode_header, encode_batch
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

settings = StorageSettings(default_config=LogConfig(segment_bytes=20_000, index_interval_bytes=500))
storage = Storage.open(Path(sys.argv[1]), None, settings, now_ms=1)
if storage.topics.get("t") is None:
    at_once(storage.create_topic("t", now_ms=1))
partition = storage.partition("t", 0)
while True:
    sequence = partition.log_end_offset
    records = [Record(n, 1, b"k", b"v" * 100) for n in range(3)]
    batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
    outcome = partition.append(memoryview(batch), [decode_header(batch)], 1)
    assert outcome.error_code == 0, outcome
    if sequence % 2:
        partition.sync()
        print(partition.high_watermark, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_what_was_said_to_be_stored_is_stored(rounds: int, tmp_path: Path, make_batch) -> None:
    folder = tmp_path / "data"
    said = 0
    for n in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(40 + 17 * n):
                line = writer.stdout.readline()
                assert line, "the writer died by itself"
                said = int(line)
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().splitlines()
            said = max([said, *map(int, lines[:-1])])
        storage = Storage.open(folder, now_ms=NOW_MS)
        partition = storage.partition("t", 0)
        assert partition is not None
        assert not storage.was_clean
        assert partition.log_end_offset >= said
        ((_, entry),) = partition.producers()
        assert entry.last_sequence == partition.log_end_offset - 1
        last = entry.window[0]
        again = partition.append(*make_batch(last.base_sequence, 3), NOW_MS)
        assert again.verdict == Duplicate(last.base_offset)
        del storage, partition
