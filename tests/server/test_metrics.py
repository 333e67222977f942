"""What ``/metrics`` says of the producers that a server remembers, and of their memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.peers.metrics import metrics_of
from tests.peers.same_as_kafka.transacting import Transactions
from tests.peers.same_as_kafka.wire import Wire

from semel.client.blocking import Cluster
from semel.core.producer_state.slot_index import PLACE_BYTES
from semel.demo.verdicts import free_address
from semel.errors import ErrorCode
from semel.record.batch import Record, encode_batch
from semel.types import Lease, ProducerGrant, TopicPartition

TPS = [TopicPartition("t", 0), TopicPartition("t", 1)]
PRODUCERS_MAX = 5


class Metered:
    """A server that remembers few producers, for leases of a second."""

    def __init__(self, start_server: Callable[..., Any]) -> None:
        self.address = free_address()
        server = start_server(
            f"--metrics={self.address}",
            "-X",
            f"max.producers={PRODUCERS_MAX}",
            "-X",
            "producer.lease.ms=1000",
        )
        self.cluster = Cluster(server.bootstrap)
        self.cluster.create_topics({"t": 2})

    def send(self, grant: ProducerGrant, tp: TopicPartition) -> ErrorCode:
        batch = encode_batch(
            [Record(0, time.time_ns() // 1_000_000, None, b"row")],
            producer_id=grant.producer_id,
            producer_epoch=grant.producer_epoch,
            base_sequence=0,
        )
        return self.cluster.produce({tp: batch})[tp].error_code

    def rooms(self) -> tuple[float, float, float]:
        """Known, kept for leases, free."""
        now = metrics_of(self.address)
        known = now["semel_known_producers"]
        assert now['semel_slab_rows{state="used"}'] == known
        assert now['semel_slab_bytes{state="used"}'] == known * PLACE_BYTES
        assert now['semel_slab_bytes{state="free"}'] // PLACE_BYTES == now['semel_slab_rows{state="free"}']
        return known, now["semel_producers_reserved"], now["semel_producers_free"]


@pytest.fixture
def metered(start_server: Callable[..., Any]) -> Iterator[Metered]:
    metered = Metered(start_server)
    with metered.cluster:
        yield metered


def test_producers_that_are_known_are_those_that_are_remembered(metered: Metered) -> None:
    assert metered.rooms() == (0, 0, PRODUCERS_MAX)
    stock = metered.cluster.init_producer_id()
    assert metered.send(stock, TPS[0]) is ErrorCode.NONE
    assert metered.rooms() == (1, 0, PRODUCERS_MAX - 1)
    assert metered.send(stock, TPS[0]) is ErrorCode.NONE, "a duplicate"
    assert metered.rooms() == (1, 0, PRODUCERS_MAX - 1)
    assert metered.send(stock, TPS[1]) is ErrorCode.NONE
    assert metered.rooms() == (2, 0, PRODUCERS_MAX - 2)
    metered.cluster.delete_topics(["t"])
    assert metered.rooms() == (0, 0, PRODUCERS_MAX)


@pytest.mark.thorough
def test_leases_that_are_over_are_soon_not_remembered(metered: Metered) -> None:
    lease = metered.cluster.lease_producer_id(TPS)
    assert isinstance(lease, Lease)
    sent = metered.send(lease.grant, TPS[0])
    rooms = metered.rooms()
    if sent is ErrorCode.NONE and metered.send(lease.grant, TPS[1]) is ErrorCode.NONE:
        assert rooms == (1, 1, PRODUCERS_MAX - 2)  # else a busy machine was too slow for the lease
    until_s = time.monotonic() + 30
    while metered.rooms() != (0, 0, PRODUCERS_MAX):
        assert time.monotonic() < until_s, "long before the next upkeep"
        time.sleep(0.05)


def test_transactions_by_state_and_how_far_they_let_readers_go(start_server: Callable[..., Any]) -> None:
    address = free_address()
    server = start_server(f"--metrics={address}")

    def seen() -> tuple[dict[str, float], float, list[float]]:
        now = metrics_of(address)
        prefix = 'semel_transactional_ids{state="'
        by_state = {
            name.removeprefix(prefix).removesuffix('"}'): count
            for name, count in now.items()
            if name.startswith(prefix)
        }
        offsets = ("kafka_topic_partition_current_offset", "semel_partition_last_stable_offset")
        ends = [now[f'{name}{{partition="0",topic="{topic}"}}'] for name in offsets]
        return (
            {state: count for state, count in by_state.items() if count},
            now["semel_transactions_open"],
            ends,
        )

    with Wire(server.bootstrap, "metrics-") as wire:
        room = Transactions(wire)  # which has asked for a name once
        topic = wire.new_topic()
        assert seen() == ({"Empty": 1}, 0, [0, 0])
        first, second = room.producer(), room.producer()
        first.write(topic, b"a", b"b")
        second.write(topic)
        give_up_s = time.monotonic() + 20
        while seen()[2] != [3, 0] and time.monotonic() < give_up_s:  # they count once they are durable
            time.sleep(0.02)
        assert seen() == ({"Empty": 1, "Ongoing": 2}, 2, [3, 0])
        first.end(commit=True)
        assert seen() == ({"Empty": 1, "Ongoing": 1, "CompleteCommit": 1}, 1, [4, 2])
        second.end(commit=False)
        assert seen() == ({"Empty": 1, "CompleteCommit": 1, "CompleteAbort": 1}, 0, [5, 5])


def asked(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection(address, timeout=10)
    connection.request(method, path)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.thorough
def test_health_is_that_every_partition_is_served(start_server: Callable[..., Any], tmp_path: Path) -> None:
    address = free_address()
    server = start_server(f"--metrics={address}")
    with Cluster(server.bootstrap) as cluster:
        cluster.create_topics({"t": 2})
        for tp in TPS:
            assert not cluster.produce({tp: encode_batch([Record(0, 0, None, b"row")])})[tp].error_code
    assert asked(address, "/healthz") == (200, "ok\n")
    assert asked(address, "/healthz?verbose", "HEAD") == (200, "")
    assert asked(address, "/health")[0] == 404
    server.kill()
    (log,) = (tmp_path / "data").rglob("t-1/*.log")
    damaged = bytearray(log.read_bytes())
    damaged[16] ^= 1  # the batch's version: what was acknowledged is not there any more
    log.write_bytes(damaged)
    server = start_server(f"--metrics={address}")
    assert asked(address, "/healthz") == (503, "offline: t-1\n")
    assert asked(address, "/metrics")[0] == 200
