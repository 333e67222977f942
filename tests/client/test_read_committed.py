"""Readers of committed rows on Apache Kafka, where several producers' transactions lie one in the other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.transactional import TransactionalKafka, transactional_kafka, values
from tests.peers.apache_kafka import JavaTool

import semel
from semel.types import LATEST_TIMESTAMP, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def kafka(java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransactionalKafka]:
    with transactional_kafka(java_tool, tmp_path_factory.mktemp("kafka"), 2) as running:
        yield running


@pytest.fixture
def topic(kafka: TransactionalKafka) -> str:
    name = f"rows-{next(_numbers)}"
    with semel.Admin(kafka.bootstrap) as admin:
        admin.create_topic(name, 2)
    return name


def interleaved(kafka: TransactionalKafka, topic: str, codec: str, seed: int) -> dict[int, list[bytes]]:
    """Rows of three transactional producers and a plain one, mixed; answers those that count, by partition."""
    draw = random.Random(seed)
    settings: dict[str, Any] = {"compression": codec, "linger_ms": 0}
    producers = [
        semel.Producer(kafka.bootstrap, transactional_id=f"{topic}-{number}", **settings)
        for number in range(3)
    ]
    plain = semel.Producer(kafka.bootstrap, **settings)
    stored: dict[bytes, tuple[int, int | None]] = {}
    counts: set[bytes] = set()
    open_rows: dict[int, list[bytes]] = {}
    transactions: dict[int, Any] = {}
    for step in range(120):
        who = draw.randrange(4)
        row = b"%d of %d " % (step, who) * draw.choice((1, 20))
        partition = draw.randrange(2)
        if who == 3:
            report = plain.send(topic, row, partition=partition).result(30)
            counts.add(row)
        else:
            if who not in transactions:
                transactions[who] = producers[who].transaction()
                transactions[who].__enter__()
                open_rows[who] = []
            report = producers[who].send(topic, row, partition=partition).result(30)
            open_rows[who].append(row)
            if draw.random() < 0.3:
                is_commit = draw.random() < 0.5
                error = None if is_commit else KeyError()
                transactions.pop(who).__exit__(None if is_commit else KeyError, error, None)
                counts.update(open_rows.pop(who) if is_commit else ())
        stored[row] = (report.partition, report.offset)
    for producer in [*producers, plain]:
        producer.close()
    rows: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}
    for row in counts:
        partition, offset = stored[row]
        assert offset is not None
        rows[partition].append((offset, row))
    return {partition: [row for _, row in sorted(found)] for partition, found in rows.items()}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_that_count_are_seen_in_order_whatever_lies_between(
    kafka: TransactionalKafka, topic: str, codec: str
) -> None:
    expected = interleaved(kafka, topic, codec, seed=len(codec))
    assert values(kafka.bootstrap, topic) == expected[0] + expected[1]
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    # A few bytes, and a few rows, at a time: answers begin in the middle of transactions.
    with semel.Consumer(kafka.bootstrap, partition_max_bytes=200, max_poll_records=2) as consumer:
        consumer.assign(tps)
        ends = consumer.end_offsets()
        seen: dict[int, list[bytes | None]] = {0: [], 1: []}
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            for row in consumer.poll(0.2):
                seen[row.partition].append(row.value)
        assert seen == expected
        assert {tp: consumer.position(tp) for tp in tps} == ends  # past the markers
    with semel.Consumer(kafka.bootstrap, partition_max_bytes=500) as consumer:
        consumer.assign(tps)
        read: dict[int, list[bytes | None]] = {0: [], 1: []}
        while any(consumer.position(tp) < ends[tp] for tp in tps):
            table = consumer.fetch_table(0.2)
            for partition, value in zip(
                table["partition"].to_pylist(), table["value"].to_pylist(), strict=True
            ):
                read[partition].append(value)
        assert read == expected


def test_a_group_that_has_read_everything_has_no_lag_behind_markers(
    kafka: TransactionalKafka, topic: str
) -> None:
    interleaved(kafka, topic, "none", seed=7)
    values(kafka.bootstrap, topic)  # once the markers are written
    group = f"group-{topic}"
    with semel.Consumer(kafka.bootstrap, group_id=group) as consumer:
        consumer.subscribe(topic)
        ends = consumer.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        while consumer.assignment() == [] or any(consumer.position(tp) < ends[tp] for tp in ends):
            consumer.poll(0.2)
        consumer.commit()
    with semel.Admin(kafka.bootstrap) as admin:
        assert [item.lag for item in admin.group_lag(group)] == [0, 0]


def test_at_the_last_stable_offset_a_reader_waits_and_does_not_spin(
    kafka: TransactionalKafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = TopicPartition(topic, 0)
    with (
        semel.Producer(kafka.bootstrap, transactional_id=topic) as producer,
        semel.Producer(kafka.bootstrap) as plain,
        semel.Consumer(kafka.bootstrap) as consumer,
        semel.Admin(kafka.bootstrap) as admin,
    ):
        transaction = producer.transaction()
        transaction.__enter__()
        plain.send(topic, b"before", partition=0).result(30)
        producer.send(topic, b"open", partition=0).result(30)
        for _ in range(10):
            plain.send(topic, b"behind", partition=0).result(30)
        consumer.assign([tp])
        assert [row.value for row in consumer.poll(10.0)] == [b"before"]
        fetches = 0
        fetch = consumer.inner.cluster.fetch

        async def counted(*arguments: Any, **choices: Any) -> Any:
            nonlocal fetches
            fetches += 1
            return await fetch(*arguments, **choices)

        monkeypatch.setattr(consumer.inner.cluster, "fetch", counted)
        assert consumer.poll(2.0) == []
        assert fetches <= 8  # half a second each, at the broker
        assert (consumer.position(tp), consumer.end_offsets()[tp]) == (1, 1)
        assert admin.list_offsets({tp: LATEST_TIMESTAMP}, "read_uncommitted")[tp].offset == 12
        transaction.__exit__(KeyError, KeyError(), None)
        seen: list[Any] = []
        while len(seen) < 10:
            seen += consumer.poll(10.0)
        assert {row.value for row in seen} == {b"behind"}
