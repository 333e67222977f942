"""A topic for what cannot be read, written by whoever goes past it: each batch once.

Nothing else is written together with the position behind it, so the topic itself is asked what it has: a job that was
killed between the two finds its letter there. Of two that read the same at once both may write it; the key, which says
place and content, tells that it is one.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from semel.client.blocking import Cluster
from semel.client.consumer import Consumer
from semel.client.producer import Producer
from semel.core.dead_letter import dead_letter
from semel.errors import BrokerError, ConfigError, ConnectionLost, ErrorCode, UnknownTopic, UnreadableBatch
from semel.types import LATEST_TIMESTAMP, TopicPartition

_PARTITION: Final = 0
_POLL_S: Final = 1.0
_POLLS_MAX: Final = 60  # in a row without a row
_STORED_S: Final = 120.0


class DeadLetters:
    """One topic; made, with one partition, when there is something for it and it is not there."""

    def __init__(self, bootstrap: str | list[str], topic: str) -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._tp = TopicPartition(topic, _PARTITION)
        self._known: set[bytes] = set()  # keys that the topic has
        self._read_to = 0
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def put(self, found: UnreadableBatch) -> int:
        """Have it stored, and say where its reader goes on: behind it.

        The error itself, where nobody knows where that is, and a ``ConfigError`` for a topic that is to hold its own.
        """
        if found.next_offset is None:
            raise found
        if found.partition.topic == self.topic:
            raise ConfigError(f"the dead letters of {self.topic} cannot go to {self.topic} itself")
        letter = dead_letter(found)
        self._read_on(makes_it=True)
        if letter.key not in self._known:
            if self._producer is None:
                self._producer = Producer(self._bootstrap, linger_ms=0)
            self._producer.send(
                self.topic, letter.value, letter.key, partition=_PARTITION, headers=letter.headers
            ).result(_STORED_S)
            self._known.add(letter.key)
        return found.next_offset

    def has(self, found: UnreadableBatch) -> bool:
        """Whether somebody has kept it; nothing is written."""
        self._read_on(makes_it=False)
        return dead_letter(found).key in self._known

    def _read_on(self, *, makes_it: bool) -> None:
        """What the topic has by now; rows of others in it do no harm."""
        with Cluster(self._bootstrap) as cluster:
            try:
                cluster.topic(self.topic)
            except UnknownTopic:
                if not makes_it:
                    raise
                self._create(cluster)
            end = cluster.list_offsets({self._tp: LATEST_TIMESTAMP}, "read_uncommitted")[self._tp].offset
            if end <= self._read_to:
                return
        with Consumer(self._bootstrap, isolation="read_uncommitted") as consumer:
            consumer.assign({self._tp: self._read_to if self._read_to else "earliest"})
            silent = 0
            while consumer.position(self._tp) < end:
                records = consumer.poll(_POLL_S)
                self._known |= {record.key for record in records if record.key is not None}
                silent = 0 if records else silent + 1
                if silent > _POLLS_MAX:
                    raise ConnectionLost(f"{self._tp} gives no rows, though they were there: start again")
            self._read_to = end

    def _create(self, cluster: Cluster) -> None:
        try:
            cluster.create_topics({self.topic: 1})
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
