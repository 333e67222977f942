"""Our consumers in groups, with each other and with others' consumers, at semel's coordinator and at Kafka's."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import confluent_kafka
import pytest
from _pytest.mark.structures import ParameterSet
from tests.peers.apache_kafka import JavaTool

import semel
from semel.errors import GroupError, MemberFenced, NoCommittedOffset, NotCommitted
from semel.types import TopicPartition

with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

PARTITIONS = 6
PATIENCE_S = 40.0
QUICK = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    """A topic of six partitions with ten rows in each."""
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, PARTITIONS)
    produce(bootstrap, topic, 10)
    return topic


def produce(bootstrap: str, topic: str, count: int) -> None:
    with semel.Producer(bootstrap) as producer:
        for row in range(count * PARTITIONS):
            producer.send(topic, b"%d" % row, partition=row % PARTITIONS)
        producer.flush(30)


class Members:
    """Consumers that poll in turn, on one thread, and what each has read."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap, self.group = bootstrap, group
        self.all: list[semel.Consumer] = []
        self.rows: list[tuple[int, int]] = []  # partition and offset, in the order of reading
        self.told: dict[semel.Consumer, list[tuple[str, int]]] = {}

    def add(self, topics: str | list[str], **settings: object) -> semel.Consumer:
        consumer = semel.Consumer(self.bootstrap, group_id=self.group, **(QUICK | settings))  # type: ignore[arg-type]
        told = self.told[consumer] = []
        consumer.subscribe(
            topics,
            on_assigned=lambda tps: told.append(("assigned", len(tps))),
            on_revoked=lambda tps: told.append(("revoked", len(tps))),
            on_lost=lambda tps: told.append(("lost", len(tps))),
        )
        self.all.append(consumer)
        return consumer

    def poll_until(self, is_done: Callable[[], bool], besides: Sequence[Callable[[], object]] = ()) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not is_done():
            assert time.monotonic() < give_up_s, [consumer.assignment() for consumer in self.all]
            for consumer in self.all:
                self.rows += [(record.partition, record.offset) for record in consumer.poll(0.1)]
            for poll in besides:
                poll()

    def shares(self) -> list[int]:
        return sorted(len(consumer.assignment()) for consumer in self.all)


@pytest.fixture
def members(bootstrap: str, topic: str) -> Iterator[Members]:
    group = Members(bootstrap, f"group-{topic}")
    yield group
    for consumer in group.all:
        consumer.close()


def _slow(*values: str) -> list[ParameterSet]:
    """One more form of what the loop has in one form."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def every_row(count: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(count)]


@pytest.mark.parametrize("strategy", ["cooperative-sticky", *_slow("range", "sticky")])
def test_a_group_reads_each_row_once_while_members_come_and_go(
    members: Members, bootstrap: str, filled: str, strategy: str
) -> None:
    first = members.add(filled, partition_assignment_strategy=strategy)
    members.poll_until(lambda: len(members.rows) == 10 * PARTITIONS)
    second = members.add(filled, partition_assignment_strategy=strategy)
    members.add(filled, partition_assignment_strategy=strategy)
    members.poll_until(lambda: members.shares() == [2, 2, 2])
    if strategy == "cooperative-sticky":
        assert members.told[first][0] == ("assigned", 6)
        assert sum(count for what, count in members.told[first] if what == "revoked") == 4
        assert all(what == "assigned" for what, _ in members.told[second]), "nobody gave what was new back"
    members.all.remove(second)
    second.close()
    members.poll_until(lambda: members.shares() == [3, 3])
    produce(bootstrap, filled, 10)
    members.poll_until(lambda: len(members.rows) >= 20 * PARTITIONS)
    assert sorted(members.rows) == every_row(20), "what was read was committed before it went to others"


@pytest.mark.parametrize("strategy", ["range", *_slow("cooperative-sticky")])
def test_a_group_is_shared_with_librdkafka(
    members: Members, bootstrap: str, filled: str, strategy: str
) -> None:
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": members.group,
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 6_000,
        }
    )
    read_by_them: list[tuple[int, int]] = []

    def poll_theirs() -> None:
        while (message := theirs.poll(0.1)) is not None:
            assert message.error() is None, message.error()
            read_by_them.append((message.partition(), message.offset()))

    theirs.subscribe([filled])
    members.poll_until(lambda: len(theirs.assignment()) == PARTITIONS, [poll_theirs])  # it leads
    members.add(filled, partition_assignment_strategy=strategy)
    members.poll_until(
        lambda: (len(theirs.assignment()), members.shares()) == (PARTITIONS // 2, [PARTITIONS // 2]),
        [poll_theirs],
    )
    members.poll_until(lambda: len(read_by_them) + len(members.rows) >= 10 * PARTITIONS, [poll_theirs])
    theirs.close()
    members.poll_until(lambda: members.shares() == [PARTITIONS])  # now we lead
    again = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": members.group, "partition.assignment.strategy": strategy}
    )
    again.subscribe([filled])
    members.poll_until(
        lambda: (len(again.assignment()), members.shares()) == (PARTITIONS // 2, [PARTITIONS // 2]),
        [lambda: again.poll(0.1)],
    )
    again.close()
    assert set(read_by_them) | set(members.rows) == set(every_row(10))


@pytest.mark.slow  # for a session, which no broker lets be shorter than 6 s
def test_the_partitions_of_a_member_that_is_killed_go_to_the_others(
    members: Members, bootstrap: str, filled: str
) -> None:
    members.add(filled)
    killed = members.add(filled)
    members.poll_until(lambda: members.shares() == [3, 3])
    members.all.remove(killed)
    vanish(killed)
    members.poll_until(lambda: members.shares() == [6])


def vanish(consumer: semel.Consumer) -> None:
    """As a killed process: every connection is closed, and nothing is said."""
    inner = consumer.inner

    async def end() -> None:
        assert inner._engine is not None and inner._line is not None
        await inner._engine.close()
        await inner._line.close()
        await inner.cluster.close()

    consumer._background.run(end())


def test_a_static_member_that_restarts_gets_its_partitions_without_a_rebalance(
    members: Members, bootstrap: str, filled: str
) -> None:
    stays = members.add(filled, group_instance_id="stays")
    restarts = members.add(filled, group_instance_id="restarts")
    members.poll_until(lambda: members.shares() == [3, 3])
    its, told = restarts.assignment(), list(members.told[stays])
    members.all.remove(restarts)
    restarts.close()
    again = members.add(filled, group_instance_id="restarts")
    members.poll_until(lambda: again.assignment() == its)
    with semel.Consumer(bootstrap, group_id=members.group, group_instance_id="restarts", **QUICK) as third:  # type: ignore[arg-type]
        third.subscribe(filled)
        deadline_s = time.monotonic() + PATIENCE_S
        while not third.assignment():
            third.poll(0.1)
            stays.poll(0.1)
            assert time.monotonic() < deadline_s
        assert third.assignment() == its
        with pytest.raises(MemberFenced, match="group_instance_id='restarts'"):
            while time.monotonic() < deadline_s:
                again.poll(0.2)
        assert again.assignment() == []
        assert members.told[again][-1] == ("lost", 3)
    members.all.remove(again)
    again.close()
    assert members.told[stays] == told, "the other one has noticed nothing"


def test_what_an_expelled_member_commits_is_refused(members: Members, bootstrap: str, filled: str) -> None:
    """One that works for longer than it may between two polls: others read on behind its last commit."""
    slow = members.add(filled, max_poll_interval_ms=1_000, enable_auto_commit=False)
    members.poll_until(lambda: members.shares() == [6])
    members.all.remove(slow)
    members.add(filled)
    members.poll_until(lambda: members.shares() == [6])
    with pytest.raises(NotCommitted, match=r"commit of .*Nothing was committed.*max_poll_interval_ms"):
        slow.commit()
    members.all.append(slow)
    members.poll_until(lambda: members.shares() == [3, 3])
    assert ("lost", 6) in members.told[slow]
    slow.commit()


def test_a_pattern_finds_topics_that_come_later(members: Members, bootstrap: str, filled: str) -> None:
    consumer = members.add(f"^{filled}", metadata_max_age_ms=300)
    members.poll_until(lambda: members.shares() == [6])
    assert consumer.subscription() == {filled}
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(f"{filled}-later", 2)
        members.poll_until(lambda: members.shares() == [8])
        assert consumer.subscription() == {filled, f"{filled}-later"}
        admin.add_partitions(f"{filled}-later", 3)
        members.poll_until(lambda: members.shares() == [9])
    consumer.unsubscribe()
    assert consumer.assignment() == []


def test_a_member_goes_on_where_the_group_has_come_to(bootstrap: str, filled: str) -> None:
    tps = [TopicPartition(filled, number) for number in range(PARTITIONS)]
    group = f"group-{filled}"
    with semel.Consumer(bootstrap, group_id=group, auto_offset_reset="error") as consumer:
        consumer.subscribe(filled)
        with pytest.raises(NoCommittedOffset, match="has no committed offset") as missing:
            consumer.poll(20.0)
        assert set(missing.value.partitions) == set(tps)
        consumer.seek_to_beginning()
        read = [consumer.poll(10.0, 1)[0] for _ in range(5)]
        consumer.pause(*tps)
        assert consumer.poll(0.2) == []
        assert consumer.paused() == set(tps)
        consumer.resume(*tps)
        consumer.commit({tps[5]: (7, "by hand")})
        assert consumer.committed([tps[5]]) == {tps[5]: 7}
        consumer.seek(tps[5], 9)
    with contextlib.suppress(ZeroDivisionError), semel.Consumer(bootstrap, group_id=group) as consumer:
        consumer.subscribe([filled])
        rows = iter(consumer)
        for _ in range(10):
            read.append(next(rows))
        raise ZeroDivisionError  # the tenth row was in work
    with semel.Consumer(bootstrap, group_id=group) as consumer:
        consumer.assign(tps)
        while len(read) < 15 + 36 + 1:
            read += consumer.poll(10.0)
    read_again = {(record.partition, record.offset) for record in read}
    assert len(read_again) == len(read) - 1, "the row that was in work came again, and no other"
    assert read_again == {row for row in every_row(10) if row[0] != 5 or row[1] == 9}


def test_who_divides_otherwise_than_the_group_is_told_so(members: Members, filled: str) -> None:
    members.add(filled)
    members.poll_until(lambda: members.shares() == [6])
    with semel.Consumer(
        members.bootstrap, group_id=members.group, partition_assignment_strategy="roundrobin"
    ) as other:
        other.subscribe(filled)
        with pytest.raises(
            GroupError, match=r"INCONSISTENT_GROUP_PROTOCOL.*one partition_assignment_strategy"
        ):
            other.poll(20.0)


@pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")
def test_a_group_is_shared_with_kafka_python(members: Members, bootstrap: str, filled: str) -> None:
    theirs = KafkaConsumer(
        filled, bootstrap_servers=bootstrap, group_id=members.group, heartbeat_interval_ms=300
    )

    def shares() -> tuple[int, list[int]]:
        return len(theirs.assignment()), members.shares()

    with contextlib.closing(theirs):
        members.poll_until(lambda: len(theirs.assignment()) == PARTITIONS, [lambda: theirs.poll(100)])
        members.add(filled, partition_assignment_strategy="range")
        members.poll_until(lambda: shares() == (3, [3]), [lambda: theirs.poll(100)])
    members.poll_until(lambda: members.shares() == [6])


@pytest.mark.everyday
@pytest.mark.kafka
@pytest.mark.slow
def test_a_group_is_shared_with_kafkas_own_consumer(
    members: Members, bootstrap: str, filled: str, java_tool: JavaTool
) -> None:
    """Cooperatively: it leads, and keeps three of its partitions while it lets go of the others."""
    command = java_tool.command(
        *(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server",
            bootstrap,
            "--topic",
            filled,
        ),
        *(
            "--group",
            members.group,
            "--consumer-property",
            "heartbeat.interval.ms=300",
            "--consumer-property",
        ),
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    )
    theirs = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with semel.Admin(bootstrap) as admin:

            def shares() -> list[int]:
                found = admin.cluster.describe_groups([members.group])[members.group]
                return sorted(len(member.assigned) for member in found.members) if found else []

            members.poll_until(lambda: shares() == [6], [lambda: time.sleep(0.1)])
            members.add(filled)
            members.poll_until(lambda: (shares(), members.shares()) == ([3, 3], [3]))
    finally:
        theirs.kill()
        theirs.wait()


def test_a_loop_of_ones_own_reads_in_a_group(bootstrap: str, filled: str) -> None:
    asyncio.run(read_in_a_group(bootstrap, filled))


async def read_in_a_group(bootstrap: str, filled: str) -> None:
    told: list[tuple[str, int]] = []

    async def came(tps: list[TopicPartition]) -> None:
        told.append(("came", len(tps)))

    async def went(tps: list[TopicPartition]) -> None:
        await consumer.commit({tps[0]: 3})
        told.append(("went", len(tps)))

    async with semel.aio.Consumer(bootstrap, group_id=f"group-{filled}") as consumer:
        await consumer.subscribe(filled, on_assigned=came, on_revoked=went)
        read = 0
        async for _ in consumer:
            read += 1
            if read == 10 * PARTITIONS:
                break
        await consumer.unsubscribe()
        assert told == [("came", 6), ("went", 6)]
        await consumer.assign([TopicPartition(filled, number) for number in range(PARTITIONS)])
        assert [consumer.position(tp) for tp in consumer.assignment()] == [3, 10, 10, 10, 10, 10]
