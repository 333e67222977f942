"""``topic`` and ``producer`` against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from semel.client.blocking import Cluster
from semel.record.batch import Record, encode_batch
from semel.types import SINKS_TOPIC, TopicPartition


def test_the_sinks_own_topic_is_shown_with_the_internal_ones(semel) -> None:
    semel("topic", "create", SINKS_TOPIC, "--internal")
    semel("topic", "create", "t")
    assert json.loads(semel("topic", "list", "--format", "json").out) == [
        {"name": "t", "partitions": 1, "internal": False}
    ]
    listed = json.loads(semel("topic", "list", "--internal", "--format", "json").out)
    assert {"name": SINKS_TOPIC, "partitions": 1, "internal": True} in listed


def test_a_topic_from_its_making_to_its_end(semel) -> None:
    assert semel("topic", "create", "t", "-p", "2", "-c", "retention.ms=-1").code == 0
    assert semel("topic", "create", "t").code == 1
    assert semel("topic", "create", "t", "--if-not-exists").code == 0
    listed = json.loads(semel("topic", "list", "--format", "json").out)
    assert listed == [{"name": "t", "partitions": 2, "internal": False}]
    described = json.loads(semel("topic", "describe", "t", "--format", "json").out)
    assert [row["offsets"] for row in described["partitions"]] == [0, 0]
    assert described["configs"]["retention.ms"] == "-1"
    assert semel("topic", "add-partitions", "t", "-p", "3").code == 0
    assert semel("topic", "alter-config", "t", "-c", "retention.ms=1000").code == 0
    described = json.loads(semel("topic", "describe", "t", "--format", "json").out)
    assert (len(described["partitions"]), described["configs"]["retention.ms"]) == (3, "1000")
    assert semel("topic", "delete", "t").code == 0
    assert json.loads(semel("topic", "list", "--format", "json").out) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("answer", "code", "said"), [("n", 1, "nothing was deleted"), ("y", 0, "deleted topic t")]
)
def test_a_person_is_asked_before_a_topic_is_deleted(
    semel, semel_server, answer: str, code: int, said: str
) -> None:
    semel("topic", "create", "t", "-p", "2")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "semel.cli", "topic", "delete", "t", "-b", semel_server.bootstrap]
    with subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        _, err = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, err) == (
        code,
        f"delete topic t, 2 partitions, with all its records? [y/N] {said}\n",
    )
    assert len(json.loads(semel("topic", "list", "--format", "json").out)) == code


@pytest.mark.thorough
def test_who_says_yes_is_not_asked(semel, semel_server) -> None:
    semel("topic", "create", "t")
    ours, theirs = os.openpty()
    command = [
        sys.executable,
        "-m",
        "semel.cli",
        "topic",
        "delete",
        "t",
        "--yes",
        "-b",
        semel_server.bootstrap,
    ]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, timeout=60)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "deleted topic t\n")


def test_a_marker_is_not_called_a_record(semel, semel_server) -> None:
    semel("produce", "t", stdin=b"a\n")
    with Cluster(semel_server.bootstrap) as cluster:
        cluster.write_fence({(cluster.init_producer_id().producer_id, 1): [TopicPartition("t", 0)]})
    head, row, *_ = semel("topic", "describe", "t").out.splitlines()
    assert (head.split()[-1], row.split()[-1]) == ("OFFSETS", "2")
    assert "records" not in semel("topic", "describe", "t", "--format", "json").out


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


@pytest.mark.parametrize(("point", "said"), [("99", "offset 99"), ("+99", "+99")])
def test_an_offset_behind_the_end_trims_nothing(semel, point: str, said: str) -> None:
    """Apache Kafka answers OFFSET_OUT_OF_RANGE; a slip of the hand took all rows."""
    semel("topic", "create", "t", "-p", "2")
    semel("produce", "t", "-p", "0", stdin=b"a\nb\nc\n")
    done = semel("topic", "trim-prefix", "t", "-o", point)
    assert (done.code, done.err) == (
        1,
        f"semel: {said} is behind the end of t-0, 3, and of t-1, 0: nothing was trimmed\n",
    )
    assert semel("topic", "trim-prefix", "t", "-o", "1").code == 1  # t-1 has none
    assert semel("consume", "t", "-e").out == "a\nb\nc\n"
    assert semel("topic", "trim-prefix", "t", "-p", "0", "-o", "3").code == 0  # the end is none behind it
    assert semel("consume", "t", "-e").out == ""


@pytest.mark.parametrize(
    ("answer", "options", "code", "said"),
    [
        ("n", [], 1, "delete 2 offsets of topic t? What is gone is gone [y/N] nothing was deleted\n"),
        ("y", [], 0, "delete 2 offsets of topic t? What is gone is gone [y/N] t-0 now starts at offset 2\n"),
        ("n", ["--yes"], 0, "t-0 now starts at offset 2\n"),
    ],
)
def test_a_person_is_asked_before_records_are_trimmed(
    semel, semel_server, answer: str, options: list[str], code: int, said: str
) -> None:
    semel("produce", "t", stdin=b"a\nb\nc\n")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "semel.cli", "topic", "trim-prefix", "t", "-o", "2", *options]
    command += ["-b", semel_server.bootstrap]
    with subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        _, err = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, err) == (code, said)


@pytest.mark.parametrize("topic", [SINKS_TOPIC, "__consumer_offsets"])
def test_a_topic_that_is_not_for_people_is_made_and_written_only_if_asked_for(semel, topic: str) -> None:
    why = f"semel: {topic} is an internal topic"
    for done in (semel("topic", "create", topic), semel("produce", topic, stdin=b"x\n")):
        assert (done.code, done.err.startswith(why), "--internal" in done.err) == (2, True, True)
    assert SINKS_TOPIC not in semel("topic", "list", "--internal").out
    if topic == SINKS_TOPIC:
        assert semel("topic", "create", topic, "--internal").code == 0
        assert semel("produce", topic, "--internal", stdin=b"x\n").code == 0
        assert semel("sink", "list").code == 0


def test_a_topic_is_not_advised_to_be_made_where_that_makes_no_sense(semel) -> None:
    bad = semel("consume", "bad name", "-e")
    assert (bad.code, "semel topic create" in bad.err) == (1, False)
    assert "characters other than ASCII letters" in bad.err
    gone = semel("topic", "delete", "nosuch")
    assert (gone.code, gone.err) == (
        1,
        "semel: there is no topic 'nosuch': semel topic list shows what there is\n",
    )
    assert "semel topic create nosuch" in semel("consume", "nosuch", "-e").err
