"""A topic for what cannot be read, written by whoever goes past it: each batch once.

Nothing else is written together with the position behind it, so the topic itself is asked what it has: a job that was
killed between the two finds its letter there. Of two that read the same at once both may write it; the key, which says
place and content, tells that it is one.

One connection, one reader and one producer serve all letters, from the first one on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from semel.client.blocking import Cluster
from semel.client.consumer import Consumer
from semel.client.producer import Producer
from semel.core.dead_letter import dead_letter
from semel.core.known_letters import KnownLetters
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
        self._known = KnownLetters()
        self._read_to = 0
        self._opened = ExitStack()
        self._cluster: Cluster | None = None
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._opened.close()

    def put(self, found: UnreadableBatch) -> int:
        """Have it stored, and say where its reader goes on: behind it.

        The error itself, where nobody knows where that is, and a ``ConfigError`` for a topic that is to hold its own.
        """
        if found.next_offset is None:
            raise found
        if found.partition.topic == self.topic:
            raise ConfigError(f"the dead letters of {self.topic} cannot go to {self.topic} itself")
        letter = dead_letter(found)
        if not self._has(letter.key, makes_it=True):
            if self._producer is None:
                self._producer = self._opened.enter_context(Producer(self._bootstrap, linger_ms=0))
            self._producer.send(
                self.topic, letter.value, letter.key, partition=_PARTITION, headers=letter.headers
            ).result(_STORED_S)
            self._known.add(letter.key)
        return found.next_offset

    def has(self, found: UnreadableBatch) -> bool:
        """Whether somebody has kept it; nothing is written."""
        return self._has(dead_letter(found).key, makes_it=False)

    def _has(self, key: bytes, *, makes_it: bool) -> bool:
        """Whether the topic has it by now; rows of others in it do no harm."""
        end = self._end(makes_it=makes_it)
        for each in self._keys(self._read_to, end):
            self._known.add(each)
        self._read_to = max(end, self._read_to)
        has = self._known.has(key)
        if has is None:
            self._known.look_ahead(key, self._keys(0, end))
            has = self._known.has(key)
        return bool(has)

    def _end(self, *, makes_it: bool) -> int:
        if self._cluster is None:
            self._cluster = self._opened.enter_context(Cluster(self._bootstrap))
        cluster = self._cluster
        try:
            cluster.topic(self.topic)
        except UnknownTopic:
            if not makes_it:
                raise
            self._create(cluster)
        return cluster.list_offsets({self._tp: LATEST_TIMESTAMP}, "read_uncommitted")[self._tp].offset

    def _keys(self, begin: int, end: int) -> Iterator[bytes]:
        """Of the topic's rows between these offsets, as they are read."""
        if begin >= end:
            return
        if self._consumer is None:
            self._consumer = self._opened.enter_context(
                Consumer(self._bootstrap, isolation="read_uncommitted")
            )
        consumer, silent = self._consumer, 0
        consumer.assign({self._tp: begin if begin else "earliest"})
        while consumer.position(self._tp) < end:
            records = consumer.poll(_POLL_S)
            yield from (record.key for record in records if record.key is not None)
            silent = 0 if records else silent + 1
            if silent > _POLLS_MAX:
                raise ConnectionLost(f"{self._tp} gives no rows, though they were there: start again")

    def _create(self, cluster: Cluster) -> None:
        try:
            cluster.create_topics({self.topic: 1})
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
