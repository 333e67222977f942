"""What clients read of a log that was compacted while it was written: librdkafka and semel's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Theirs

import semel
from semel.local import LocalLog
from semel.types import TopicPartition

KEYS, ROWS = 50, 5_000
TIMEOUT_S = 30.0


def size_of(log: LocalLog) -> int:
    return sum(one.stat().st_size for one in Path(log.data_dir / "compacted-0").glob("*.log"))


@pytest.fixture(params=["none", "lz4"])
def log(request: pytest.FixtureRequest, semel_server_factory: Callable[..., LocalLog]) -> LocalLog:
    """Rows of few keys, written idempotently."""
    log = semel_server_factory(
        log_segment_bytes=20_000, log_cleanup_policy="compact", log_cleaner_backoff_ms=50
    )
    producer = Producer(
        {
            "bootstrap.servers": log.bootstrap,
            "enable.idempotence": True,
            "compression.type": request.param,
            "batch.num.messages": 20,
        }
    )
    for row in range(ROWS):
        producer.produce("compacted", b"value %d" % row, b"%d" % (row % KEYS), partition=0)
        if row % 200 == 0:
            producer.flush(TIMEOUT_S)
    assert producer.flush(TIMEOUT_S) == 0
    give_up_s = time.monotonic() + TIMEOUT_S
    while size_of(log) > 40_000 and time.monotonic() < give_up_s:
        time.sleep(0.05)
    assert size_of(log) <= 40_000
    return log


def assert_newest(found: dict[bytes | None, bytes | None], rows: int) -> None:
    assert found == {b"%d" % (row % KEYS): b"value %d" % row for row in range(ROWS - KEYS, ROWS)}
    assert rows < ROWS / 2


@pytest.mark.thorough
def test_clients_read_to_the_end(log: LocalLog) -> None:
    for read in (with_librdkafka, with_semel):
        assert_newest(*read(log))
    assert_newest(*with_librdkafka(log, fetch_bytes=100))
    log.crash()
    log.restart()
    for read in (with_librdkafka, with_semel):
        assert_newest(*read(log))


def with_librdkafka(
    log: LocalLog, fetch_bytes: int = 1_000_000
) -> tuple[dict[bytes | None, bytes | None], int]:
    consumer = Consumer(
        {
            "bootstrap.servers": log.bootstrap,
            "group.id": "readers",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.message.max.bytes": fetch_bytes,
        }
    )
    found: dict[bytes | None, bytes | None] = {}
    rows = 0
    try:
        consumer.assign([Theirs("compacted", 0, 0)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            error = message.error()
            if error is None:
                rows += 1
                found[message.key()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                break
            else:
                raise KafkaException(error)
        assert consumer.position([Theirs("compacted", 0)])[0].offset == ROWS
    finally:
        consumer.close()
    return found, rows


def with_semel(log: LocalLog) -> tuple[dict[bytes | None, bytes | None], int]:
    found: dict[bytes | None, bytes | None] = {}
    rows = 0
    tp = TopicPartition("compacted", 0)
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign({tp: 0})
        while consumer.position(tp) < ROWS:
            for record in consumer.poll(TIMEOUT_S):
                rows += 1
                found[record.key] = record.value
    return found, rows
