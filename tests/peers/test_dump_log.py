"""Kafka's DumpLogSegments reads the files that the server leaves: segments, indexes, producer snapshots.

The server is killed first, so these are the files as a crash leaves them, and again after its recovery.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.peers.apache_kafka import JavaTool

from semel.local import LocalLog

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DUMP_LOG = "kafka.tools.DumpLogSegments"
ROWS = 30_000


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
