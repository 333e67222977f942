"""Apache Kafka by both protocols of transactions, behind a cable, and what its readers see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.peers.apache_kafka import ApacheKafka, JavaTool
from tests.peers.cable import Cable

import semel
from semel.client.cluster import Isolation
from semel.local import LocalLog
from semel.types import LATEST_TIMESTAMP, TopicPartition

# By the level of transaction.version: EndTxn's key and version begin its request.
END_TXN: Final = {1: b"\x00\x1a\x00\x04", 2: b"\x00\x1a\x00\x05"}
TXN_OFFSET_COMMIT: Final = {1: b"\x00\x1c\x00\x04", 2: b"\x00\x1c\x00\x05"}

DESCRIBE_TRANSACTIONS: Final = b"\x00\x41\x00\x00"


@dataclass(frozen=True, slots=True)
class TransactionalKafka:
    """A node, or semel; all that its clients send comes by ``cable``."""

    cable: Cable
    level: int

    @property
    def bootstrap(self) -> str:
        return self.cable.address


@contextmanager
def transactional_kafka(tool: JavaTool, folder: Path, level: int) -> Iterator[TransactionalKafka]:
    """A node of its own, which looks every half a second for transactions that take too long."""
    cable = Cable()
    settings = {
        "advertised.listeners": f"PLAINTEXT://{cable.address}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.min.session.timeout.ms": "1000",
    }
    features = {} if level == 2 else {"transaction.version": level}
    try:
        with ApacheKafka(tool.java, tool.jars, folder, settings=settings, features=features) as node:
            cable.target = f"127.0.0.1:{node.bootstrap.rpartition(':')[2]}"
            yield TransactionalKafka(cable, level)
    finally:
        cable.close()


@contextmanager
def transactional_semel(folder: Path) -> Iterator[TransactionalKafka]:
    cable = Cable()
    try:
        with LocalLog(folder, advertised=cable.address, group_min_session_timeout_ms=1_000) as log:
            cable.target = log.bootstrap
            yield TransactionalKafka(cable, 2)
    finally:
        cable.close()


def values(
    bootstrap: str, topic: str, isolation: Isolation = "read_committed", *, is_open: bool = False
) -> list[Any]:
    """All that a reader sees, by partition and offset; it comes to the end that it is told of.

    Without ``is_open``, once nothing holds it back: the markers of a transaction are written after it counts.
    """
    seen = []
    with semel.Consumer(bootstrap, isolation=isolation) as consumer, semel.Admin(bootstrap) as admin:
        tps = [TopicPartition(topic, number) for number in admin.describe_topic(topic).partitions]
        consumer.assign(tps)
        listed = admin.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
        last = {tp: at.offset for tp, at in listed.items()}
        give_up_s = time.monotonic() + 30
        while not is_open and any(end < last[tp] for tp, end in consumer.end_offsets().items()):
            assert time.monotonic() < give_up_s, (consumer.end_offsets(), last)
            time.sleep(0.05)
        ends = consumer.end_offsets()
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            seen += consumer.poll(0.2)
    return [record.value for record in sorted(seen, key=lambda record: (record.partition, record.offset))]
