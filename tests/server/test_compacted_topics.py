"""Records for a compacted topic must have a key, whatever their codec; those that have are stored as they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.peers.metrics import metrics_of
from tests.server.conftest import ServerProcess
from tests.server.test_compressing import Connection, codes, partition_of
from tests.server.test_plain_produce import NOW_MS, Server

from semel.client.blocking import Cluster
from semel.demo.verdicts import free_address
from semel.errors import ErrorCode
from semel.record.batch import Record, assemble_batch, decode_header, encode_batch
from semel.record.compression import Compression
from semel.server.handlers.offsets import handle_delete_records
from semel.server.storage.aside import at_once
from semel.types import TopicPartition
from semel.wire.produce import ProducePartition, ProduceRequest

INVALID = ErrorCode.INVALID_RECORD.name


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(durable=True)
    for name, more in (("c", {}), ("g", {"compression.type": "gzip"})):
        at_once(running.broker.create_topic(name, 1, {"cleanup.policy": "compact", **more}, NOW_MS))
    yield running
    running.close()


def request(topic: str, batch: bytes | bytearray) -> ProduceRequest:
    partition = ProducePartition(topic, 0, memoryview(bytearray(batch)))
    return ProduceRequest(None, -1, 1000, [partition])


def rows(*keys: bytes | None, codec: Compression = Compression.NONE) -> bytearray:
    return encode_batch([Record(n, NOW_MS, key, b"v") for n, key in enumerate(keys)], compression=codec)


@pytest.mark.parametrize("topic", ["c", "g"])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_a_record_without_a_key_is_refused_with_its_batch(
    server: Server, topic: str, codec: Compression
) -> None:
    line = Connection(server)
    for batch in (rows(b"a", b"", codec=codec), rows(b"a", None, b"b", codec=codec), rows(b"c", codec=codec)):
        line.send(request(topic, batch))
    results = line.finish()
    assert codes(results) == ["NONE", INVALID, "NONE"]
    assert "key" in (results[1][0].error_message or "")
    assert partition_of(server, topic).log_end_offset == 3


def test_what_is_stored_is_what_came(server: Server) -> None:
    batch = rows(b"a", b"b", codec=Compression.LZ4)
    line = Connection(server)
    line.send(request("c", batch))
    line.finish()
    partition = partition_of(server, "c")
    partition.sync()
    stored = partition.read(0, 1 << 20).read()
    assert stored[21:] == batch[21:]
    assert decode_header(stored).partition_leader_epoch == 0


@pytest.mark.parametrize("payload", [b"\x50" * 30, b"", b"\xff" * 40])
def test_records_that_are_none_are_refused(server: Server, payload: bytes) -> None:
    line = Connection(server)
    line.send(request("c", assemble_batch(payload, record_count=2, last_offset_delta=1)))
    assert set(codes(line.finish())) <= {INVALID, ErrorCode.CORRUPT_MESSAGE.name}
    assert partition_of(server, "c").log_end_offset == 0


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("compact", ErrorCode.POLICY_VIOLATION),
        ("compact,delete", ErrorCode.NONE),
        ("delete", ErrorCode.NONE),
    ],
)
def test_of_a_log_that_is_only_compacted_nothing_is_deleted(
    server: Server, policy: str, code: ErrorCode
) -> None:
    at_once(server.storage.alter_topic_config("c", {"cleanup.policy": policy}, now_ms=NOW_MS))
    partition = SimpleNamespace(partition_index=0, offset=0)
    request: Any = SimpleNamespace(topics=[SimpleNamespace(name="c", partitions=[partition])])
    call: Any = None
    answer: Any = at_once(handle_delete_records(server.broker, call, request))
    assert answer["topics"][0]["partitions"][0]["error_code"] == code


@pytest.mark.thorough
def test_the_metrics_and_the_log_tell_of_it(
    start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    """Of two partitions one is compacted; the other one's file has rotted, which is said once, and it is served."""
    address, folder = free_address(), tmp_path / "data"
    settings = {
        "log.cleaner.backoff.ms": 500,
        "log.segment.bytes": 1024,
        "log.cleanup.policy": "compact",
    }
    flags = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    server = start_server(f"--metrics={address}", *flags)
    with Cluster(server.bootstrap) as cluster:
        cluster.create_topics({"t": 2})

        def write() -> None:
            for _ in range(30):
                batch = encode_batch([Record(0, NOW_MS, b"k", b"v" * 100)])
                cluster.produce({TopicPartition("t", n): batch for n in (0, 1)})

        def rot() -> None:
            log = folder / "t-1" / f"{0:020d}.log"
            content = bytearray(log.read_bytes())
            content[30:34] = b"rot!"  # of the first batch's time
            log.write_bytes(content)

        give_up_s = time.monotonic() + 30
        while (now := metrics_of(address))["semel_partitions_uncleanable"] == 0:
            assert time.monotonic() < give_up_s
            rot()  # again, for a pass may have put a new file in its place
            write()
    assert now["semel_cleaner_passes_total"] >= 1
    assert now["semel_cleaner_failures_total"] == 1
    assert now["semel_cleaner_read_bytes_total"] > now["semel_cleaner_written_bytes_total"] > 0
    assert now['semel_partition_online{partition="1",topic="t"}'] == 1
    assert server.log.count("t-1 could not be compacted; it is left alone until a restart") == 1
