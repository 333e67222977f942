"""The log cleaner: how fast it makes a log small, and what it takes for that."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass

from bench.group_load import Peer
from bench.pinning import LOAD_CPUS, pinned
from bench.results import Row, Section
from bench.sections import Bench
from bench.servers import KAFKA, SEMEL, Server, kafka, semel
from bench.worker import worker
from semel import Admin
from semel.wire.api import ApiKey

SEGMENT_BYTES = 32 << 20
LOOK_S = 0.05
QUIET_S = 3.0  # so long after the last change, the pass is over
TIMEOUT_S = 300.0
ROWS = 2_000_000  # of half a million keys
SPEED, MEMORY = "compaction, 100 B values", "resident, at most"


@dataclass(frozen=True, slots=True)
class Pass:
    """One log made small: what it read, and the processor time from the first look to the last change."""

    read_mb: float
    cpu_s: float
    resident_peak_mb: float


def compaction(bench: Bench) -> Section:
    """One pass over a log in which each key stands several times."""
    passes: dict[str, list[Pass]] = {KAFKA: [], SEMEL: []}
    for number in range(bench.plan.rounds):
        with ExitStack() as stack:
            folder = bench.folder / str(number)
            servers = [
                stack.enter_context(
                    kafka(folder / "kafka", durable=False, **{"log.cleaner.backoff.ms": "100"})
                ),
                stack.enter_context(semel(folder / "semel", durable=True, log_cleaner_backoff_ms=100)),
            ]
            for server in servers if number % 2 == 0 else reversed(servers):
                found = _clean(bench, server)
                passes[server.name].append(found)
                bench.tell(
                    f"{server.name}: {found.read_mb / found.cpu_s:.0f} MB/s, {found.resident_peak_mb:.0f} MB"
                )
    speed = {name: [each.read_mb / each.cpu_s for each in some] for name, some in passes.items()}
    memory = {name: [each.resident_peak_mb for each in some] for name, some in passes.items()}
    return Section(
        "Compaction",
        f"One partition of {ROWS:,} rows of 8 B keys and 100 B values in batches of the client's, "
        f"in segments of {SEGMENT_BYTES >> 20} MiB, each key some four times; what a second of the server's processor "
        "time reads, from when compaction is asked for until the log gets no smaller. Memory is that of the whole "
        "server, by the end.",
        (Row(SPEED, "MB/s of one core", speed), Row(MEMORY, "MB", memory, less_is_better=True)),
        KAFKA,
        (SEMEL,),
    )


def _clean(bench: Bench, server: Server) -> Pass:
    topic = "compacted"
    with Admin(server.bootstrap) as admin:
        config = {
            "segment.bytes": str(SEGMENT_BYTES),
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "1.0",
        }
        admin.create_topic(topic, 1, configs=config)
        command = [*pinned(LOAD_CPUS[0]), sys.executable, "-m", "bench.send_table", server.bootstrap]
        with worker("writer", command, bench.folder / f"{server.name}.log") as writer:
            writer.ask(TIMEOUT_S, topic=topic, rows=ROWS, keyed=True)
        before_mb = _size_mb(server, topic)
        cpu_s = server.cpu_s
        admin.alter_configs(topic, {"min.cleanable.dirty.ratio": "0.01"})
        changed_s, changed_cpu_s, size_mb = time.monotonic(), cpu_s, before_mb
        give_up_s = changed_s + TIMEOUT_S
        while size_mb == before_mb or time.monotonic() < changed_s + QUIET_S:
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"{server.name} does not compact")
            time.sleep(LOOK_S)
            found_mb = _size_mb(server, topic)
            if found_mb != size_mb:
                changed_s, changed_cpu_s, size_mb = time.monotonic(), server.cpu_s, found_mb
    return Pass(before_mb, changed_cpu_s - cpu_s, server.resident_peak_mb)


def _size_mb(server: Server, topic: str) -> float:
    peer = Peer(server.bootstrap)
    try:
        peer.ask(ApiKey.DESCRIBE_LOG_DIRS, topics=[{"topic": topic, "partitions": [0]}])
        while (body := peer.take()) is None:
            pass
        (folder,) = peer.decoded(body).results
        return float(folder.topics[0].partitions[0].partition_size) / 1e6
    finally:
        peer.sock.close()
