"""A server that is killed and comes back: semel, or Apache Kafka."""

from __future__ import annotations

from typing import Any, Final, Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

TIMEOUT_S: Final = 30.0
_ASKED_S: Final = 2.0


class Server(Protocol):
    @property
    def bootstrap(self) -> str: ...
    def crash(self) -> None: ...
    def restart(self) -> None: ...


class Onlooker:
    """Writes what is to be copied, and asks what came of it."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "metadata.recovery.strategy": "none",
        }
        self._admin = AdminClient(self._settings)
        self._partitions = partitions

    def make(self, *topics: str) -> None:
        made = self._admin.create_topics([NewTopic(topic, self._partitions, 1) for topic in topics])
        for one in made.values():
            one.result(TIMEOUT_S)

    def remove(self, *topics: str) -> None:
        for one in self._admin.delete_topics(list(topics)).values():
            one.result(TIMEOUT_S)

    def write(self, topic: str, first: int, end: int) -> None:
        """Rows ``first`` to ``end`` of every partition."""
        producer = Producer(self._settings | {"enable.idempotence": True})
        for number in range(first, end):
            for partition in range(self._partitions):
                producer.produce(topic, row(partition, number), b"%d" % number, partition=partition)
        assert producer.flush(TIMEOUT_S) == 0

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The group's offsets; none while nobody answers, or while they are part of an open transaction.

        Asked by a consumer: librdkafka's admin client breaks down (2.16) where a group's coordinator says no.
        """
        consumer = Consumer(self._settings | {"group.id": group})
        asked = [TopicPartition(topic, number) for number in range(self._partitions)]
        try:
            return {
                one.partition: one.offset
                for one in consumer.committed(asked, timeout=_ASKED_S)
                if one.offset >= 0
            }
        except KafkaException:
            return {}
        finally:
            consumer.close()

    def is_settled(self, topic: str) -> bool:
        """Whether nothing that was written is part of an open transaction."""
        committed, every = (
            self._admin.list_offsets(
                {TopicPartition(topic, number): OffsetSpec.latest() for number in range(self._partitions)},
                isolation_level=isolation,
            )
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        return [one.result(TIMEOUT_S).offset for one in committed.values()] == [
            one.result(TIMEOUT_S).offset for one in every.values()
        ]


def row(partition: int, number: int) -> str:
    return f"{partition}/{number}"
