"""``semel group`` and ``semel consume -g``, at semel's coordinator and at Kafka's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.cli.conftest import Told
from tests.peers.same_as_kafka.transacting import Transactions
from tests.peers.same_as_kafka.wire import Wire

import semel
from semel.cli.group import _ranges
from semel.cli.main import run
from semel.types import TopicPartition

QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Two partitions with five rows in each."""
    name = f"group-{uuid.uuid4().hex[:8]}"
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(name, 2)
    with semel.Producer(bootstrap) as producer:
        for row in range(10):
            producer.send(name, b"%d" % row, partition=row % 2)
    return name


@pytest.fixture
def reader(bootstrap: str, topic: str) -> Iterator[semel.Consumer]:
    """A member that has both partitions, and has read everything."""
    with semel.Consumer(
        bootstrap,
        group_id=f"{topic}-readers",
        client_id="reader",
        **QUICK,  # type: ignore[arg-type]
    ) as consumer:
        consumer.subscribe(topic)
        read = 0
        while read < 10:
            read += len(consumer.poll(10.0))
        yield consumer


@pytest.mark.thorough
def test_what_a_group_with_a_member_shows(
    ask: Callable[..., Told], topic: str, reader: semel.Consumer
) -> None:
    group = f"{topic}-readers"
    code, out, _ = ask("group", "list", "--format", "json")
    (listed,) = [item for item in json.loads(out) if item["group"] == group]
    assert (code, listed["state"], listed["protocol_type"]) == (0, "Stable", "consumer")
    code, out, _ = ask("group", "describe", group, "--format", "json")
    document = json.loads(out)
    (member,) = document["members"]
    assert (document["strategy"], member["client_id"]) == ("cooperative-sticky", "reader")
    assert member["host"] == "127.0.0.1"
    assert member["partitions"] == [{"topic": topic, "partition": number} for number in (0, 1)]
    code, out, _ = ask("group", "describe", group)
    assert f"{topic}-0..1" in out
    reader.commit({TopicPartition(topic, 0): (2, "half way")})
    code, out, _ = ask("group", "lag", group, "--format", "json")
    first, second = json.loads(out)
    assert (first["committed_offset"], first["end_offset"], first["lag"], first["metadata"]) == (
        2,
        5,
        3,
        "half way",
    )
    assert (second["committed_offset"], second["lag"], second["host"]) == (None, None, "127.0.0.1")
    code, out, err = ask("group", "lag", group)
    assert out.split()[:5] == ["TOPIC", "PARTITION", "COMMITTED-OFFSET", "END-OFFSET", "LAG"]
    assert "lag in all: 3, and of 1 partition nothing is committed" in err
    code, out, err = ask("group", "seek", group, "--to", "start")
    assert (code, out) == (1, "")
    assert "has members (UNKNOWN_MEMBER_ID): none of its offsets was changed" in err
    code, _, err = ask("group", "delete", group)
    assert code == 1
    assert "it has members: stop its consumers first" in err


def test_a_group_is_read_moved_and_deleted(ask: Callable[..., Told], topic: str) -> None:
    group, other = f"{topic}-a", f"{topic}-b"

    def offsets(of_group: str = group) -> list[int | None]:
        code, out, _ = ask("group", "lag", of_group, "--format", "json")
        assert code == 0
        return [row["committed_offset"] for row in json.loads(out)]

    code, first, _ = ask("consume", topic, "-g", group, "-n", "3", "-f", r"%p:%o\n")
    assert (code, len(first.splitlines())) == (0, 3)
    code, rest, _ = ask("consume", topic, "-g", group, "-e", "-f", r"%p:%o\n")
    assert sorted((first + rest).split()) == [f"{p}:{o}" for p in (0, 1) for o in range(5)]
    assert offsets() == [5, 5]
    code, _, err = ask("group", "delete", group, "-t", "typo")
    assert (code, err.count("nothing is committed by group")) == (1, 1)
    code, _, err = ask("group", "delete", group, "-t", topic, "-t", "typo")
    assert (code, "'typo'" in err, offsets()) == (1, True, [5, 5])
    code, _, err = ask("group", "seek", group, "--to", "0", "-p", "0", "-p", "7")
    assert (code, f"{topic} has no partition 7: nothing was changed" in err, offsets()) == (1, True, [5, 5])
    code, _, err = ask("group", "seek", group, "--shift", "-2", "-p", "1", "--dry-run")
    assert (code, offsets()) == (0, [5, 5])
    assert "nothing was changed" in err
    code, out, _ = ask("group", "seek", group, "--shift", "-2", "-p", "1", "--format", "json")
    assert json.loads(out) == [
        {"topic": topic, "partition": 1, "committed_offset": 5, "new_offset": 3, "shift": -2}
    ]
    assert offsets() == [5, 3]
    assert ask("group", "seek", other, "--to-group", group)[0] == 0
    assert offsets(other) == [5, 3]
    assert ask("group", "seek", group, "-t", topic, "-o", "+1")[0] == 0
    assert offsets() == [1, 1]
    code, _, err = ask("group", "delete", other, "-t", topic, "--dry-run")
    assert (code, offsets(other)) == (0, [5, 3])
    assert f"would delete offsets of {other} in {topic}, committed in 2 partitions" in err
    assert ask("group", "delete", other, "-t", topic)[0] == 0
    code, _, err = ask("group", "delete", group)
    assert (code, err) == (0, f"deleted group {group}, committed in 2 partitions\n")
    code, _, err = ask("group", "describe", group)
    assert (code, "there is no group" in err) == (1, True)
    assert ask("group", "lag", "no-such-group")[0] == 1


def test_a_partition_that_was_named_and_cannot_be_shifted_is_an_error(
    ask: Callable[..., Told], bootstrap: str, topic: str
) -> None:
    group = f"{topic}-half"
    with semel.Admin(bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): 4})
        code, out, err = ask("group", "seek", group, "--shift", "-1", "-p", "0", "-p", "1")
        assert (code, out) == (1, "")
        assert f"{topic}-1: group {group!r} has committed nothing there" in err
        assert ask("group", "seek", group, "--shift", "-1")[0] == 0
        assert {tp.partition: at.offset for tp, at in admin.group_offsets(group).items()} == {0: 3}


def test_a_dry_run_says_what_members_keep_from_being_done(
    ask: Callable[..., Told], bootstrap: str, topic: str, reader: semel.Consumer
) -> None:
    group, idle = f"{topic}-readers", f"{topic}-idle"
    reader.commit()
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(f"{topic}-unread", 1)
        admin.alter_group_offsets(idle, {TopicPartition(topic, 0): 4})
        assert admin.describe_groups([group])[group].members[0].topics == (topic,)
    code, out, err = ask("group", "seek", group, "--to", "start", "--dry-run", "--format", "json")
    assert (code, [row["new_offset"] for row in json.loads(out)]) == (1, [0, 0])
    assert f"nothing would be: group {group!r} has members" in err
    for named in ([], ["-t", topic]):
        code, _, err = ask("group", "delete", idle, group, "--dry-run", *named)
        assert code == 1
        assert f"would delete {'offsets of' if named else 'group'} {idle}" in err
        assert f"this would not be: {'offsets of' if named else 'group'} {group}" in err


@pytest.mark.parametrize("of_topic", [False, True])
def test_what_was_deleted_before_a_refusal_is_told(
    ask: Callable[..., Told], bootstrap: str, topic: str, reader: semel.Consumer, of_topic: bool
) -> None:
    group, others = f"{topic}-readers", [f"{topic}-a", f"{topic}-b"]
    reader.commit()
    with semel.Admin(bootstrap) as admin:
        for other in others:
            admin.alter_group_offsets(other, {TopicPartition(topic, 0): 4})
        code, _, err = ask("group", "delete", others[0], group, others[1], *(["-t", topic] * of_topic))
        assert code == 1
        for other in others:
            what = f"offsets of {other} in {topic}" if of_topic else f"group {other}"
            assert f"deleted {what}, committed in 1 partition\n" in err
        assert f"not deleted: {'offsets of group ' if of_topic else ''}{group!r}" in err
        assert len(admin.group_offsets(group)) == 2


def test_of_several_topics_those_are_told_that_were_not_deleted_and_those_that_were(
    bootstrap: str, topic: str, reader: semel.Consumer
) -> None:
    group, unread = f"{topic}-readers", f"{topic}-unread"
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(unread, 1)
        reader.commit({TopicPartition(unread, 0): 0, TopicPartition(topic, 0): 3})
        with pytest.raises(
            semel.errors.NotCommitted, match=f"in topic '{topic}'.*Those in topic '{unread}' were"
        ):
            admin.delete_group_offsets(group, [TopicPartition(unread, 0), TopicPartition(topic, 0)])
        assert list(admin.group_offsets(group)) == [TopicPartition(topic, 0)]


def test_offsets_of_an_open_transaction_hide_none_from_an_administrator(
    ask: Callable[..., Told], bootstrap: str, topic: str
) -> None:
    """Who begins to read there waits for its end; who looks is told what is committed until then."""
    group = f"{topic}-copier"
    with (
        semel.Admin(bootstrap, request_timeout_ms=10_000) as admin,
        semel.Producer(bootstrap, transactional_id=group) as producer,
        semel.Consumer(bootstrap, group_id=group, enable_auto_commit=False) as consumer,
    ):
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        admin.alter_group_offsets(group, {tp: 1})
        with producer.transaction() as transaction:
            while not consumer.poll(1.0):
                pass
            transaction.commit_offsets(consumer)
            assert admin.group_offsets(group)[tp].offset == 1
            assert [item.lag for item in admin.group_lag(group)] == [4, None]
            code, out, _ = ask("group", "seek", group, "--shift", "1", "--format", "json")
            assert (code, json.loads(out)[0]["new_offset"]) == (0, 2)
        assert admin.group_offsets(group)[tp].offset == 2, "the newer commit counts"
        assert ask("group", "delete", group)[0] == 0


@pytest.mark.thorough
def test_a_member_that_is_given_nothing_is_at_the_end(bootstrap: str, topic: str) -> None:
    group, single = f"{topic}-surplus", f"{topic}-single"
    over = threading.Event()
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(single, 1)
    with semel.Consumer(bootstrap, group_id=group, **QUICK) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(single)

        def read() -> None:
            while not over.is_set():
                consumer.poll(0.2)

        reading = threading.Thread(target=read)
        reading.start()
        try:
            give_up_s = time.monotonic() + 30
            while not consumer.assignment():
                assert time.monotonic() < give_up_s
                time.sleep(0.1)
            arguments = ["consume", single, "-g", group, "-e", "-b", bootstrap]
            told = subprocess.run(
                [sys.executable, "-m", "semel.cli", *arguments], capture_output=True, timeout=60, check=True
            )
            assert told.stdout == b""
            assert consumer.assignment() == [TopicPartition(single, 0)]
        finally:
            over.set()
            reading.join()


def test_who_has_read_a_topic_that_ends_in_markers_has_no_lag(
    ask: Callable[..., Told], bootstrap: str
) -> None:
    """A marker has an offset, and no reader is given it. What is open is nobody's to read yet."""
    with Wire(bootstrap, f"lag-{uuid.uuid4().hex[:8]}-") as wire:
        topic, room = wire.new_topic(), Transactions(wire)
        writer = room.producer()
        for commit in (True, False):
            writer.write(topic, b"a", b"b")
            writer.end(commit=commit)
        group = f"{topic}-readers"

        def lag(end_offset: int) -> int:
            """Once a reader has committed that it is there."""
            with semel.Consumer(bootstrap, group_id=group, **QUICK) as consumer:  # type: ignore[arg-type]
                consumer.subscribe(topic)
                give_up_s = time.monotonic() + 30
                while [consumer.position(tp) for tp in consumer.assignment()] != [end_offset]:
                    assert time.monotonic() < give_up_s, "it waits in front of a marker"
                    consumer.poll(0.2)
                consumer.commit()
            code, out, _ = ask("group", "lag", group, "--format", "json")
            assert code == 0
            (row,) = json.loads(out)
            lag = row["lag"]
            assert isinstance(lag, int)
            return lag

        assert lag(6) == 0
        _, out, _ = ask("topic", "describe", topic, "--format", "json")
        assert json.loads(out)["partitions"][0]["offsets"] == 6, "of which two are rows"
        writer.write(topic, b"c")
        assert lag(6) == 0


def test_the_admin_client_gives_the_same_as_values(bootstrap: str, topic: str) -> None:
    group = f"{topic}-admin"
    tp = TopicPartition(topic, 1)
    with semel.Admin(bootstrap) as admin:
        admin.alter_group_offsets(group, {tp: (4, "by hand")})
        assert group in [item.group for item in admin.groups()]
        assert admin.describe_groups([group])[group].members == ()
        assert {key: (at.offset, at.metadata) for key, at in admin.group_offsets(group).items()} == {
            tp: (4, "by hand")
        }
        assert [(item.tp.partition, item.lag) for item in admin.group_lag(group)] == [(0, None), (1, 1)]
        admin.delete_group_offsets(group, [tp])
        assert admin.group_offsets(group) == {}
        with pytest.raises(semel.errors.GroupError, match="'none-such': there is none"):
            admin.delete_groups(["none-such"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["group", "seek", "g"], "say where to, in one way"),
        (["group", "seek", "g", "--to", "end", "--shift", "1"], "say where to, in one way"),
        (["group", "seek", "g", "--to", "yesterday"], "'yesterday' is not an offset"),
        (["consume", "t", "-g", "g", "-p", "1"], "-p does not go with -g"),
        (["consume", "t", "-g", "g", "-o", "-5"], "semel group seek sets where a group goes on"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert told in capsys.readouterr().err


def test_partitions_that_follow_each_other_are_one_word() -> None:
    given = [
        {"topic": topic, "partition": n} for topic, n in [("a", 0), ("a", 1), ("a", 2), ("a", 5), ("b", 3)]
    ]
    assert _ranges(given) == ["a-0..2", "a-5", "b-3"]
