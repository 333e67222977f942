"""Reading on where the log has lost its end since (KIP-320): what was read is told as lost, and nothing is left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.lost_end import lose_end, older_copy

import semel
from semel.client.blocking import Cluster
from semel.client.groups import Offset
from semel.errors import DataLoss
from semel.types import LATEST_TIMESTAMP, TopicPartition

TP = TopicPartition("t", 0)
TIMEOUT_S = 20


@pytest.fixture
def log(semel_server_factory: Callable[..., semel.LocalLog]) -> semel.LocalLog:
    """One that trusts the page cache, so that a power cut takes what it has acknowledged."""
    return semel_server_factory(durability="page-cache")


def write(log: semel.LocalLog, *values: str) -> None:
    with semel.Producer(log.bootstrap, linger_ms=0) as producer:
        for value in values:
            producer.send("t", value).result(TIMEOUT_S)


def cut_last_row(log: semel.LocalLog) -> None:
    """As a power cut may leave the file: the last batch is torn."""
    log.crash()
    (path,) = (Path(log.data_dir) / "t-0").glob("*.log")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    log.restart()


def read(consumer: semel.Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        some = [row.value for row in consumer.poll(TIMEOUT_S)]
        assert some, values
        values += some
    return values


def test_rows_that_stand_where_others_were_read_are_not_taken_for_the_next(log: semel.LocalLog) -> None:
    write(log, "a", "b", "c")
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign({TP: "earliest"})
        assert read(consumer, 3) == [b"a", b"b", b"c"]
        assert consumer.poll(0.1) == [], "it stands at the end for a while"
        cut_last_row(log)
        write(log, "x", "y")
        for _ in range(2):
            with pytest.raises(DataLoss, match=r"all offsets from 2 on .* Seek to 2") as loss:
                consumer.poll(TIMEOUT_S)
            assert (loss.value.lost_from, loss.value.lost_to_end) == (2, 2)
        consumer.seek(TP, loss.value.lost_to_end)
        assert read(consumer, 2) == [b"x", b"y"]
        write(log, "z")
        assert read(consumer, 1) == [b"z"]


def test_also_before_anything_was_written_anew(log: semel.LocalLog) -> None:
    write(log, "a", "b", "c")
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign({TP: "earliest"})
        read(consumer, 3)
        cut_last_row(log)
        with pytest.raises(DataLoss, match="all offsets from 2 on"):
            consumer.poll(TIMEOUT_S)


def test_a_reader_of_tables_is_told_too(log: semel.LocalLog) -> None:
    write(log, "a", "b", "c")
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign({TP: "earliest"})
        assert consumer.fetch_table(TIMEOUT_S).num_rows == 3
        cut_last_row(log)
        write(log, "x", "y")
        with pytest.raises(DataLoss, match="all offsets from 2 on"):
            consumer.fetch_table(TIMEOUT_S)


def test_so_is_a_group_that_comes_again(log: semel.LocalLog) -> None:
    """What it had read up to is committed with the leader epoch of the last row."""
    write(log, "a", "b", "c")
    with semel.Consumer(log.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        read(consumer, 3)
    cut_last_row(log)
    write(log, "x", "y")
    with semel.Consumer(log.bootstrap, group_id="g") as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(DataLoss, match="all offsets from 2 on"):
            consumer.poll(TIMEOUT_S)
        consumer.seek(TP, 2)
        assert read(consumer, 2) == [b"x", b"y"]


@pytest.mark.parametrize("lost", ["at a batch's end", pytest.param("put back", marks=pytest.mark.thorough)])
def test_also_where_nothing_in_the_files_says_that_there_was_more(
    lost: str, log: semel.LocalLog, tmp_path: Path
) -> None:
    write(log, "a", "b")
    put_back = older_copy(log, tmp_path / "copy") if lost == "put back" else partial(lose_end, log, "t", 2)
    told = "all offsets from 2 on"
    if lost == "put back":  # within one second, perhaps
        told += "|all offsets from 4 on .* nothing of leader epoch"
    write(log, "c", "d")
    with (
        semel.Consumer(log.bootstrap) as assigned,
        semel.Consumer(log.bootstrap, group_id="g", auto_offset_reset="earliest") as member,
    ):
        assigned.assign({TP: "earliest"})
        member.subscribe(["t"])
        for consumer in (assigned, member):
            read(consumer, 4)
        member.commit()
        with Cluster(log.bootstrap) as cluster:
            committed = cluster.committed_offsets("g", [TP])[TP]
        put_back()
        write(log, "u", "v", "w", "x", "y", "z")
        with pytest.raises(DataLoss, match=told):
            assigned.poll(TIMEOUT_S)
    with semel.Consumer(log.bootstrap, group_id="g") as member:
        if lost == "put back":  # and so is what was committed, which somebody may have from elsewhere
            member.commit({TP: Offset(committed.offset, leader_epoch=committed.leader_epoch)})
        member.subscribe(["t"])
        with pytest.raises(DataLoss, match=told):
            member.poll(TIMEOUT_S)
        member.seek(TP, 2)
        assert read(member, 6) == [b"u", b"v", b"w", b"x", b"y", b"z"]


def test_what_is_committed_amid_a_fetch_is_held_against_the_log_too(log: semel.LocalLog) -> None:
    """The rows of the newest poll are not done, and others wait: the newest that was fetched is none of those."""
    write(log, "a", "b", "c", "d")
    with pytest.raises(RuntimeError), semel.Consumer(log.bootstrap, group_id="g") as member:
        member.subscribe(["t"])
        for _ in range(3):
            assert member.poll(TIMEOUT_S, max_records=1)
        raise RuntimeError("in the midst of c")
    lose_end(log, "t", 1)
    write(log, "u", "v", "w")
    with semel.Consumer(log.bootstrap, group_id="g") as member:
        member.subscribe(["t"])
        assert member.committed([TP]) == {TP: 2}
        with pytest.raises(DataLoss, match="all offsets from 1 on"):
            member.poll(TIMEOUT_S)


def test_so_is_a_reader_who_began_at_the_end(log: semel.LocalLog) -> None:
    write(log, "a", "b", "c", "d")
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign({TP: "latest"})
        assert consumer.position(TP) == 4
        lose_end(log, "t", 2)
        write(log, "u", "v", "w")
        with pytest.raises(DataLoss, match="all offsets from 2 on"):
            consumer.poll(TIMEOUT_S)
        consumer.seek_to_end()
        write(log, "x")
        assert read(consumer, 1) == [b"x"]


def test_a_restart_that_lost_nothing_stops_nobody(log: semel.LocalLog) -> None:
    write(log, "a")
    with semel.Consumer(log.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        assert read(consumer, 1) == [b"a"]
        for value in ("b", "c"):
            log.restart()
            log.crash()
            log.restart()  # nothing is written under the epochs in between
            write(log, value)
            assert read(consumer, 1) == [value.encode()]


def test_an_epoch_that_the_log_knows_nothing_of_is_told_once_no_leader_can_be_late(
    log: semel.LocalLog,
) -> None:
    """As of a log that was put back from an older copy: where the two part nobody knows."""
    write(log, "a", "b", "c")
    with semel.Consumer(log.bootstrap, group_id="g", request_timeout_ms=500) as consumer:
        consumer.commit({TP: Offset(2, leader_epoch=2_000_000)})
        consumer.subscribe(["t"])
        with pytest.raises(DataLoss, match=r"all offsets from 2 on .* nothing of leader epoch 2000000"):
            consumer.poll(TIMEOUT_S)
        consumer.seek(TP, 2)
        assert read(consumer, 1) == [b"c"]


def test_an_epoch_that_is_gone_with_what_came_behind_the_position_is_no_loss(log: semel.LocalLog) -> None:
    """Some clients commit the leader's epoch, of which no row may have come."""
    write(log, "a", "b", "c")
    cut_last_row(log)
    with Cluster(log.bootstrap) as cluster:
        leader_epoch = cluster.list_offsets({TP: LATEST_TIMESTAMP})[TP].leader_epoch
    assert leader_epoch > 0
    with semel.Consumer(log.bootstrap, group_id="g") as consumer:
        consumer.commit({TP: Offset(2, leader_epoch=leader_epoch)})
    write(log, "x")
    cut_last_row(log)
    write(log, "y")
    with semel.Consumer(log.bootstrap, group_id="g") as consumer:
        consumer.subscribe(["t"])
        assert read(consumer, 1) == [b"y"]


def test_who_had_not_read_what_was_lost_reads_on(log: semel.LocalLog) -> None:
    write(log, "a", "b", "c")
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign({TP: "earliest"})
        consumer.seek(TP, 1)
        assert consumer.poll(TIMEOUT_S, max_records=1)[0].value == b"b"
        consumer.seek(TP, 2)
        cut_last_row(log)
        write(log, "x", "y")
        assert read(consumer, 2) == [b"x", b"y"]
