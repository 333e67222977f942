"""The two rivals, started the same way: a scratch folder, core 0, and a way to ask for their memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars

from semel.local import LocalLog

SERVER_CPU = 0
LOAD_CPU = 1
KAFKA_HEAP_MB = 1024


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, process, and how long it took to take connections."""

    name: str
    bootstrap: str
    process_id: int
    ready_after_s: float

    @property
    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process_id}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def semel(folder: Path, *, durable: bool) -> Iterator[Server]:
    started_s = time.monotonic()
    with LocalLog(folder, durability="fsync" if durable else "page-cache") as log:
        ready_after_s = time.monotonic() - started_s
        assert log.process_id is not None
        for task in Path(f"/proc/{log.process_id}/task").iterdir():
            os.sched_setaffinity(int(task.name), {SERVER_CPU})
        yield Server("semel", log.bootstrap, log.process_id, ready_after_s)


@contextmanager
def kafka(folder: Path, *, durable: bool) -> Iterator[Server]:
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            raise SystemExit(f"no benchmark without Apache Kafka: {part.why}")
    assert isinstance(java, Path) and isinstance(jars, Path)
    settings = {"log.flush.interval.messages": "1"} if durable else {}
    node = ApacheKafka(
        java, jars, folder, heap_mb=KAFKA_HEAP_MB, jvm_options=(), settings=settings, cpu=SERVER_CPU
    )
    with node:
        yield Server("Apache Kafka", node.bootstrap, node.process_id, node.ready_after_s)
