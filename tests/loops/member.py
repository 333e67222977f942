"""A member of a group: ``python -m tests.loops.member BOOTSTRAP CLIENT NAME FILE [INSTANCE]``.

It writes each row that it was given into FILE, and only then commits the position behind it: so a position that is
committed says that all before it was written. FILE is its own; a line is ``partition offset row``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import semel
from semel.errors import ConnectionLost, NotCommitted
from semel.types import TopicPartition

TOPIC = "rows"
GROUP = "loop"
# Longer than a server is away: librdkafka forgets its member id when a session has ended without a word, still commits
# as the static member that it was, and takes the refusal for the end (Apache Kafka answers alike).
SESSION_MS = 5_000
HEARTBEAT_MS = 200
POLL_MS = 200
ROWS_AT_ONCE = 50

Row = tuple[int, int, int]  # partition, offset, row
Poll = Callable[[], list[Row]]
Commit = Callable[[Mapping[int, int]], None]  # next offset by partition


def librdkafka(bootstrap: str, name: str, instance: str | None) -> Iterator[tuple[Poll, Commit]]:
    import confluent_kafka
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "client.id": name,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "range",
        "reconnect.backoff.max.ms": 200,
        "log_level": 2,
    }
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])

    def poll() -> list[Row]:
        messages = consumer.consume(ROWS_AT_ONCE, POLL_MS / 1000)
        return [(one.partition(), one.offset(), int(one.value())) for one in messages if one.error() is None]

    def commit(ends: Mapping[int, int]) -> None:
        try:
            offsets = [confluent_kafka.TopicPartition(TOPIC, number, end) for number, end in ends.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
        except (
            KafkaException
        ) as error:  # it is no member any more, or not of this generation; or nobody answers
            print(f"{name}: not committed: {error}", file=sys.stderr)

    yield poll, commit
    consumer.close()


def ours(bootstrap: str, name: str, instance: str | None) -> Iterator[tuple[Poll, Commit]]:
    with semel.Consumer(
        bootstrap,
        group_id=GROUP,
        client_id=name,
        group_instance_id=instance,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        enable_auto_commit=False,
        partition_assignment_strategy="range",
    ) as consumer:
        consumer.subscribe([TOPIC])

        def poll() -> list[Row]:
            try:
                records = consumer.poll(max_records=ROWS_AT_ONCE, timeout_ms=POLL_MS)
            except ConnectionLost as error:  # the server is away: the next poll goes on trying
                print(f"{name}: {error}", file=sys.stderr)
                return []
            return [(one.partition, one.offset, int(one.value or b"")) for one in records]

        def commit(ends: Mapping[int, int]) -> None:
            try:
                consumer.commit({TopicPartition(TOPIC, number): end for number, end in ends.items()})
            except (NotCommitted, ConnectionLost) as error:
                print(f"{name}: {error}", file=sys.stderr)

        yield poll, commit


CLIENTS = {"librdkafka": librdkafka, "semel": ours}


def main() -> None:
    bootstrap, client, name, path, *instance = sys.argv[1:]
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    opened = CLIENTS[client](bootstrap, name, instance[0] if instance else None)
    poll, commit = next(opened)
    print("joining", flush=True)
    with Path(path).open("ab", buffering=0) as file:
        while not stopping:
            rows = poll()
            if rows:
                os.write(file.fileno(), b"".join(b"%d %d %d\n" % row for row in rows))
                commit({number: offset + 1 for number, offset, _ in rows})
    for _ in opened:
        pass


if __name__ == "__main__":
    main()
