"""Stock consumers share a topic; one is killed, then the server: nothing is lost, and what is committed stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.peers.group_members.groups_log import groups_log
from tests.peers.group_members.member import TIMEOUT_S, until
from tests.peers.group_members.programs import (
    How,
    Start,
    franz_go_member,
    kafkajs_member,
    kcat_member,
    python_member,
)
from tests.peers.group_members.python import CLIENTS

from semel.core.group.records import OffsetKey, decode_offset
from semel.local import LocalLog

pytestmark = pytest.mark.slow

PARTITIONS = 4
ROWS = 50  # of a partition, at a time
EVERY = frozenset(range(PARTITIONS))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    """A server that takes short sessions: its tests wait for their ends."""
    with LocalLog(tmp_path_factory.mktemp("members"), group_min_session_timeout_ms=1) as log:
        yield log


def write(bootstrap: str, topic: str) -> None:
    """Some more rows in each partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(PARTITIONS * ROWS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def committed(bootstrap: str, group: str) -> dict[int, list[int]]:
    """Every offset that the group has committed, in the order of the log."""
    found = defaultdict(list)
    for key, value in groups_log(bootstrap):
        if isinstance(key, OffsetKey) and key.group_id == group and value is not None:
            found[key.partition.partition].append(decode_offset(value).committed_offset)
    return found


def survive(log: LocalLog, client: str, start: Start, *, tells_before_it_commits: bool) -> None:
    """Two members; one is killed, the server is killed, and the other one goes on alone."""
    topic, group = f"shared-by-{client}", f"group-of-{client}"
    admin = AdminClient({"bootstrap.servers": log.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    write(log.bootstrap, topic)
    with ExitStack() as stack:
        members = []
        for _ in range(2):
            members.append(start(log.bootstrap, topic, group, How()))
            stack.callback(members[-1].kill)
        first, second = members

        def have_read(rows: int) -> bool:
            return len(first.rows | second.rows) == rows * PARTITIONS

        until(lambda: [len(one.assigned) for one in members] == [2, 2], members, "each has its half")
        assert first.assigned | second.assigned == EVERY
        write(log.bootstrap, topic)
        if not tells_before_it_commits:
            until(lambda: have_read(2 * ROWS), members, "all is read before anyone is killed")
        first.kill()
        log.crash()
        log.restart()
        write(log.bootstrap, topic)
        until(lambda: second.assigned == EVERY, members, "the survivor has all")
        write(log.bootstrap, topic)
        until(lambda: have_read(4 * ROWS), members, "every row is read")
        until(
            lambda: all(offsets[-1] == 4 * ROWS for offsets in committed(log.bootstrap, group).values()),
            members,
            "all of it is committed",
        )
    for offsets in committed(log.bootstrap, group).values():
        assert offsets == sorted(offsets), "a position went back"


@pytest.mark.thorough
@pytest.mark.parametrize("client", CLIENTS)
def test_members_share_and_the_survivor_takes_over(log: LocalLog, client: str) -> None:
    survive(log, client, python_member(client), tells_before_it_commits=True)


@pytest.mark.thorough
def test_members_of_kafkajs_share_and_the_survivor_takes_over(log: LocalLog, kafkajs: Path) -> None:
    survive(log, "kafkajs", kafkajs_member(kafkajs), tells_before_it_commits=True)


def test_members_of_franz_go_share_and_the_survivor_takes_over(log: LocalLog, franz_go: Path) -> None:
    survive(log, "franz-go", franz_go_member(franz_go), tells_before_it_commits=True)


@pytest.mark.thorough
@pytest.mark.kcat
def test_members_of_kcat_share_and_the_survivor_takes_over(log: LocalLog, kcat: Path) -> None:
    survive(log, "kcat", kcat_member(kcat), tells_before_it_commits=False)
