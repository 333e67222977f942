"""The two rivals, started the same way: a scratch folder, perhaps a core of its own, and ways to watch them.

Apache Kafka runs with the heap and the JVM options of its own start script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars

from bench.pinning import SERVER_CPU, pin_process
from semel.local import LocalLog

SEMEL, KAFKA = "semel", "Apache Kafka"
PAGE_CACHE = "semel, page cache"  # where its default stands beside it
KAFKA_HEAP_MB = 1024  # what kafka-server-start.sh sets
KAFKA_JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)
_CLIENT_TIMEOUT_S = 60.0
_CPUCLOCK_SCHED = 2


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, process, and how long it took to take connections."""

    name: str
    bootstrap: str
    process_id: int
    ready_after_s: float

    @property
    def resident_mb(self) -> float:
        """What it keeps in memory: its own pages and those of mapped files, but not the page cache."""
        return self._status("VmRSS") / 1024

    @property
    def anonymous_mb(self) -> float:
        """Its own pages only: heap, stacks, compiled code; no jar, library or index file that it has mapped."""
        return self._status("RssAnon") / 1024

    @property
    def resident_peak_mb(self) -> float:
        return self._status("VmHWM") / 1024

    @property
    def cpu_s(self) -> float:
        """Processor time used so far, of all threads, to the microsecond and better."""
        return time.clock_gettime(
            ~self.process_id << 3 | _CPUCLOCK_SCHED
        )  # as clock_getcpuclockid(3) makes it

    def create(self, topic: str, partitions: int) -> None:
        """A topic whose leaders are ready.

        A producer that comes earlier may lose its first batch on Apache Kafka: the leader refuses it, takes the
        second, and calls the first out of order from then on. Java's tries that again without an end.
        """
        admin = self._admin()  # its requests are dropped with it
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_CLIENT_TIMEOUT_S)
        give_up_s = time.monotonic() + _CLIENT_TIMEOUT_S
        while True:
            try:
                self.end_offsets(topic, partitions)  # only a leader answers
                return
            except KafkaException:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.02)

    def delete(self, topic: str) -> None:
        admin = self._admin()
        admin.delete_topics([topic])[topic].result(_CLIENT_TIMEOUT_S)

    def topics(self) -> list[str]:
        """The names of all that there are."""
        return list(self._admin().list_topics(timeout=_CLIENT_TIMEOUT_S).topics)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """The log end offset of each partition, as any consumer is told."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench", "log_level": 4})
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_CLIENT_TIMEOUT_S)[1]
                for number in range(partitions)
            ]
        finally:
            consumer.close()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 4})

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self.process_id}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0])


Start = Callable[..., AbstractContextManager[Server]]


@contextmanager
def semel(
    folder: Path, *, durable: bool, alone: bool = True, name: str = SEMEL, **settings: int
) -> Iterator[Server]:
    """``alone``: on the servers' core; otherwise it shares all cores with its clients."""
    started_s = time.monotonic()
    with LocalLog(folder, durability="fsync" if durable else "page-cache", **settings) as log:
        ready_after_s = time.monotonic() - started_s
        assert log.process_id is not None
        if alone:
            pin_process(log.process_id, SERVER_CPU)
        yield Server(name, log.bootstrap, log.process_id, ready_after_s)


@contextmanager
def kafka(
    folder: Path,
    *,
    durable: bool,
    alone: bool = True,
    name: str = KAFKA,
    heap_mb: int = KAFKA_HEAP_MB,
    **more: str,
) -> Iterator[Server]:
    """One KRaft node; ``durable`` is Kafka's ``log.flush.interval.messages=1``."""
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            raise SystemExit(f"no benchmark without Apache Kafka: {part.why}")
    assert isinstance(java, Path) and isinstance(jars, Path)
    # A deleted topic gives its space back at once: every run has a topic of its own.
    settings = {"log.segment.delete.delay.ms": "0", **more}
    if durable:
        settings["log.flush.interval.messages"] = "1"
    node = ApacheKafka(
        java,
        jars,
        folder,
        heap_mb=heap_mb,
        jvm_options=KAFKA_JVM_OPTIONS,
        settings=settings,
        cpu=SERVER_CPU if alone else None,
    )
    with node:
        yield Server(name, node.bootstrap, node.process_id, node.ready_after_s)
