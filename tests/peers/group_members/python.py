"""A member of a consumer group, to be killed: ``python -m tests.peers.group_members.python CLIENT …``.

It prints what it is assigned (``{"assigned": [0, 1]}``) and what it reads (``{"read": [partition, offset]}``), and
commits what it has printed; so what is committed was read by somebody, whoever is killed and when. What else is
asked of it is the last argument, in JSON: ``{"cooperative": true, "instance_id": "one", "session_ms": 1500}``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

SESSION_MS: Final = 1_500
HEARTBEAT_MS: Final = 200
_POLL_MS: Final = 100
_WHOLE_JOIN_MS: Final = 5_000  # kafka-python 3.0 may hang where a poll ends while it joins
_COMMIT_MS: Final = 2_000  # at most, to find the coordinator again


class _Told:
    """What was printed, so that an assignment is printed when it changes."""

    def __init__(self) -> None:
        self._assigned: list[int] = []

    def assigned(self, partitions: Iterable[int]) -> None:
        found = sorted(partitions)
        if found != self._assigned:
            self._assigned = found
            _print({"assigned": found})

    def read(self, rows: Collection[tuple[int, int]]) -> None:
        for partition, offset in rows:
            _print({"read": [partition, offset]})


def _print(what: dict[str, Sequence[int]]) -> None:
    print(json.dumps(what), flush=True)


def confluent_kafka(bootstrap: str, topic: str, group: str, how: How) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "session.timeout.ms": how["session_ms"],
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "reconnect.backoff.max.ms": 200,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **({"partition.assignment.strategy": "cooperative-sticky"} if how["cooperative"] else {}),
            **({"group.instance.id": how["instance_id"]} if how["instance_id"] else {}),
        }
    )
    consumer.subscribe([topic])
    told = _Told()
    while True:
        messages = [one for one in consumer.consume(100, _POLL_MS / 1000) if one.error() is None]
        told.assigned(one.partition for one in consumer.assignment())
        told.read([(one.partition(), one.offset()) for one in messages])
        if messages:
            with suppress(
                KafkaException
            ):  # it goes on from what it has read, or somebody else from what is committed
                consumer.commit(asynchronous=False)


def kafka_python(bootstrap: str, topic: str, group: str, how: How) -> None:
    with warnings.catch_warnings():  # it reads its schemas through a function that Python has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=how["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_instance_id=how["instance_id"],
        **({"partition_assignment_strategy": [CooperativeStickyAssignor]} if how["cooperative"] else {}),
    )
    told = _Told()
    while True:
        try:
            polled = consumer.poll(_WHOLE_JOIN_MS)
        except KafkaError:  # nobody is there to be connected to: whoever polls again goes on
            continue
        told.assigned(one.partition for one in consumer.assignment())
        told.read([(one.partition, one.offset) for rows in polled.values() for one in rows])
        if polled:
            with suppress(KafkaError):
                consumer.commit(timeout_ms=_COMMIT_MS)


def aiokafka(bootstrap: str, topic: str, group: str, how: How) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    async def consume() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            session_timeout_ms=how["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_instance_id=how["instance_id"],
        )
        await consumer.start()
        told = _Told()
        while True:
            polled = await consumer.getmany(timeout_ms=_POLL_MS)
            told.assigned(one.partition for one in consumer.assignment())
            told.read([(one.partition, one.offset) for rows in polled.values() for one in rows])
            if polled:
                with suppress(KafkaError, TimeoutError):
                    await asyncio.wait_for(consumer.commit(), _COMMIT_MS / 1000)

    asyncio.run(consume())


def semel(bootstrap: str, topic: str, group: str, how: How) -> None:
    """It divides cooperatively by default."""
    from semel import Consumer
    from semel.errors import ConnectionLost, NotCommitted

    consumer = Consumer(
        bootstrap,
        group_id=group,
        session_timeout_ms=how["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        group_instance_id=how["instance_id"],
    )
    consumer.subscribe(topic)
    told = _Told()
    while True:
        try:
            records = consumer.poll(_POLL_MS / 1000)
        except ConnectionLost:  # nobody is there to be connected to: whoever polls again goes on
            continue
        told.assigned(one.partition for one in consumer.assignment())
        told.read([(one.partition, one.offset) for one in records])
        if records:
            with suppress(NotCommitted):
                consumer.commit()


How: TypeAlias = Mapping[str, Any]
Client: TypeAlias = Callable[[str, str, str, How], None]
CLIENTS: Final[dict[str, Client]] = {
    one.__name__: one for one in (confluent_kafka, kafka_python, aiokafka, semel)
}

if __name__ == "__main__":
    client, *where, how = sys.argv[1:]
    CLIENTS[client](*where, json.loads(how))
