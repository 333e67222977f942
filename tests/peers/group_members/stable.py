"""A stable group with one member, for whoever asks about groups."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 30.0
PARTITIONS = 2


@contextmanager
def member(bootstrap: str, topic: str, group: str, **settings: str) -> Iterator[Consumer]:
    """The only member of a stable group that has committed 3 and 4."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    give_up_s = time.monotonic() + TIMEOUT_S
    while len(consumer.assignment()) < PARTITIONS:
        assert time.monotonic() < give_up_s, "it was assigned nothing"
        consumer.poll(0.1)
    offsets = [TopicPartition(topic, number, 3 + number) for number in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    try:
        yield consumer
    finally:
        consumer.close()
