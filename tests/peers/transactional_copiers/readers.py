"""Readers of a whole topic, read_committed or not: each client that this process has."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeAlias

TIMEOUT_S: Final = 30.0

Rows: TypeAlias = dict[int, list[tuple[int, str]]]  # offset and value, by partition, in the order of reading
Read: TypeAlias = Callable[[str, str, int, bool], Rows]  # of (bootstrap, topic, partitions, is_committed)


def _isolation(is_committed: bool) -> str:
    return "read_committed" if is_committed else "read_uncommitted"


def confluent_kafka(bootstrap: str, topic: str, partitions: int, is_committed: bool) -> Rows:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": _isolation(is_committed),
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: Rows = {number: [] for number in range(partitions)}
    unfinished = set(rows)
    give_up_s = time.monotonic() + TIMEOUT_S
    while unfinished:
        assert time.monotonic() < give_up_s, f"{topic}: no end of partitions {unfinished}"
        message = reader.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            rows[message.partition()].append((message.offset(), message.value().decode()))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unfinished.discard(message.partition())
    reader.close()
    return rows


def kafka_python(bootstrap: str, topic: str, partitions: int, is_committed: bool) -> Rows:
    with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka

    reader = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level=_isolation(is_committed),
    )
    places = [kafka.TopicPartition(topic, number) for number in range(partitions)]
    reader.assign(places)
    ends = reader.end_offsets(places)
    rows: Rows = {number: [] for number in range(partitions)}
    give_up_s = time.monotonic() + TIMEOUT_S
    while any(reader.position(one) < ends[one] for one in places):
        assert time.monotonic() < give_up_s, f"{topic}: {[reader.position(one) for one in places]} of {ends}"
        for polled in reader.poll(100).values():
            for one in polled:
                rows[one.partition].append((one.offset, one.value.decode()))
    reader.close()
    return rows


def aiokafka(bootstrap: str, topic: str, partitions: int, is_committed: bool) -> Rows:
    import aiokafka

    rows: Rows = {number: [] for number in range(partitions)}

    async def read() -> None:
        reader = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=_isolation(is_committed),
        )
        await reader.start()
        places = [aiokafka.TopicPartition(topic, number) for number in range(partitions)]
        reader.assign(places)
        ends: Any = await reader.end_offsets(places)
        while [one for one in places if await reader.position(one) < ends[one]]:
            for polled in (await reader.getmany(timeout_ms=100)).values():
                for one in polled:
                    rows[one.partition].append((one.offset, one.value.decode()))
        await reader.stop()

    asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))
    return rows


READERS: Final[dict[str, Read]] = {one.__name__: one for one in (confluent_kafka, kafka_python, aiokafka)}
