"""Leases by the wire: asked for, written under, over; with the low-level client and a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from semel.client.blocking import Cluster
from semel.client.model import Produced
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import Record, encode_batch
from semel.types import Lease, ProducerGrant, TopicPartition, is_leased

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
LEASE_MS = 400


@pytest.fixture
def short_leases(start_server: Callable[..., Any]) -> Callable[[], Any]:
    return lambda *more: start_server("-X", f"producer.lease.ms={LEASE_MS}", *more)


@pytest.fixture
def cluster(short_leases: Callable[[], Any]) -> Iterator[Cluster]:
    with Cluster(short_leases().bootstrap) as cluster:
        cluster.create_topics({"t": 2})
        yield cluster


def lease_of(cluster: Cluster, *asked: Any) -> Lease:
    lease = cluster.lease_producer_id([TP, OTHER], *asked)
    assert isinstance(lease, Lease)
    return lease


def send(cluster: Cluster, grant: ProducerGrant, base_sequence: int, tp: TopicPartition = TP) -> Produced:
    batch = encode_batch(
        [Record(0, time.time_ns() // 1_000_000, None, b"row")],
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=base_sequence,
    )
    return cluster.produce({tp: batch})[tp]


def until_over(cluster: Cluster, lease: Lease) -> None:
    """The server says when: every lease at least its length, and not for ever."""
    asked_at_s = time.monotonic()
    while True:
        try:
            again = cluster.lease_producer_id([], lease.producer_id, -1)
        except BrokerError as error:
            if error.code is ErrorCode.UNKNOWN_PRODUCER_ID:
                return
            assert error.code is ErrorCode.PRODUCER_FENCED
        else:
            raise AssertionError(again)
        assert time.monotonic() - asked_at_s < 30
        time.sleep(0.02)


def test_a_lease_is_granted_written_under_and_over(cluster: Cluster) -> None:
    lease = lease_of(cluster)
    assert is_leased(lease.producer_id)
    assert (lease.length_ms, lease.remaining_ms) == (LEASE_MS, LEASE_MS)
    assert lease.first_sequences == {TP: 0, OTHER: 0}
    assert send(cluster, lease.grant, 0).base_offset == 0
