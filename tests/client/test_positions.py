"""What a consumer hands out again, and what it commits: after seeks, aborts, Ctrl-C and partitions that go."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import semel
from semel.client.records import BufferedRecords
from semel.errors import TransactionAborted
from semel.types import TopicPartition

_numbers = itertools.count(1)


@pytest.fixture
def source(semel_server: semel.LocalLog) -> str:
    """Ten rows in one partition."""
    name = f"positions-{next(_numbers)}"
    with semel.Admin(semel_server.bootstrap) as admin, semel.Producer(semel_server.bootstrap) as producer:
        admin.create_topic(name, 1)
        admin.create_topic(f"{name}-out", 1)
        for row in range(10):
            producer.send(name, b"%d" % row)
    return name


@pytest.fixture
def producer(semel_server: semel.LocalLog, source: str) -> Iterator[semel.Producer]:
    with semel.Producer(semel_server.bootstrap, transactional_id=source) as opened:
        yield opened


Open = Callable[..., semel.Consumer]


@pytest.fixture
def reader(semel_server: semel.LocalLog, source: str) -> Iterator[Open]:
    opened: list[semel.Consumer] = []

    def open_one(**settings: Any) -> semel.Consumer:
        settings = {"group_id": source, "enable_auto_commit": False, **settings}
        opened.append(semel.Consumer(semel_server.bootstrap, **settings))
        return opened[-1]

    yield open_one
    for consumer in opened:
        consumer.close(has_failed=True)


def rows(consumer: semel.Consumer, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(100):
        found += [int(row.value or b"") for row in consumer.poll(0.1, count - len(found))]
        if len(found) == count:
            return found
    raise AssertionError(found)


def committed(semel_server: semel.LocalLog, source: str) -> dict[TopicPartition, int]:
    with semel.Admin(semel_server.bootstrap) as admin:
        return {tp: at.offset for tp, at in admin.group_offsets(source).items()}


class Failed(Exception):
    """What goes wrong in a transaction."""


def fail(producer: semel.Producer, consumer: semel.Consumer, work: Callable[[], object]) -> None:
    with pytest.raises(Failed), producer.transaction(consumer):
        work()
        raise Failed


# -- after an abort -----------------------------------------------------------------------------------------


def test_a_seek_in_a_transaction_is_undone_with_it(
    source: str, producer: semel.Producer, reader: Open
) -> None:
    consumer, tp = reader(), TopicPartition(source, 0)
    consumer.subscribe(source)

    def work() -> None:
        assert rows(consumer, 6) == [0, 1, 2, 3, 4, 5]
        consumer.seek(tp, 3)

    fail(producer, consumer, work)
    assert rows(consumer, 10) == list(range(10))


def test_a_seek_before_a_transaction_stands(source: str, producer: semel.Producer, reader: Open) -> None:
    """Also in front of what is committed."""
    consumer, tp = reader(), TopicPartition(source, 0)
    consumer.subscribe(source)
    with producer.transaction(consumer):
        rows(consumer, 6)
    consumer.seek(tp, 2)
    for _ in range(2):
        fail(producer, consumer, lambda: rows(consumer, 3))
        assert consumer.position(tp) == 2
    assert rows(consumer, 8) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_the_next_transaction_begins_where_the_last_one_counts(
    source: str, producer: semel.Producer, reader: Open
) -> None:
    consumer = reader()
    consumer.subscribe(source)
    with producer.transaction(consumer):
        assert rows(consumer, 4) == [0, 1, 2, 3]
    fail(producer, consumer, lambda: rows(consumer, 3))
    assert rows(consumer, 6) == [4, 5, 6, 7, 8, 9]


def test_rows_that_were_polled_behind_the_commit_of_positions_are_not_in_it(
    source: str, producer: semel.Producer, reader: Open
) -> None:
    consumer = reader()
    consumer.subscribe(source)
    with producer.transaction() as transaction:
        rows(consumer, 4)
        transaction.commit_offsets(consumer)
        rows(consumer, 2)
    fail(producer, consumer, lambda: None)
    assert rows(consumer, 6) == [4, 5, 6, 7, 8, 9]


# -- partitions that go -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "let_go",
    [semel.Consumer.close, semel.Consumer.unsubscribe],
    ids=["close", "unsubscribe"],
)
def test_who_lets_go_of_handed_out_rows_cannot_commit_them(
    semel_server: semel.LocalLog,
    source: str,
    producer: semel.Producer,
    reader: Open,
    let_go: Callable[[semel.Consumer], None],
) -> None:
    consumer = reader()
    consumer.subscribe(source)
    with pytest.raises(TransactionAborted, match="has them no more"), producer.transaction(consumer):
        rows(consumer, 5)
        let_go(consumer)
    assert committed(semel_server, source) == {}


def test_who_assigns_anew_cannot_commit_what_was_handed_out_before(
    semel_server: semel.LocalLog, source: str, producer: semel.Producer, reader: Open
) -> None:
    consumer = reader()
    consumer.assign([TopicPartition(source, 0)])
    with pytest.raises(TransactionAborted, match="has them no more"), producer.transaction(consumer):
        rows(consumer, 5)
        consumer.assign([])
    consumer.assign([TopicPartition(source, 0)])
    with producer.transaction(consumer):
        assert rows(consumer, 5) == [0, 1, 2, 3, 4]
    assert committed(semel_server, source) == {TopicPartition(source, 0): 5}


def test_a_seek_back_does_not_hide_that_rows_were_handed_out(
    source: str, producer: semel.Producer, reader: Open
) -> None:
    """The position is where it began, but whoever has the partition next reads the rows again."""
    consumer = reader()
    consumer.subscribe(source)
    with pytest.raises(TransactionAborted, match="has them no more"), producer.transaction(consumer):
        rows(consumer, 6)
        consumer.seek(TopicPartition(source, 0), 0)
        consumer.unsubscribe()


# -- commits ------------------------------------------------------------------------------------------------


def test_a_position_that_was_committed_does_not_go_back_when_a_block_fails(
    semel_server: semel.LocalLog, source: str, reader: Open
) -> None:
    with pytest.raises(Failed), reader(enable_auto_commit=True) as consumer:
        consumer.subscribe(source)
        rows(consumer, 5)
        consumer.commit()
        raise Failed
    assert committed(semel_server, source) == {TopicPartition(source, 0): 5}


def test_of_what_was_handed_out_last_the_part_that_was_committed_stays(
    semel_server: semel.LocalLog, source: str, reader: Open
) -> None:
    with pytest.raises(Failed), reader(enable_auto_commit=True) as consumer:
        consumer.subscribe(source)
        rows(consumer, 2)
        rows(consumer, 5)
        consumer.commit({TopicPartition(source, 0): 4})
        raise Failed
    assert committed(semel_server, source) == {TopicPartition(source, 0): 4}


def test_of_a_topic_made_anew_what_was_committed_before_is_not_known(
    semel_server: semel.LocalLog, source: str, producer: semel.Producer, reader: Open
) -> None:
    consumer, tp = reader(), TopicPartition(source, 0)
    consumer.assign([tp])
    with producer.transaction(consumer):
        rows(consumer, 10)
    with semel.Admin(semel_server.bootstrap) as admin, semel.Producer(semel_server.bootstrap) as plain:
        admin.delete_topic(source)
        admin.create_topic(source, 1)
        for row in range(10):
            plain.send(source, b"%d" % row)
    consumer.assign({tp: "earliest"})
    with producer.transaction(consumer):
        rows(consumer, 10)
    assert committed(semel_server, source) == {tp: 10}


# -- Ctrl-C -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["amid", "behind"])
def test_rows_whose_poll_was_interrupted_are_handed_out_again(
    source: str, reader: Open, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    consumer = reader()
    consumer.subscribe(source)
    assert rows(consumer, 2) == [0, 1]
    take = BufferedRecords.take

    def interrupted(buffered: BufferedRecords, count: int) -> Any:
        if when == "behind":
            take(buffered, count)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BufferedRecords, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rows(consumer, 8)
    assert consumer.position(TopicPartition(source, 0)) == 2
    assert rows(consumer, 8) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_who_is_interrupted_at_the_next_poll_is_done_with_the_last_one(
    semel_server: semel.LocalLog, source: str, reader: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), reader(enable_auto_commit=True) as consumer:
        consumer.subscribe(source)
        assert rows(consumer, 3) == [0, 1, 2]
        monkeypatch.setattr(BufferedRecords, "take", interrupted)
        rows(consumer, 3)
    assert committed(semel_server, source) == {TopicPartition(source, 0): 3}


# -- seeks beside a poll ------------------------------------------------------------------------------------


def test_who_seeks_while_another_task_fetches_gets_the_rows_from_there(
    semel_server: semel.LocalLog, source: str
) -> None:
    async def found() -> list[int]:
        tp = TopicPartition(source, 0)
        consumer = semel.aio.Consumer(semel_server.bootstrap)
        await consumer.assign({tp: 10})
        polling = asyncio.create_task(consumer.poll(20.0))
        await asyncio.sleep(0.2)  # it waits at the end
        consumer.seek(tp, 0)
        async with semel.aio.Producer(semel_server.bootstrap) as producer:
            await producer.send(source, b"10")
        polled = [int(row.value or b"") for row in await polling]
        await consumer.close()
        return polled

    assert asyncio.run(found())[0] == 0
