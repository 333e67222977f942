"""Kafka's DumpLogSegments reads the files that the server leaves: segments, indexes, producer snapshots.

The server is killed first, so these are the files as a crash leaves them, and again after its recovery.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.peers.apache_kafka import JavaTool

from semel.core.log.admission import AppendOrigin
from semel.errors import ErrorCode
from semel.local import LocalLog
from semel.record.batch import Record, decode_header, encode_batch
from semel.record.control import encode_abort_marker
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DUMP_LOG = "kafka.tools.DumpLogSegments"
ROWS = 30_000
KEYS = 100
NOW_MS = 1_700_000_000_000


@pytest.fixture
def files(semel_server_factory: Callable[..., LocalLog]) -> Path:
    """A partition of several segments, written idempotently with two codecs, then kill -9, then recovery."""
    log = semel_server_factory(log_segment_bytes=200_000, log_index_interval_bytes=1_000)
    for codec in ("none", "lz4"):
        producer = Producer(
            {
                "bootstrap.servers": log.bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "batch.size": 4_000,
                "linger.ms": 1,
            }
        )
        for row in range(ROWS):
            producer.produce("dumped", b"value %d" % row, b"%d" % row, partition=0)
            if row % 10_000 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
    log.crash()
    log.restart()
    log.stop()
    return log.data_dir / "dumped-0"


def dump(java_tool: JavaTool, files: list[Path], *arguments: str) -> str:
    return java_tool.output(DUMP_LOG, "--files", ",".join(map(str, files)), *arguments)


def test_every_record_of_every_segment_is_read(java_tool: JavaTool, files: Path) -> None:
    segments = sorted(files.glob("*.log"))
    assert len(segments) > 2
    text = dump(java_tool, segments, "--deep-iteration", "--print-data-log")
    payloads = re.findall(r"\| offset: (\d+) .* key: (\d+) payload: value (\d+)$", text, re.MULTILINE)
    assert [int(offset) for offset, _, _ in payloads] == list(range(2 * ROWS))
    assert [int(key) for _, key, _ in payloads] == [*range(ROWS), *range(ROWS)]
    assert all(key == row for _, key, row in payloads)
    assert "isvalid: false" not in text
    assert {"none", "lz4"} == set(re.findall(r"compresscodec: (\w+)", text))


def test_offset_and_time_indexes_agree_with_their_segments(java_tool: JavaTool, files: Path) -> None:
    indexes = [index for index in sorted(files.glob("*.index")) if index.stat().st_size]
    time_indexes = [index for index in sorted(files.glob("*.timeindex")) if index.stat().st_size]
    assert len(indexes) > 1 and len(time_indexes) > 1
    text = dump(java_tool, [*indexes, *time_indexes])
    assert len(re.findall(r"^offset: \d+ position: \d+$", text, re.MULTILINE)) > 100
    assert re.search(r"^timestamp: \d+ offset: \d+$", text, re.MULTILINE)
    # What the tool prints when an entry does not lead to the batch, or the timestamp, that it names.
    assert "Mismatches in" not in text
    assert "Found timestamp mismatch" not in text
    assert "Found out of order timestamp" not in text
    sane = dump(java_tool, [*indexes, *time_indexes], "--index-sanity-check")
    assert sane.count("passed sanity check") == len(indexes) + len(time_indexes)


def test_producer_snapshots_are_read(java_tool: JavaTool, files: Path) -> None:
    snapshots = sorted(files.glob("*.snapshot"))
    assert snapshots
    for snapshot in snapshots:
        text = dump(java_tool, [snapshot])
        entries = re.findall(
            r"producerId: (\d+) producerEpoch: (-?\d+) .* lastSequence: (\d+) lastOffset: (\d+)", text
        )
        assert entries, text
        # The last batch before the snapshot's own offset is in it, by its writer's sequence.
        assert int(snapshot.stem) - 1 in {int(last_offset) for *_, last_offset in entries}
        assert all(int(epoch) == 0 and int(sequence) < ROWS for _, epoch, sequence, _ in entries)


def test_aborted_transactions_and_where_open_ones_begin_are_read(java_tool: JavaTool, tmp_path: Path) -> None:
    storage = Storage.open(tmp_path / "data", None, StorageSettings(), now_ms=NOW_MS)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    assert partition is not None

    def append(batch: bytearray, origin: AppendOrigin) -> None:
        incoming = Incoming(memoryview(batch), [decode_header(batch)], origin)
        (outcome,) = partition.append_all([incoming], NOW_MS)
        assert outcome.error_code is ErrorCode.NONE

    for producer_id in (7, 8, 9):
        batch = encode_batch(
            [Record(0, NOW_MS, b"k", b"v")] * 2,
            producer_id=producer_id,
            producer_epoch=1,
            base_sequence=0,
            transactional=True,
        )
        append(batch, AppendOrigin.TRANSACTION)
    append(encode_abort_marker(8, 1, 5, NOW_MS), AppendOrigin.COORDINATOR)
    append(encode_abort_marker(7, 2, 5, NOW_MS), AppendOrigin.COORDINATOR)
    storage.note_recovered()  # a coordinator looks first what a power cut has taken
    assert storage.close(now_ms=NOW_MS)
    folder = tmp_path / "data" / "t-0"
    text = dump(java_tool, sorted(folder.glob("*.txnindex")))
    assert re.findall(
        r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text
    ) == [("0", "8", "2", "6", "0"), ("0", "7", "0", "7", "4")]
    (snapshot,) = folder.glob("*.snapshot")
    told = dump(java_tool, [snapshot])
    found = re.findall(r"producerId: (\d+) .* currentTxnFirstOffset: (\S+)", told)
    assert found == [("7", "None"), ("8", "None"), ("9", "4")] or found == [
        ("7", "OptionalLong.empty"),
        ("8", "OptionalLong.empty"),
        ("9", "OptionalLong[4]"),
    ], told


@pytest.fixture
def compacted(semel_server_factory: Callable[..., LocalLog]) -> Path:
    """A partition of a few keys that was compacted while it was written, then kill -9, then recovery."""
    log = semel_server_factory(
        log_segment_bytes=50_000, log_cleanup_policy="compact", log_cleaner_backoff_ms=100
    )
    for codec in ("none", "lz4"):
        producer = Producer(
            {"bootstrap.servers": log.bootstrap, "enable.idempotence": True, "compression.type": codec}
        )
        for row in range(ROWS):
            producer.produce("compacted", b"value %d" % row, b"%d" % (row % KEYS), partition=0)
            if row % 100 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
    folder = log.data_dir / "compacted-0"
    give_up_s = time.monotonic() + 30
    while sum(one.stat().st_size for one in folder.glob("*.log")) > 200_000:
        assert time.monotonic() < give_up_s, "nothing was compacted"
        time.sleep(0.05)
    log.crash()
    log.restart()
    log.stop()
    return folder


def test_a_compacted_log_is_read(java_tool: JavaTool, compacted: Path) -> None:
    segments = sorted(compacted.glob("*.log"))
    text = dump(java_tool, segments, "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in text
    batches = re.findall(r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+)", text, re.MULTILINE)
    assert int(batches[0][0]) == 0 and int(batches[-1][1]) == 2 * ROWS - 1
    assert all(int(last) + 1 == int(base) for (_, last, _), (base, _, _) in pairwise(batches))
    assert {"0"} < {count for *_, count in batches}, "some are empty"
    found = re.findall(r"\| offset: (\d+) .* key: (\d+) payload: value (\d+)$", text, re.MULTILINE)
    newest = {key: (int(offset), int(value)) for offset, key, value in found}
    assert newest == {str(key): (2 * ROWS - KEYS + key, ROWS - KEYS + key) for key in range(KEYS)}
    assert len(found) < ROWS
    sane = dump(java_tool, sorted([*compacted.glob("*.index"), *compacted.glob("*.timeindex")]))
    assert "Mismatches in" not in sane
