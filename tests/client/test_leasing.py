"""A producer that writes under leases, against a server whose leases are short: it moves over while it sends."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import semel
import semel.aio
from semel.client.blocking import Cluster
from semel.errors import BrokerError, ConfigError, ErrorCode, NotStored
from semel.record.batch import decode_records, scan_batches
from semel.types import LATEST_TIMESTAMP, TopicPartition, is_leased

PARTITIONS = 2
LEASES_MIN = 6


@pytest.fixture
def start(semel_server_factory: Callable[..., semel.LocalLog]) -> Callable[[int], semel.LocalLog]:
    """A server whose leases live for so many milliseconds."""

    def start(lease_ms: int) -> semel.LocalLog:
        log = semel_server_factory(**{"producer.lease.ms": lease_ms})
        with Cluster(log.bootstrap) as cluster:
            cluster.create_topics({"t": PARTITIONS})
        return log

    return start


def stored(bootstrap: str) -> dict[int, list[tuple[int, bytes]]]:
    """Each partition's rows in order, with the producer id of each, read from the batches themselves."""
    rows: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    with Cluster(bootstrap) as cluster:
        for number in range(PARTITIONS):
            tp = TopicPartition("t", number)
            end = cluster.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset
            offset = 0
            while offset < end:
                fetched = cluster.fetch({tp: offset})[tp]
                for batch, header in scan_batches(fetched.records, allow_partial_tail=True):
                    offset = header.last_offset + 1
                    if not header.is_control:
                        rows[number] += [
                            (header.producer_id, row.value or b"") for row in decode_records(batch)
                        ]
    return rows


def assert_once_in_order(rows: dict[int, list[tuple[int, bytes]]], sent: int) -> None:
    for number in range(PARTITIONS):
        values = [value for _, value in rows[number]]
        assert values == [b"%d" % row for row in range(number, sent, PARTITIONS)]


def ids_of(rows: dict[int, list[tuple[int, bytes]]], number: int) -> list[int]:
    """The ids under which the partition was written, each as often as it came anew."""
    ids = [producer_id for producer_id, _ in rows[number]]
    return [after for before, after in zip([None, *ids], ids, strict=False) if before != after]


def test_a_lease_for_more_than_the_server_can_ever_remember_is_refused_for_good(
    semel_server_factory: Callable[..., semel.LocalLog],
) -> None:
    log = semel_server_factory(**{"max.producers": 1})
    with Cluster(log.bootstrap) as cluster:
        cluster.create_topics({"t": PARTITIONS})
        with pytest.raises(BrokerError, match=r"max\.producers"):
            cluster.lease_producer_id([TopicPartition("t", number) for number in range(PARTITIONS)])

    async def both_are_refused() -> None:
        async with semel.aio.Producer(log.bootstrap, lease=True) as producer:
            # On one loop, so that the producer does not ask for a lease before it has both rows.
            told = [await producer.send("t", b"row", partition=number) for number in range(PARTITIONS)]
            for delivery in told:
                with pytest.raises(NotStored, match=r"max\.producers") as refused:
                    await delivery
                assert refused.value.code is ErrorCode.INVALID_REQUEST

    asyncio.run(both_are_refused())
    assert not stored(log.bootstrap)


def test_a_producer_moves_from_lease_to_lease_while_it_sends(start: Callable[[int], Any]) -> None:
    log = start(400)
    with semel.Producer(log.bootstrap, lease=True, linger_ms=0, batch_bytes=200) as producer:
        ids: set[int] = set()
        sent = 0
        while len(ids) < LEASES_MIN:
            deliveries = [
                producer.send("t", b"%d" % (sent + row), partition=row % PARTITIONS) for row in range(50)
            ]
            sent += 50
            if sent % 500 == 0:
                ids |= {delivery.result().producer_id for delivery in deliveries}
    assert all(map(is_leased, ids))
    rows = stored(log.bootstrap)
    assert_once_in_order(rows, sent)
    for number in range(PARTITIONS):
        moves = ids_of(rows, number)
        assert len(moves) >= LEASES_MIN - 1
        assert moves == sorted(set(moves)), "a partition went back to an older lease"


def test_rows_are_stored_once_in_order_though_the_server_is_killed_again_and_again(
    start: Callable[[int], Any],
) -> None:
    log = start(500)
    sent = 0
    with semel.Producer(log.bootstrap, lease=True, linger_ms=0, batch_bytes=200) as producer:
        ids: set[int] = set()
        while len(ids) < 3:
            for _ in range(400):
                producer.send("t", b"%d" % sent, partition=sent % PARTITIONS)
                sent += 1
            log.crash()
            for _ in range(100):
                producer.send("t", b"%d" % sent, partition=sent % PARTITIONS)
                sent += 1
            log.restart()
            report = producer.send("t", b"%d" % sent, partition=sent % PARTITIONS).result(60)
            ids.add(report.producer_id)
            sent += 1
    assert_once_in_order(stored(log.bootstrap), sent)


def test_lost_answers_across_many_leases_double_nothing(cable_to: Callable[..., Any]) -> None:
    cable = cable_to(**{"producer.lease.ms": 300})
    with Cluster(cable.address) as cluster:
        cluster.create_topics({"t": PARTITIONS})
    sent = 0
    with semel.Producer(cable.address, lease=True, linger_ms=0, batch_bytes=200) as producer:
        for _ in range(20):
            cable.swallow_answers(2)
            deliveries = [
                producer.send("t", b"%d" % (sent + row), partition=row % PARTITIONS) for row in range(40)
            ]
            sent += 40
            deliveries[-1].result(60)
    assert cable.answers_swallowed > 20
    assert_once_in_order(stored(cable.address), sent)


def test_over_asyncio_too(start: Callable[[int], Any]) -> None:
    log = start(300)

    async def send() -> int:
        sent, ids = 0, set()
        async with semel.aio.Producer(log.bootstrap, lease=True, linger_ms=0) as producer:
            while len(ids) < LEASES_MIN:
                for _ in range(PARTITIONS):
                    delivery = await producer.send("t", b"%d" % sent, partition=sent % PARTITIONS)
                    sent += 1
                ids.add((await delivery).producer_id)
        return sent

    sent = asyncio.run(send())
    assert_once_in_order(stored(log.bootstrap), sent)


def test_an_identity_that_is_kept_is_not_leased() -> None:
    with pytest.raises(ConfigError, match="identity"):
        semel.Producer("127.0.0.1:1", lease=True, identity="me", identity_store="file")


def test_brokers_that_know_no_leases_are_an_error_that_says_so(
    start: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Kafka, which skips the tag that it does not know; driven with the real one in tests/peers."""
    monkeypatch.setattr("semel.wire.init_producer_id.LEASE_TAG", 9_999)
    log = start(1_000)
    producer = semel.Producer(log.bootstrap, lease=True)
    with pytest.raises(NotStored, match=r"know of no leases.*leave lease=True out"):
        producer.send("t", b"0", partition=0).result(30)
    producer.close()
    assert not stored(log.bootstrap)
