"""Produce requests of one attempt, several of them in flight.

Requests of a partition leave in sequence order. After the first answer that is not definite nothing new is
sent: all that is in flight is awaited, and what is not surely stored is sent again in its order, one request
at a time. So a batch that came after a lost one, and was refused as out of order, is no error of its own; a
second refusal is.

A partition's first batch is awaited before the next leaves: Apache Kafka takes any first sequence from a
producer that it does not know, and would store the second batch without the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final

from semel.client.blocking import Cluster
from semel.client.model import Produced
from semel.errors import BrokerError, ConnectionLost, ErrorCode
from semel.record.batch import BatchHeader, decode_header
from semel.spark.sink_log import Stored, produce_until_answered
from semel.types import TopicPartition

IN_FLIGHT_MAX: Final = 5  # the log remembers five batches of a producer
IN_FLIGHT_BYTES_MAX: Final = 16 * 2**20

Batches = Mapping[TopicPartition, bytearray]
Taker = Callable[[TopicPartition, Produced, BatchHeader], None]


class Flight:
    """``send`` and, at last, ``land``; ``take`` gets each definite answer, with its batch's header.

    With ``stored``, what is in doubt is looked for in the log before it goes again; ``doubt`` is told of all partitions
    that have something in flight when the first of it is.
    """

    def __init__(
        self,
        cluster: Cluster,
        take: Taker,
        doubt: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None,
    ) -> None:
        self._cluster = cluster
        self._take = take
        self._doubt = doubt
        self.stored: Stored[bytearray] | None = None
        self._open: deque[tuple[Batches, Future[dict[TopicPartition, Produced]]]] = deque()
        self._open_bytes = 0
        self._begun: set[TopicPartition] = set()  # their leaders are known, and know this producer

    def send(self, batches: Batches) -> None:
        """At most one batch a partition; waits while too many are in flight."""
        if not self._begun.issuperset(batches):
            self.land()
            self._send(batches)
            self._begun.update(batches)
            return
        size_bytes = sum(map(len, batches.values()))
        while self._open and (
            len(self._open) >= IN_FLIGHT_MAX or self._open_bytes + size_bytes > IN_FLIGHT_BYTES_MAX
        ):
            self._settle()
        self._open.append((batches, self._cluster.begin_produce(batches, acks=-1, timeout_ms=30_000)))
        self._open_bytes += size_bytes

    def land(self) -> None:
        """Wait until every batch has its definite answer."""
        while self._open:
            self._settle()

    def _settle(self) -> None:
        """The oldest request's answer; should it leave a doubt, that of all that are in flight."""
        doubtful = self._settle_first()
        if not doubtful:
            return
        again = [doubtful]
        self._doubt({tp for batches in (doubtful, *(entry[0] for entry in self._open)) for tp in batches})
        while self._open:
            again.append(self._settle_first())
        self._begun.clear()
        for batches in again:
            self._send(batches, is_repeat=True)

    def _settle_first(self) -> Batches:
        batches, future = self._open.popleft()
        self._open_bytes -= sum(map(len, batches.values()))
        try:
            answers = future.result()
        except (ConnectionLost, BrokerError) as failed:
            if isinstance(failed, BrokerError) and not failed.code.retriable:
                raise
            answers = {}
        doubtful = {}
        for tp, batch in batches.items():
            answer = answers.get(tp)
            if answer is None or answer.error_code.retriable or _is_gap(answer):
                doubtful[tp] = batch
            else:
                self._take(tp, answer, decode_header(batch))
        return doubtful

    def _send(self, batches: Batches, *, is_repeat: bool = False) -> None:
        if not batches:
            return
        answers = produce_until_answered(self._cluster, batches, stored=self.stored, is_repeat=is_repeat)
        for tp, answer in answers.items():
            self._take(tp, answer, decode_header(batches[tp]))


def _is_gap(answer: Produced) -> bool:
    return answer.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
