"""``topic`` and ``producer`` against a real server."""

from __future__ import annotations

import json

from semel.client.blocking import Cluster
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition


def test_a_topic_from_its_making_to_its_end(semel) -> None:
    assert semel("topic", "create", "t", "-p", "2", "-c", "retention.ms=-1").code == 0
    assert semel("topic", "create", "t").code == 1
    assert semel("topic", "create", "t", "--if-not-exists").code == 0
    listed = json.loads(semel("topic", "list", "--format", "json").out)
    assert listed == [{"name": "t", "partitions": 2, "internal": False}]
    described = json.loads(semel("topic", "describe", "t", "--format", "json").out)
    assert [row["records"] for row in described["partitions"]] == [0, 0]
    assert described["configs"]["retention.ms"] == "-1"
    assert semel("topic", "add-partitions", "t", "-p", "3").code == 0
    assert semel("topic", "alter-config", "t", "-c", "retention.ms=1000").code == 0
    described = json.loads(semel("topic", "describe", "t", "--format", "json").out)
    assert (len(described["partitions"]), described["configs"]["retention.ms"]) == (3, "1000")
    assert semel("topic", "delete", "t").code == 0
    assert json.loads(semel("topic", "list", "--format", "json").out) == []


def test_trim_prefix_moves_the_start(semel) -> None:
    semel("topic", "create", "t")
    semel("produce", "t", stdin=b"a\nb\nc\n")
    assert semel("topic", "trim-prefix", "t", "-o", "2").err == "t-0 now starts at offset 2\n"
    assert semel("consume", "t", "-e").out == "c\n"


def test_producers_are_listed_with_their_last_sequence(semel) -> None:
    semel("topic", "create", "t")
    semel("produce", "t", stdin=b"a\nb\nc\n")
    (row,) = json.loads(semel("producer", "list", "-t", "t", "--format", "json").out)
    assert (row["topic"], row["partition"], row["last_sequence"]) == ("t", 0, 2)
    assert str(row["producer_id"]) in semel("producer", "describe", str(row["producer_id"])).out
    assert semel("producer", "describe", "999999").code == 1
    assert semel("producer", "list", "-t", "nope").err.startswith("semel: there is no topic 'nope'")


def test_a_topic_that_is_not_there_is_one_line(semel) -> None:
    done = semel("topic", "describe", "nope")
    assert (done.code, done.err.count("\n")) == (1, 1)


def test_of_a_leased_producer_is_said_when_its_lease_ends(semel, semel_server) -> None:
    semel("topic", "create", "t")
    semel("produce", "t", stdin=b"a\n")
    with Cluster(semel_server.bootstrap) as cluster:
        tp = TopicPartition("t", 0)
        lease = cluster.lease_producer_id([tp])
        batch = encode_batch(
            [Record(0, 1_700_000_000_000, None, b"b")],
            producer_id=lease.producer_id,
            producer_epoch=lease.producer_epoch,
            base_sequence=0,
        )
        assert cluster.produce({tp: batch})[tp].base_offset == 1
    stock, leased = json.loads(semel("producer", "list", "--format", "json").out)
    assert (stock["kind"], stock["lease_remaining_ms"]) == ("stock", None)
    assert (leased["kind"], leased["producer_id"]) == ("leased", lease.producer_id)
    assert 0 < leased["lease_remaining_ms"] <= lease.length_ms
    head, row = semel("producer", "describe", str(lease.producer_id)).out.splitlines()
    assert "LEASE-ENDS" in head
    assert "leased" in row
