"""Leases by the wire: asked for, written under, over; with the low-level client and a real server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from semel.client.blocking import Cluster
from semel.client.model import Produced
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import Record, encode_batch
from semel.types import Lease, ProducerGrant, TopicPartition, is_leased

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
SHORT_MS = 300
DAY_MS = 86_400_000


@pytest.fixture
def cluster(server: Any) -> Iterator[Cluster]:
    """Of a server whose leases live for a day."""
    with Cluster(server.bootstrap) as cluster:
        cluster.create_topics({"t": 2})
        yield cluster


@pytest.fixture
def start_short(start_server: Callable[..., Any]) -> Callable[[], Any]:
    """A server whose leases may be over by the time that a busy machine comes to use them."""
    return lambda: start_server("-X", f"producer.lease.ms={SHORT_MS}")


@pytest.fixture
def fleeting(start_short: Callable[[], Any]) -> Iterator[Cluster]:
    with Cluster(start_short().bootstrap) as cluster:
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


def test_a_lease_is_granted_written_under_and_resumed(cluster: Cluster) -> None:
    lease = lease_of(cluster)
    assert is_leased(lease.producer_id)
    assert (lease.length_ms, lease.remaining_ms) == (DAY_MS, DAY_MS)
    assert lease.first_sequences == {TP: 0, OTHER: 0}
    assert send(cluster, lease.grant, 0).base_offset == 0
    assert send(cluster, lease.grant, 0).base_offset == 0, "a duplicate, with its offset"
    resumed = lease_of(cluster, lease.producer_id, lease.producer_epoch)
    assert resumed.grant == ProducerGrant(lease.producer_id, lease.producer_epoch + 1)
    assert 0 < resumed.remaining_ms <= DAY_MS
    assert send(cluster, resumed.grant, 0).base_offset == 1
    with pytest.raises(BrokerError) as twin:
        lease_of(cluster, lease.producer_id, lease.producer_epoch)
    assert twin.value.code is ErrorCode.PRODUCER_FENCED


def test_a_lease_ends_at_any_sequence_and_everywhere(fleeting: Cluster) -> None:
    lease = lease_of(fleeting)
    send(fleeting, lease.grant, 0)
    until_over(fleeting, lease)
    late = send(fleeting, lease.grant, 0)
    assert late.error_code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert f"the lease of producer id {lease.producer_id} is over" in (late.error_message or "")
    assert send(fleeting, lease.grant, 1).error_code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert send(fleeting, lease.grant, 0, OTHER).error_code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert lease_of(fleeting).producer_id > lease.producer_id


def test_what_is_over_is_over_for_the_next_process(start_short: Callable[[], Any]) -> None:
    first = start_short()
    with Cluster(first.bootstrap) as cluster:
        cluster.create_topics({"t": 2})
        over = lease_of(cluster)
        send(cluster, over.grant, 0)
        until_over(cluster, over)
    first.kill()
    with Cluster(start_short().bootstrap) as cluster:
        assert send(cluster, over.grant, 0).error_code is ErrorCode.UNKNOWN_PRODUCER_ID


def test_stock_clients_see_nothing_of_it(fleeting: Cluster) -> None:
    grant = fleeting.init_producer_id()
    assert not is_leased(grant.producer_id)
    assert send(fleeting, grant, 0).base_offset == 0
    until_over(fleeting, lease_of(fleeting))
    assert send(fleeting, grant, 1).base_offset == 1


@pytest.mark.thorough
def test_another_length_is_refused_while_leases_live(
    start_server: Callable[..., Any], tmp_path: Path
) -> None:
    first = start_server("-X", "producer.lease.ms=3600000")
    with Cluster(first.bootstrap) as cluster:
        lease_of(cluster)
    assert first.stop() == 0
    command = [
        sys.executable,
        "-m",
        "semel.server",
        "--listen=127.0.0.1:0",
        f"--data-dir={tmp_path / 'data'}",
    ]
    other = subprocess.run(
        [*command, "-X", "producer.lease.ms=1000"], capture_output=True, text=True, timeout=60
    )
    assert other.returncode == 1
    assert "start with producer.lease.ms=3600000 until they are over" in other.stderr


@pytest.mark.thorough
def test_at_the_bound_a_new_lease_is_told_to_come_again(start_server: Callable[..., Any]) -> None:
    server = start_server("-X", "max.producers=3")
    with Cluster(server.bootstrap, request_timeout_ms=3_000) as cluster:
        cluster.create_topics({"t": 2})
        lease = lease_of(cluster)
        with pytest.raises(BrokerError) as refused:
            lease_of(cluster)
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert send(cluster, lease.grant, 0).base_offset == 0
        assert send(cluster, lease.grant, 0, OTHER).base_offset == 0


@pytest.mark.thorough
def test_brokers_that_know_no_leases_give_an_id_without_an_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Kafka skips the tag that it does not know, and answers without one."""
    monkeypatch.setattr("semel.wire.init_producer_id.LEASE_TAG", 9_999)
    grant = cluster.lease_producer_id([TP])
    assert isinstance(grant, ProducerGrant)
    assert not is_leased(grant.producer_id)
