"""What every kind of crash loop shares: seeded rounds, an independent reader, and the one law they check.

The law: each acknowledged row is in the log once, at the offset that its acknowledgement named; no row is in
it twice; each partition holds its rows in the order they were sent. Rows are numbers written as decimal text;
``partition_of`` says where a number belongs. The reader is librdkafka, so that a fault shared by our server
and our client cannot hide.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import semel

READ_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round saw: rows checked, kills dealt, and every breach of the law (none when it held)."""

    rows: int
    kills: int
    breaches: tuple[str, ...] = ()
    told: str = ""  # what was killed and when, where that differs


Round = Callable[[random.Random], RoundResult]


def round_random(seed: int, kind: str, round_number: int) -> random.Random:
    """The dice of one round: the same for the same seed, whatever ran before it."""
    return random.Random(f"{seed}/{kind}/{round_number}")


def create_topic(bootstrap: str, topic: str, partition_count: int) -> None:
    """Make ``topic``, or raise."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partition_count, 1)])[topic].result(READ_TIMEOUT_S)


@contextmanager
def written(bootstrap: str, topic: str, partition_count: int, rows_a_second: int) -> Iterator[list[int]]:
    """A writer beside it, who knows the topic by then; how many rows it has written, in the end."""
    begun, stop, count = threading.Event(), threading.Event(), [0]

    def write() -> None:
        with semel.Producer(bootstrap, delivery_timeout_ms=60_000) as producer:
            while not stop.wait(0.05):
                for _ in range(rows_a_second // 20):
                    producer.send(topic, b"%d" % count[0], partition=count[0] % partition_count)
                    count[0] += 1
                begun.set()

    writer = threading.Thread(target=write, name="writer")
    writer.start()
    try:
        begun.wait(READ_TIMEOUT_S)
        yield count
    finally:
        stop.set()
        writer.join()


def read_back(bootstrap: str, topic: str, partition_count: int) -> dict[int, list[tuple[int, int]]]:
    """Every (offset, row) of every partition, in offset order, read with librdkafka."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "loops-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_committed",
        }
    )
    rows: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(partition_count)}
    unfinished = set(rows)
    try:
        reader.assign([TopicPartition(topic, partition, 0) for partition in rows])
        while unfinished:
            message = reader.poll(READ_TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"{topic}: partitions {sorted(unfinished)} gave nothing more")
            error = message.error()
            if error is None:
                rows[message.partition()].append((message.offset(), int(message.value())))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            elif not error.retriable():
                raise AssertionError(f"{topic}: {error}")
    finally:
        reader.close()
    return rows


def breaches(
    stored: Mapping[int, Sequence[tuple[int, int]]],
    *,
    acknowledged: Mapping[int, Mapping[int, int]] | None = None,
    expected: Mapping[int, Sequence[int]] | None = None,
) -> tuple[str, ...]:
    """Every way in which ``stored`` breaks the law.

    ``acknowledged``: partition -> offset -> row, as the delivery reports said. ``expected``: partition ->
    the rows that must all be there, nothing else.
    """
    found: list[str] = []
    for partition, entries in stored.items():
        rows = [row for _, row in entries]
        if len(set(rows)) != len(rows):
            twice = sorted({row for row in rows if rows.count(row) > 1})[:5]
            found.append(f"partition {partition}: rows {twice} are stored twice")
        elif rows != sorted(rows):
            at = next(index for index in range(1, len(rows)) if rows[index] < rows[index - 1])
            found.append(f"partition {partition}: row {rows[at]} stands after row {rows[at - 1]}")
        at_offset = dict(entries)
        for offset, row in (acknowledged or {}).get(partition, {}).items():
            if at_offset.get(offset) != row:
                found.append(
                    f"partition {partition}: row {row} was acknowledged at offset {offset}, "
                    f"where {at_offset.get(offset, 'nothing')} is"
                )
                break
        if expected is not None and rows != list(expected[partition]):
            wanted = expected[partition]
            missing = sorted(set(wanted) - set(rows))[:5]
            found.append(f"partition {partition}: {len(rows)} rows of {len(wanted)}, first missing {missing}")
    return tuple(found)
