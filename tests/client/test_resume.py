"""A producer that is killed at any row and run again stores every row once, in order."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from tests.peers.apache_kafka import ApacheKafka

import semel
from semel.client import resuming
from semel.client.cluster import Cluster
from semel.client.consumer import ConsumerRecord
from semel.errors import CannotKnow, ConfigError, ConnectionLost, NotStored, ProducerFenced, StorageError
from semel.types import LATEST_TIMESTAMP, TopicPartition

LOAD = Path(__file__).with_name("resumable_load.py")
ROWS = 30_000
SETTINGS = [
    {"batch_bytes": 2_000, "linger_ms": 0},
    {"batch_bytes": 50_000, "linger_ms": 5, "compression": "lz4"},
    {"batch_bytes": 700, "linger_ms": 1, "compression": "gzip"},
    {"batch_bytes": 9_000, "linger_ms": 2, "in_flight_max": 1},
]


def read_all(bootstrap: str, topic: str, partitions: int) -> list[ConsumerRecord]:
    with semel.Consumer(bootstrap) as consumer:
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(tps)
        records = []
        while taken := consumer.poll(0.5, max_records=100_000):
            records += taken
        return records


def killed_and_resumed(bootstrap: str, identity: Path, seed: int) -> None:
    choose = random.Random(seed)
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("out", 3)
    kills = 0
    for attempt in range(30):
        settings = SETTINGS[attempt % len(SETTINGS)]
        command = [
            sys.executable,
            str(LOAD),
            bootstrap,
            "out",
            str(identity),
            str(ROWS),
            json.dumps(settings),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            kill_after_lines = choose.randrange(1, 20) if attempt < 5 else 10**6
            for number, _line in enumerate(child.stdout):
                if number == kill_after_lines:
                    child.kill()
                    kills += 1
                    break
            child.stdout.read()
        if child.returncode == 0:
            break
    assert child.returncode == 0
    assert kills >= 3
    records = read_all(bootstrap, "out", 3)
    assert sorted(int(record.value or b"") for record in records) == list(range(ROWS))
    for partition in range(3):
        rows = [int(record.value or b"") for record in records if record.partition == partition]
        assert rows == sorted(rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_rows_are_stored_once_and_in_order_whenever_the_producer_is_killed(
    semel_server: semel.LocalLog, tmp_path: Path, seed: int
) -> None:
    killed_and_resumed(semel_server.bootstrap, tmp_path / "identity", seed)


def test_the_older_of_two_copies_is_fenced_and_told_by_which_epoch(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    identity = tmp_path / "identity"
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as older:
        older.send("out", "1", position=0)
        older.flush()
        with semel.Producer(semel_server.bootstrap, identity_store=identity) as newer:
            with pytest.raises(ProducerFenced, match=r"epoch 0 .* was fenced by epoch 1"):
                older.send("out", "2", position=1).result(10)
            with pytest.raises(ProducerFenced):
                older.send("out", "3", position=2)
            newer.send("out", "2", position=1).result(10)
    assert [record.value for record in read_all(semel_server.bootstrap, "out", 1)] == [b"1", b"2"]


def test_the_copy_that_was_granted_first_claims_nothing_of_a_newer_ones_topic(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """It had not begun the topic yet: what it would save of it, the newer copy's rows are missing from."""
    identity = tmp_path / "identity"
    with (
        semel.Producer(semel_server.bootstrap, identity_store=identity) as older,
        semel.Producer(semel_server.bootstrap, identity_store=identity) as newer,
    ):
        newer.send("out", "1", position=0).result(10)
        with pytest.raises(ProducerFenced, match="another copy"):
            older.send("out", "1", position=0)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as newest:
        for position, row in newest.resume(["1", "2"]):
            newest.send("out", row, position=position)
    assert [record.value for record in read_all(semel_server.bootstrap, "out", 1)] == [b"1", b"2"]


def test_a_copied_identity_file_counts_what_every_epoch_stored(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """A copy that knows only an old epoch still drops all that was stored since."""
    first, second = tmp_path / "identity", tmp_path / "copy"
    with semel.Producer(semel_server.bootstrap, identity_store=first, save_interval_ms=10**9) as producer:
        producer.send("out", "0", position=0).result(10)
        producer.flush()
        second.write_bytes(first.read_bytes())
        for row in range(1, 10):
            producer.send("out", str(row), position=row)
    with semel.Producer(semel_server.bootstrap, identity_store=first) as producer:
        for row in range(10, 20):
            producer.send("out", str(row), position=row)
    with semel.Producer(semel_server.bootstrap, identity_store=second) as producer:
        assert producer.position == 0
        for position, row in producer.resume(range(30)):
            producer.send("out", str(row), position=position)
        assert producer.rows_dropped == 19
    values = [int(record.value or b"") for record in read_all(semel_server.bootstrap, "out", 1)]
    assert values == list(range(30))


def test_a_copy_that_is_fenced_while_it_counts_counts_up_to_its_own_fence(
    semel_server: semel.LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would save half of what the newer copy is writing, of which the rest then seems to lack its beginning."""
    identity = tmp_path / "identity"
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("out", "0", position=0)
    original, newer = resuming.scan, []

    def start_newer() -> None:
        newer.append(semel.Producer(semel_server.bootstrap, identity_store=identity, save_interval_ms=10**9))
        newer[0].send("out", "1", position=1).result(10)

    async def scans_late(*of):
        monkeypatch.setattr(resuming, "scan", original)
        await asyncio.to_thread(start_newer)
        return await original(*of)

    monkeypatch.setattr(resuming, "scan", scans_late)
    with semel.Producer(semel_server.bootstrap, identity_store=identity):
        saved = identity.read_bytes()
    with newer[0] as producer:
        producer.send("out", "2", position=2).result(10)
    identity.write_bytes(saved)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        for position, row in producer.resume(["0", "1", "2", "3"]):
            producer.send("out", row, position=position)
        assert producer.rows_dropped == 2
    assert [record.value for record in read_all(semel_server.bootstrap, "out", 1)] == [b"0", b"1", b"2", b"3"]


def test_rows_behind_what_can_be_read_at_first_are_counted(
    semel_server: semel.LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On replicated brokers the fence is known before it, and rows in front of it, can be read."""
    identity, earlier = tmp_path / "identity", tmp_path / "earlier"
    with semel.Producer(semel_server.bootstrap, identity_store=identity):
        earlier.write_bytes(identity.read_bytes())
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        for row in range(3):
            producer.send("out", str(row), position=row)
    original, asked = Cluster.list_offsets, itertools.count()

    async def lags(cluster, timestamps, isolation):
        listed = await original(cluster, timestamps, isolation)
        if LATEST_TIMESTAMP in timestamps.values() and next(asked) < 3:
            return {tp: replace(found, offset=2) for tp, found in listed.items()}
        return listed

    monkeypatch.setattr(Cluster, "list_offsets", lags)
    with semel.Producer(semel_server.bootstrap, identity_store=earlier) as producer:
        for position, row in producer.resume(["0", "1", "2", "3"]):
            producer.send("out", row, position=position)
        assert producer.rows_dropped == 3
    monkeypatch.undo()
    assert [record.value for record in read_all(semel_server.bootstrap, "out", 1)] == [b"0", b"1", b"2", b"3"]


def test_a_fenced_copy_does_not_save_over_what_the_newer_one_saved(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    identity = tmp_path / "identity"
    with semel.Producer(semel_server.bootstrap, identity_store=identity):
        pass
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as older:  # not a name's first grant
        with semel.Producer(semel_server.bootstrap, identity_store=identity) as newer:
            newer.send("out", "1", position=0)
        saved = identity.read_bytes()
        with pytest.raises(ProducerFenced, match="another copy"):
            older.send("out", "1", position=0)
    assert identity.read_bytes() == saved


def test_resume_comes_before_the_first_row(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    """Behind it, the rows from the saved position on would go a second time."""
    with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "identity") as producer:
        producer.send("out", "0", position=0)
        with pytest.raises(ConfigError, match="open a new one"):
            next(producer.resume(["0"]))


def test_a_copy_from_before_a_topic_claims_nothing_of_one_that_was_trimmed(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """Its rows may have been among those that were deleted; what is left of the log does not show them."""
    identity, earlier = tmp_path / "identity", tmp_path / "earlier"
    with semel.Producer(semel_server.bootstrap, identity_store=identity):
        earlier.write_bytes(identity.read_bytes())
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        offset = producer.send("out", "0", position=0).result(10).offset
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.delete_records({TopicPartition("out", 0): offset + 1})
    for _ in range(2):  # the refusal leaves no fence, which would hide what the log knows
        with (
            semel.Producer(semel_server.bootstrap, identity_store=earlier) as producer,
            pytest.raises(CannotKnow, match=f"trimmed to offset {offset + 1}"),
        ):
            producer.send("out", "0", position=0)
    assert read_all(semel_server.bootstrap, "out", 1) == []


def test_a_crash_between_fence_and_count_leaves_a_trimmed_topic_usable(
    semel_server: semel.LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, out = tmp_path / "identity", TopicPartition("out", 0)
    with semel.Producer(semel_server.bootstrap) as other, semel.Admin(semel_server.bootstrap) as admin:
        other.send("out", "another's").result(10)
        admin.delete_records({out: 1})
    with semel.Producer(semel_server.bootstrap, identity_store=identity):
        pass

    async def gets_no_answer(*_: object) -> NoReturn:
        raise ConnectionLost("no answer")

    with (
        monkeypatch.context() as patch,
        semel.Producer(semel_server.bootstrap, identity_store=identity) as producer,
        pytest.raises(NotStored, match="no answer"),
    ):
        patch.setattr(resuming, "scan", gets_no_answer)
        producer.send("out", "0", position=0)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("out", "0", position=0).result(10)
    assert [record.value for record in read_all(semel_server.bootstrap, "out", 1)] == [b"0"]


def test_rows_resume_from_a_function_of_the_position(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    def rows(after: str | None) -> list[tuple[str, str]]:
        return [(name, name * 2) for name in "abcdef" if after is None or name > after]

    for _ in range(2):
        with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "identity") as producer:
            for position, row in producer.resume(rows):
                producer.send("out", row, position=position)
    values = [record.value for record in read_all(semel_server.bootstrap, "out", 1)]
    assert values == [b"aa", b"bb", b"cc", b"dd", b"ee", b"ff"]


def test_a_damaged_identity_is_refused(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    identity = tmp_path / "identity"
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("out", "1", position=0)
    stored = bytearray(identity.read_bytes())
    stored[-5] ^= 1
    identity.write_bytes(stored)
    with pytest.raises(StorageError, match="checksum"):
        semel.Producer(semel_server.bootstrap, identity_store=identity)


def test_rows_sent_without_resume_are_refused_when_some_are_stored_behind_the_position(
    semel_server: semel.LocalLog, tmp_path: Path
) -> None:
    """They could not be told from those that must be dropped."""
    identity = tmp_path / "identity"
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        producer.send("out", "1", position=0).result(10)
        before_flush = identity.read_bytes()
    identity.write_bytes(before_flush)
    with semel.Producer(semel_server.bootstrap, identity_store=identity) as producer:
        with pytest.raises(ConfigError, match="resume"):
            producer.send("out", "2", position=1)
        for position, row in producer.resume(["1", "2"]):
            producer.send("out", row, position=position)
    assert [record.value for record in read_all(semel_server.bootstrap, "out", 1)] == [b"1", b"2"]


@pytest.mark.kafka
@pytest.mark.slow
def test_the_same_holds_on_apache_kafka(apache_kafka: ApacheKafka, tmp_path: Path) -> None:
    killed_and_resumed(apache_kafka.bootstrap, tmp_path / "identity", seed=3)


@pytest.mark.kafka
def test_what_the_leader_of_apache_kafka_told_is_not_read_again_while_it_leads(
    apache_kafka: ApacheKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(resuming, "scan_from_counted")
    for rows in (["0"], ["0", "1"], ["0", "1", "2"]):
        with semel.Producer(apache_kafka.bootstrap, identity_store=tmp_path / "identity") as producer:
            for position, row in producer.resume(rows):
                producer.send("told", row, position=position)
    assert [record.value for record in read_all(apache_kafka.bootstrap, "told", 1)] == [b"0", b"1", b"2"]
