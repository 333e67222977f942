"""A log with a rotten batch, on a real server: what is in front of it, where it is, and how to go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

from semel import Consumer, TopicPartition
from semel.errors import UnreadableBatch
from semel.local import LocalLog
from semel.record.batch import scan_batches


def rot(server: LocalLog, partition: str, batch: int, at_byte: int) -> None:
    """Turn a bit of one batch while the server runs, at a byte from its start (or, below 0, from its end)."""
    (path,) = Path(server.data_dir).rglob(f"{partition}/*.log")
    log = path.read_bytes()
    bounds = [0]
    for found, _ in scan_batches(log):
        bounds.append(bounds[-1] + len(found))
    at = bounds[batch] + at_byte if at_byte >= 0 else bounds[batch + 1] + at_byte
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([log[at] ^ 1]))


def produce(semel: Command, *batches: bytes) -> None:
    """Lines to topic t, a batch each, however slowly they are read."""
    for lines in batches:
        assert semel("produce", "t", "-X", "linger.ms=20000", stdin=lines).code == 0


@pytest.fixture
def rotten(semel: Command, semel_server: LocalLog) -> LocalLog:
    """Topic t: a and b, then c and d in a batch that rots, then e."""
    produce(semel, b"a\nb\n", b"c\nd\n", b"e\n")
    rot(semel_server, "t-0", 1, -1)
    return semel_server


def test_what_lies_in_front_is_printed_and_then_where_the_rot_is(semel: Command, rotten: LocalLog) -> None:
    done = semel("consume", "t", "-e")
    assert (done.code, done.out) == (1, "a\nb\n")
    (line,) = done.err.splitlines()
    assert line.startswith(
        "semel: topic 't', partition 0: the batch at offset 2 cannot be read (batch CRC is "
    )
    assert "damaged on the server's disk, or on the way from it" in line
    assert "read again; if it stays so, go on behind it, with --dead-letter TOPIC" in line
    assert line.endswith("semel consume t -p 0 -o 4")
    assert semel("consume", "t", "-p", "0", "-o", "4", "-e").out == "e\n"


def test_other_partitions_are_printed_to_their_end(semel: Command, semel_server: LocalLog) -> None:
    semel("topic", "create", "t", "-p", "2")
    for partition in ("0", "1"):
        for lines in (b"a\n", b"b\n"):
            semel("produce", "t", "-p", partition, stdin=lines)
    rot(semel_server, "t-0", 1, -1)
    done = semel("consume", "t", "-e", "-f", r"%p:%v\n")
    assert (done.code, sorted(done.out.split())) == (1, ["0:a", "1:a", "1:b"])
    assert "partition 0: the batch at offset 1 cannot be read" in done.err


@pytest.mark.parametrize(
    ("at_byte", "batches", "behind"),
    [
        (16, 3, "4"),  # its version
        (23, 3, "4"),  # how many offsets it has: only the next batch shows where it ends
        (57, 2, "OFFSET, a later one: which, it does not say any more"),  # how many records
        (11, 3, "4"),  # its length, which leads into the next batch
    ],
)
def test_a_header_that_rots_is_told_too(
    semel: Command, semel_server: LocalLog, at_byte: int, batches: int, behind: str
) -> None:
    produce(semel, *(b"a\nb\n", b"c\nd\n", b"e\n")[:batches])
    rot(semel_server, "t-0", 1, at_byte)
    done = semel("consume", "t", "-e")
    assert (done.code, done.out) == (1, "a\nb\n")
    assert "partition 0: the batch at offset 2 cannot be read" in done.err
    assert done.err.endswith(f"semel consume t -p 0 -o {behind}\n")


@pytest.mark.parametrize("at_byte", [3, 7, 10])
def test_an_offset_or_a_length_that_rots_is_not_gone_over(
    semel: Command, semel_server: LocalLog, at_byte: int
) -> None:
    """No checksum covers them. The next batch does not lie behind that one; and the server cannot find its way."""
    produce(semel, b"a\nb\n", b"c\nd\n", b"e\n")
    rot(semel_server, "t-0", 1, at_byte)
    done = semel("consume", "t", "-e", "-X", "request.timeout.ms=2000")
    assert (done.code, done.out) == (1, "a\nb\n")
    assert (
        "read t-0 from offset 2 on: KAFKA_STORAGE_ERROR (56): its server cannot read it from the disk"
        in done.err
    )


def test_the_consumer_says_it_as_a_type(rotten: LocalLog) -> None:
    tp = TopicPartition("t", 0)
    with Consumer(rotten.bootstrap) as consumer:
        consumer.assign([tp])
        assert [record.value for record in consumer.poll(10)] == [b"a", b"b"]
        for _ in range(2):  # it stays where it is
            with pytest.raises(UnreadableBatch) as caught:
                consumer.poll(10)
            error = caught.value
            assert (error.partition, error.offset, error.next_offset) == (tp, 2, 4)
        consumer.seek(tp, 4)
        assert [record.value for record in consumer.poll(10)] == [b"e"]
        consumer.seek(tp, 0)
        assert consumer.fetch_table(10)["value"].to_pylist() == [b"a", b"b"]
        with pytest.raises(UnreadableBatch, match="partition 0: the batch at offset 2 cannot be read"):
            consumer.fetch_table(10)


def test_an_audit_says_where_it_could_not_read(semel: Command, rotten: LocalLog) -> None:
    done = semel("audit", "--output", "t")
    assert (done.code, done.out) == (1, "")
    assert "topic 't', partition 0: the batch at offset 2 cannot be read (batch CRC is " in done.err
    assert "nothing is proven of t" in done.err
