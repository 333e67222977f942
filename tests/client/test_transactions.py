"""Transactions against Apache Kafka by both of its protocols: what counts, what does not, and what the user is told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.client.transactional import (
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    TransactionalKafka,
    transactional_kafka,
    transactional_semel,
    values,
)
from tests.peers.apache_kafka import JavaTool

import semel
from semel.client.background import shared_loop
from semel.client.transactions import ProducerTransactions
from semel.errors import (
    CommitInDoubt,
    ConfigError,
    FencedNotStored,
    MemberFenced,
    NotStored,
    ProducerFenced,
    TransactionAborted,
    TransactionsEnded,
    TransactionTimedOut,
)
from semel.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_numbers = itertools.count(1)


@pytest.fixture(
    scope="module", params=[0, 2, pytest.param(1, marks=pytest.mark.thorough)], ids=["semel", "v2", "v1"]
)
def kafka(
    request: pytest.FixtureRequest, java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TransactionalKafka]:
    if not request.param:
        with transactional_semel(tmp_path_factory.mktemp("semel")) as served:
            yield served
        return
    folder = tmp_path_factory.mktemp(f"kafka-v{request.param}")
    with transactional_kafka(java_tool, folder, request.param) as running:
        yield running


@pytest.fixture
def topic(kafka: TransactionalKafka) -> str:
    name = f"out-{next(_numbers)}"
    with semel.Admin(kafka.bootstrap) as admin:
        admin.create_topic(name, 2)
    return name


@pytest.fixture
def source(kafka: TransactionalKafka) -> str:
    """Ten rows in one partition."""
    name = f"in-{next(_numbers)}"
    with semel.Admin(kafka.bootstrap) as admin, semel.Producer(kafka.bootstrap) as producer:
        admin.create_topic(name, 1)
        for row in range(10):
            producer.send(name, b"%d" % row)
    return name


def producer_of(kafka: TransactionalKafka, topic: str, **settings: Any) -> semel.Producer:
    return semel.Producer(kafka.bootstrap, transactional_id=topic, **settings)


def reader_of(kafka: TransactionalKafka, source: str, **settings: Any) -> semel.Consumer:
    settings = {"enable_auto_commit": False, "group_id": f"group-{source}", **settings}
    consumer = semel.Consumer(kafka.bootstrap, **settings)
    consumer.subscribe(source)
    return consumer


def polled(consumer: semel.Consumer, max_records: int | None = None) -> list[bytes | None]:
    for _ in range(100):
        if rows := consumer.poll(0.2, max_records):
            return [row.value for row in rows]
    raise AssertionError("no rows came")


def test_what_is_committed_is_seen_as_a_whole_and_what_is_aborted_never(
    kafka: TransactionalKafka, topic: str
) -> None:
    with producer_of(kafka, topic) as producer:
        with producer.transaction():
            producer.send(topic, b"a", partition=0)
            producer.send(topic, b"b", partition=1)
            producer.flush(30)
            assert values(kafka.bootstrap, topic, is_open=True) == []
            give_up_s = time.monotonic() + 30
            while values(kafka.bootstrap, topic, "read_uncommitted", is_open=True) != [b"a", b"b"]:
                assert time.monotonic() < give_up_s  # semel shows them once they are durable
        assert values(kafka.bootstrap, topic) == [b"a", b"b"]
        with pytest.raises(KeyError), producer.transaction():
            producer.send(topic, b"c", partition=0).result(30)
            raise KeyError
        with producer.transaction():
            producer.send(topic, b"d", partition=0)
        assert values(kafka.bootstrap, topic) == [b"a", b"d", b"b"]
    assert values(kafka.bootstrap, topic, "read_uncommitted") == [b"a", b"c", b"d", b"b"]


def test_many_transactions_follow_each_other_at_once(kafka: TransactionalKafka, topic: str) -> None:
    """The next one begins while the markers of the one before are still being written."""
    expected = []
    with producer_of(kafka, topic, linger_ms=0) as producer:
        for number in range(40):
            try:
                with producer.transaction():
                    for row in range(number % 4):
                        producer.send(topic, b"%d-%d" % (number, row), partition=0)
                    if number % 5 == 3:
                        raise KeyError
                expected += [b"%d-%d" % (number, row) for row in range(number % 4)]
            except KeyError:
                pass
    assert values(kafka.bootstrap, topic) == expected


def test_a_table_goes_in_a_transaction(kafka: TransactionalKafka, topic: str) -> None:
    rows = pa.table({"value": [b"%d" % row for row in range(1_000)]})
    with producer_of(kafka, topic, compression="zstd") as producer:
        with pytest.raises(KeyError), producer.transaction():
            producer.send_table(topic, rows)
            raise KeyError
        with producer.transaction():
            assert len(producer.send_table(topic, rows).result()) == 2
    assert len(values(kafka.bootstrap, topic)) == 1_000


def test_nothing_is_sent_outside_of_a_transaction(kafka: TransactionalKafka, topic: str) -> None:
    with producer_of(kafka, topic) as producer:
        with pytest.raises(ConfigError, match=r"with producer.transaction\(\).*nothing was sent"):
            producer.send(topic, b"a")
        with producer.transaction(), pytest.raises(ConfigError, match="in a transaction already"):
            producer.transaction().__enter__()
        with producer.transaction():
            pass
    assert values(kafka.bootstrap, topic, "read_uncommitted") == []
    with (
        semel.Producer(kafka.bootstrap) as plain,
        pytest.raises(ConfigError, match="needs a producer with a transactional_id"),
    ):
        plain.transaction()


@pytest.mark.everyday
def test_a_consumers_positions_count_with_the_rows(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    with producer_of(kafka, topic) as producer:
        with reader_of(kafka, source) as consumer:
            with producer.transaction(consumer):
                for value in polled(consumer, 4):
                    producer.send(topic, value, partition=0)
            assert consumer.committed() == {TopicPartition(source, 0): 4}
        with reader_of(kafka, source) as consumer, producer.transaction() as transaction:
            for value in polled(consumer, 3):
                producer.send(topic, value, partition=0)
            transaction.commit_offsets(consumer)
            for value in polled(consumer, 3):
                producer.send(topic, value, partition=0)
            transaction.commit_offsets(consumer)
    assert values(kafka.bootstrap, topic) == [b"%d" % row for row in range(10)]
    with semel.Admin(kafka.bootstrap) as admin:
        (lag,) = admin.group_lag(f"group-{source}")
        assert (lag.committed_offset, lag.lag) == (10, 0)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_after_an_abort_the_rows_are_handed_out_again(
    kafka: TransactionalKafka, topic: str, source: str, reset: Any
) -> None:
    """KAFKA-17582. Also where nothing was committed yet, whatever is to be done then."""
    with producer_of(kafka, topic) as producer, reader_of(kafka, source, auto_offset_reset=reset) as consumer:
        if reset == "latest":
            assert consumer.poll(1.0) == [] == consumer.poll(1.0)
            with semel.Producer(kafka.bootstrap) as plain:
                for row in range(10):
                    plain.send(source, b"%d" % row)
        for attempt in range(3):
            taken = polled(consumer, 4)
            assert taken == [b"0", b"1", b"2", b"3"]
            if attempt == 1:  # the positions were taken down, and do not count
                with pytest.raises(KeyError), producer.transaction() as transaction:
                    producer.send(topic, taken[0], partition=0)
                    transaction.commit_offsets(consumer)
                    raise KeyError
                continue
            try:
                with producer.transaction(consumer):
                    for value in taken:
                        producer.send(topic, value, partition=0)
                    if attempt < 2:
                        raise KeyError
            except KeyError:
                pass
        with producer.transaction(consumer):
            for value in polled(consumer):
                producer.send(topic, value, partition=0)
    assert values(kafka.bootstrap, topic) == [b"%d" % row for row in range(10)]


def test_rows_are_handed_out_again_where_a_transaction_cannot_be_begun(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    """They are in none, and the next one would commit their positions."""
    with reader_of(kafka, source) as consumer:
        with producer_of(kafka, topic) as older:
            taken = polled(consumer, 4)
            with pytest.raises(ProducerFenced), older.transaction():
                older.send(topic, b"old", partition=0).result(30)
                producer_of(kafka, topic).close()
            with pytest.raises(ProducerFenced), older.transaction(consumer):
                pass
        with producer_of(kafka, topic) as newer:
            with newer.transaction(consumer):
                for value in polled(consumer, 4):
                    newer.send(topic, value, partition=0)
                with pytest.raises(ConfigError, match="in a transaction already"):
                    newer.transaction(consumer).__enter__()
            assert consumer.committed() == {TopicPartition(source, 0): 4}
    assert values(kafka.bootstrap, topic) == taken


def test_a_consumer_that_commits_by_itself_is_refused(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    with producer_of(kafka, topic) as producer:
        with reader_of(kafka, source, enable_auto_commit=True) as consumer:
            with pytest.raises(ConfigError, match="enable_auto_commit=False"), producer.transaction(consumer):
                pass
            with pytest.raises(ConfigError), producer.transaction() as transaction:
                transaction.commit_offsets(consumer)
        with semel.Consumer(kafka.bootstrap) as consumer:
            consumer.assign([TopicPartition(source, 0)])
            with pytest.raises(ConfigError, match="group_id"), producer.transaction(consumer):
                pass


def test_a_consumer_of_another_cluster_is_refused(
    kafka: TransactionalKafka, topic: str, source: str, tmp_path: Path
) -> None:
    """Its positions would be taken, and count where it never looks for them."""
    with semel.LocalLog(tmp_path / "elsewhere") as elsewhere, producer_of(kafka, topic) as producer:
        with semel.Producer(elsewhere.bootstrap) as other:
            other.send(source, b"row").result()
        with semel.Consumer(elsewhere.bootstrap, group_id="g", enable_auto_commit=False) as consumer:
            consumer.subscribe(source)
            assert polled(consumer) == [b"row"]
            with pytest.raises(ConfigError, match="reads from cluster"), producer.transaction(consumer):
                raise AssertionError("it was begun")
            assert polled(consumer) == [b"row"], "it was handed out in no transaction"
            with (
                pytest.raises(ConfigError, match="reads from cluster"),
                producer.transaction() as transaction,
            ):
                producer.send(topic, b"row")
                transaction.commit_offsets(consumer)
    assert values(kafka.bootstrap, topic) == []


def test_a_newer_copy_shuts_the_older_one_out_and_ends_what_it_had_open(
    kafka: TransactionalKafka, topic: str
) -> None:
    with producer_of(kafka, topic) as older:
        with pytest.raises(FencedNotStored, match="another copy") as told, older.transaction():
            older.send(topic, b"old", partition=0).result(30)
            with producer_of(kafka, topic) as newer:
                assert values(kafka.bootstrap, topic) == []  # to its end, which nothing holds back
                with newer.transaction():
                    newer.send(topic, b"new", partition=0)
        assert isinstance(told.value, ProducerFenced)
        with pytest.raises(ProducerFenced), older.transaction():
            pass
    assert values(kafka.bootstrap, topic) == [b"new"]


def test_a_row_of_a_producer_that_was_shut_out_is_told_so(kafka: TransactionalKafka, topic: str) -> None:
    with producer_of(kafka, topic) as older:
        with pytest.raises(ProducerFenced), older.transaction():
            older.send(topic, b"old", partition=0).result(30)
            producer_of(kafka, topic).close()
            with pytest.raises(NotStored):
                older.send(topic, b"late", partition=0).result(30)
        with pytest.raises(ProducerFenced):
            older.send(topic, b"later")


def test_a_transaction_that_takes_too_long_is_told_apart(kafka: TransactionalKafka, topic: str) -> None:
    with producer_of(kafka, topic, transaction_timeout_ms=1_000) as producer:
        with pytest.raises(TransactionTimedOut, match="transaction_timeout_ms=1000"), producer.transaction():
            producer.send(topic, b"slow", partition=0).result(30)
            time.sleep(3)
        with pytest.raises(TransactionTimedOut), producer.transaction():
            pass
    with producer_of(kafka, topic) as producer, producer.transaction():
        producer.send(topic, b"next", partition=0)
    assert values(kafka.bootstrap, topic) == [b"next"]


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_fence_that_shows_when_positions_are_taken_down_is_told_as_one(
    kafka: TransactionalKafka, topic: str, source: str, has_rows: bool
) -> None:
    with producer_of(kafka, topic) as older, reader_of(kafka, source) as consumer:
        taken = polled(consumer, 4)
        with pytest.raises(FencedNotStored, match="another copy"), older.transaction(consumer):
            if has_rows:
                older.send(topic, taken[0], partition=0)
            producer_of(kafka, topic).close()
        with producer_of(kafka, topic) as newer, newer.transaction(consumer):
            assert polled(consumer, 4) == taken
    assert values(kafka.bootstrap, topic) == []


def test_a_time_out_that_shows_when_positions_are_taken_down_is_told_as_one(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    with (
        producer_of(kafka, topic, transaction_timeout_ms=1_000) as producer,
        reader_of(kafka, source) as slow,
    ):
        taken = polled(slow, 4)
        with pytest.raises(TransactionTimedOut), producer.transaction(slow):
            producer.send(topic, taken[0], partition=0).result(30)
            time.sleep(3)


def test_who_was_shut_out_is_told_so_before_it_is_known_by_whom(
    kafka: TransactionalKafka, topic: str
) -> None:
    impatient = producer_of(kafka, topic, request_timeout_ms=1_000)
    with impatient as older, pytest.raises(ProducerFenced), older.transaction():
        older.send(topic, b"old", partition=0).result(30)
        producer_of(kafka, topic).close()
        kafka.cable.caught.clear()
        kafka.cable.go_dead_at(DESCRIBE_TRANSACTIONS, forwards=False)
        older.send(topic, b"late", partition=0)
        assert kafka.cable.caught.wait(30)
        with pytest.raises(TransactionsEnded, match="is not committed, and will not be"):
            older.send(topic, b"later", partition=0)
    kafka.cable.caught.clear()


def test_a_row_that_fails_aborts_the_transaction_and_the_next_one_goes(
    kafka: TransactionalKafka, topic: str
) -> None:
    with producer_of(kafka, topic, batch_bytes=4_000_000) as producer:
        for _ in range(2):
            with pytest.raises(TransactionAborted, match="MESSAGE_TOO_LARGE") as told, producer.transaction():
                producer.send(topic, b"a", partition=0)
                producer.send(topic, b"large" * 500_000, partition=1)
            assert isinstance(told.value, NotStored)
            with producer.transaction():
                producer.send(topic, b"b", partition=0)
                producer.send(topic, b"c", partition=1)
        with pytest.raises(TransactionAborted), producer.transaction():
            with pytest.raises(NotStored, match="MESSAGE_TOO_LARGE"):
                producer.send(topic, b"large" * 500_000, partition=1).result(30)
            producer.send(topic, b"d", partition=0)
    assert values(kafka.bootstrap, topic) == [b"b", b"b", b"c", b"c"]


def test_a_group_that_gave_the_partitions_to_others_aborts(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    """KIP-447: else both would write what they make of the same rows."""
    with producer_of(kafka, topic) as producer:
        settings: dict[str, Any] = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100}
        with reader_of(kafka, source, max_poll_interval_ms=1_500, **settings) as slow:
            taken = polled(slow, 4)
            with (
                pytest.raises(TransactionAborted, match=r"commit of .* no member"),
                producer.transaction(slow),
            ):
                producer.send(topic, taken[0], partition=0)
                time.sleep(3)
                with (
                    reader_of(kafka, source, **settings) as other,
                    semel.Producer(kafka.bootstrap, transactional_id=f"{topic}-other") as its,
                ):
                    assert polled(other, 4) == taken
                    with its.transaction(other):
                        for value in taken:
                            its.send(topic, value, partition=0)
            with producer.transaction(slow):
                for value in polled(slow):
                    producer.send(topic, value, partition=0)
    assert values(kafka.bootstrap, topic) == [b"%d" % row for row in range(10)]


def test_rows_of_a_partition_that_went_to_another_member_meanwhile_do_not_count(
    kafka: TransactionalKafka, topic: str
) -> None:
    """A second poll in a transaction may let go of a partition whose rows are in it, and whose position is not."""
    source = f"in-{topic}"
    with semel.Admin(kafka.bootstrap) as admin, semel.Producer(kafka.bootstrap) as plain:
        admin.create_topic(source, 2)
        for row in range(10):
            plain.send(source, b"%d" % row, partition=row % 2)
    settings: dict[str, Any] = {"heartbeat_interval_ms": 100}

    def copied(consumer: semel.Consumer, producer: semel.Producer, rows: list[bytes | None]) -> int:
        with producer.transaction(consumer):
            for value in rows:
                producer.send(topic, value, partition=0)
        return len(rows)

    with producer_of(kafka, topic) as producer, reader_of(kafka, source, **settings) as first:
        taken: list[bytes | None] = []
        while len(taken) < 10:
            taken += polled(first)
        with reader_of(kafka, source, **settings) as second:
            with pytest.raises(TransactionAborted, match="has them no more"), producer.transaction(first):
                for value in taken:
                    producer.send(topic, value, partition=0)
                give_up_s = time.monotonic() + 30
                while len(first.assignment()) == 2:
                    assert time.monotonic() < give_up_s
                    first.poll(0.1)
                    second.poll(0.1)
            second.rewind()  # what it polled meanwhile was dropped
            with semel.Producer(kafka.bootstrap, transactional_id=f"{topic}-second") as its:
                count = 0
                while count < 10:
                    count += copied(first, producer, [row.value for row in first.poll(0.2)])
                    count += copied(second, its, [row.value for row in second.poll(0.2)])
    assert sorted(values(kafka.bootstrap, topic)) == [b"%d" % row for row in range(10)]


def test_a_coordinator_refuses_the_positions_of_a_member_that_another_one_replaced(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    settings: dict[str, Any] = {"group_instance_id": "only", "heartbeat_interval_ms": 20_000}
    with producer_of(kafka, topic) as producer, reader_of(kafka, source, **settings) as older:
        taken = polled(older, 4)
        with reader_of(kafka, source, **settings) as newer:
            assert polled(newer, 4) == taken
            refused = pytest.raises(
                TransactionAborted, match=f"the commit of {source}-0 .*FENCED_INSTANCE_ID"
            )
            with refused, producer.transaction() as transaction:
                producer.send(topic, taken[0], partition=0)
                with pytest.raises(TransactionAborted, match="FENCED_INSTANCE_ID"):
                    transaction.commit_offsets(older)
            with pytest.raises(MemberFenced):
                older.poll(1.0)
            with producer.transaction(newer):
                for value in taken:
                    producer.send(topic, value, partition=0)
    assert values(kafka.bootstrap, topic) == taken


def test_a_commit_whose_answer_was_lost_is_asked_for_until_it_is_known(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    with producer_of(kafka, topic) as producer, reader_of(kafka, source) as consumer:
        for number in range(3):
            kafka.cable.cut_after(END_TXN[kafka.level])
            with producer.transaction(consumer):
                for value in polled(consumer, 2):
                    producer.send(topic, value, partition=number % 2)
            assert kafka.cable.caught.is_set()
            kafka.cable.caught.clear()
            kafka.cable.cut_after(END_TXN[kafka.level])
            with pytest.raises(KeyError), producer.transaction():
                producer.send(topic, b"never", partition=0).result(30)
                raise KeyError
    assert values(kafka.bootstrap, topic) == [b"0", b"1", b"4", b"5", b"2", b"3"]


def test_a_commit_that_nobody_answers_is_in_doubt(kafka: TransactionalKafka, topic: str, source: str) -> None:
    impatient = producer_of(kafka, topic, max_block_ms=2_000, request_timeout_ms=500)
    with impatient as producer, reader_of(kafka, source) as consumer:
        with pytest.raises(CommitInDoubt, match="may or may not"), producer.transaction() as transaction:
            for value in polled(consumer, 4):
                producer.send(topic, value, partition=0)
            producer.flush(30)
            transaction.commit_offsets(consumer)
            kafka.cable.hold()
            threading.Timer(4.0, kafka.cable.release).start()
        with producer_of(kafka, topic) as newer:
            while len(values(kafka.bootstrap, topic)) < 10:  # the group says whether it counted
                with newer.transaction(consumer):
                    for value in polled(consumer, 4):
                        newer.send(topic, value, partition=0)
    assert values(kafka.bootstrap, topic) == [b"%d" % row for row in range(10)]


def test_lost_answers_to_rows_double_nothing(kafka: TransactionalKafka, topic: str) -> None:
    with producer_of(kafka, topic, linger_ms=0) as producer:
        for number in range(10):
            with producer.transaction():
                producer.send(topic, b"%d a" % number, partition=0).result(30)
                kafka.cable.swallow_answers(1)
                producer.send(topic, b"%d b" % number, partition=0)
    kafka.cable.swallow_answers(0)
    assert values(kafka.bootstrap, topic) == [
        b"%d %s" % (number, row) for number in range(10) for row in (b"a", b"b")
    ]


def test_closing_leaves_nothing_open(kafka: TransactionalKafka, topic: str) -> None:
    producer = producer_of(kafka, topic)
    producer.transaction().__enter__()
    producer.send(topic, b"open", partition=0).result(30)
    producer.close()
    assert values(kafka.bootstrap, topic) == []


def test_with_await(kafka: TransactionalKafka, topic: str, source: str) -> None:
    async def copy() -> None:
        async with (
            semel.aio.Producer(kafka.bootstrap, transactional_id=topic) as producer,
            semel.aio.Consumer(
                kafka.bootstrap, group_id=f"group-{source}", enable_auto_commit=False
            ) as consumer,
        ):
            await consumer.subscribe(source)
            copied = 0
            while copied < 10:
                rows = await consumer.poll(1.0, 3)
                try:
                    async with producer.transaction() as transaction:
                        for row in rows:
                            await producer.send(topic, row.value, partition=0)
                        await transaction.commit_offsets(consumer)
                        if rows and rows[0].offset == 3 and copied == 3:
                            copied += 1
                            raise KeyError
                except KeyError:
                    copied -= 1
                    source_again = await consumer.poll(5.0, 1)
                    assert source_again[0].offset == 3
                    await consumer.rewind()
                    async with producer.transaction(consumer):
                        for row in await consumer.poll(5.0, 3):
                            await producer.send(topic, row.value, partition=0)
                    copied += 3
                    continue
                copied += len(rows)

    asyncio.run(copy())
    assert values(kafka.bootstrap, topic) == [b"%d" % row for row in range(10)]


def test_positions_of_several_consumers_are_taken_down_together(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    """The one's took the place of the other's: rows counted, and a group had nothing committed."""
    groups = [f"group-{number}-{source}" for number in range(3)]

    async def copy() -> None:
        async with semel.aio.Producer(kafka.bootstrap, transactional_id=topic) as producer:
            consumers = []
            async with producer.transaction() as transaction:
                for group in groups:
                    consumers.append(await _async_reader(kafka, source, group))
                    await producer.send(topic, await _polled(consumers[-1]), partition=0)
                await asyncio.gather(*map(transaction.commit_offsets, consumers))
            for consumer in consumers:
                await consumer.close()

    asyncio.run(copy())
    assert values(kafka.bootstrap, topic) == [b"0"] * 3
    with semel.Admin(kafka.bootstrap) as admin:
        assert [[at.offset for at in admin.group_offsets(group).values()] for group in groups] == [[4]] * 3


def test_positions_that_were_given_up_while_others_were_taken_down_abort(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    async def copy() -> None:
        first, second = [await _async_reader(kafka, source, f"group-{name}-{source}") for name in "ab"]
        async with semel.aio.Producer(kafka.bootstrap, transactional_id=topic) as producer:
            for is_given_up in (True, False):
                rows = [await _polled(first), await _polled(second)]
                aborts = pytest.raises(TransactionAborted) if is_given_up else contextlib.nullcontext()
                with aborts:
                    async with producer.transaction() as transaction:
                        for row in rows:
                            await producer.send(topic, row, partition=0)
                        ones = asyncio.create_task(transaction.commit_offsets(first))
                        others = asyncio.create_task(transaction.commit_offsets(second))
                        await asyncio.sleep(0)
                        if is_given_up:
                            others.cancel()
                        await asyncio.wait([ones, others])
        await first.close()
        await second.close()

    asyncio.run(copy())
    assert values(kafka.bootstrap, topic) == [b"0", b"0"]


def test_positions_do_not_come_into_a_later_transaction(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    async def copy() -> None:
        consumers = [await _async_reader(kafka, source, f"group-{name}-{source}") for name in "ab"]
        async with semel.aio.Producer(kafka.bootstrap, transactional_id=topic) as producer:
            rows = [await _polled(consumer) for consumer in consumers]
            late = []
            with pytest.raises(KeyError):
                async with producer.transaction() as transaction:
                    late = [asyncio.create_task(transaction.commit_offsets(each)) for each in consumers]
                    await asyncio.sleep(0)
                    raise KeyError
            async with producer.transaction():
                await producer.send(topic, rows[0], partition=0)
                for task in late:
                    with pytest.raises((ConfigError, TransactionAborted)):
                        await task
                with pytest.raises(ConfigError, match="transaction's own block"):
                    await transaction.commit_offsets(consumers[0])
        for consumer in consumers:
            await consumer.close()

    asyncio.run(copy())
    assert values(kafka.bootstrap, topic) == [b"0"]
    with semel.Admin(kafka.bootstrap) as admin:
        assert not admin.group_offsets(f"group-a-{source}")
        assert not admin.group_offsets(f"group-b-{source}")


def test_an_interrupted_leave_has_ended_when_it_is_told(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    """It went on in the background, and put the consumer back under the next transaction: rows doubled."""
    with producer_of(kafka, topic) as producer, reader_of(kafka, source) as consumer:
        taken = polled(consumer, 4)
        with pytest.raises(KeyboardInterrupt), producer.transaction(consumer):
            for value in taken:
                producer.send(topic, value, partition=0)
            producer.flush(30)
            kafka.cable.hold()
            interrupt_in(0.3)
            threading.Timer(0.8, kafka.cable.release).start()
        written = 0
        while written < 10:
            with producer.transaction(consumer):
                for value in polled(consumer, 2):
                    producer.send(topic, value, partition=0)
            written = len(values(kafka.bootstrap, topic))
    assert values(kafka.bootstrap, topic) == [b"%d" % row for row in range(10)]


def test_a_leave_that_is_interrupted_before_it_is_under_way_aborts(
    kafka: TransactionalKafka, topic: str, source: str
) -> None:
    with producer_of(kafka, topic) as producer, reader_of(kafka, source) as consumer:
        taken = polled(consumer, 4)
        with pytest.raises(KeyboardInterrupt), producer.transaction(consumer):
            producer.send(topic, taken[0], partition=0).result(30)
            shared_loop().loop.call_soon_threadsafe(time.sleep, 0.5)
            interrupt_in(0.2)
        with producer.transaction(consumer):
            assert polled(consumer, 4) == taken
    assert values(kafka.bootstrap, topic) == []


def test_a_begin_that_is_interrupted_leaves_nothing_open(
    kafka: TransactionalKafka, topic: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was in the block to leave it, and each later transaction was refused."""
    begin = ProducerTransactions.begin

    async def interrupted(transactions: ProducerTransactions) -> int:
        number = await begin(transactions)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return number

    with producer_of(kafka, topic) as producer, reader_of(kafka, source) as consumer:
        taken = polled(consumer, 4)
        with monkeypatch.context() as patch:
            patch.setattr(ProducerTransactions, "begin", interrupted)
            with pytest.raises(KeyboardInterrupt), producer.transaction(consumer):
                raise AssertionError("the block was entered")
        with producer.transaction(consumer):
            assert polled(consumer, 4) == taken


def interrupt_in(seconds: float) -> None:
    main = threading.main_thread().ident or 0
    threading.Timer(seconds, signal.pthread_kill, [main, signal.SIGINT]).start()


async def _async_reader(kafka: TransactionalKafka, source: str, group: str) -> semel.aio.Consumer:
    consumer = semel.aio.Consumer(kafka.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.assign([TopicPartition(source, 0)])
    return consumer


async def _polled(consumer: semel.aio.Consumer) -> bytes | None:
    """The first of four rows."""
    rows = await consumer.poll(20.0, 4)
    assert len(rows) == 4
    return rows[0].value
