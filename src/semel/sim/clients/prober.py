"""A client that no client library is: it sends sequences as it likes, under ids that no server gave out.

Gaps, old batches, batches that straddle the mark, first sequences of unknown ids: each must get its verdict, and
none may disturb the others. It draws no conclusion from an answer, so nothing is promised about its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from semel.record.batch import encode_batch
from semel.sim.clients.session import Session
from semel.sim.server.reference import NEVER_LEASED_FROM
from semel.sim.world.history import Promise
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition
from semel.wire import produce
from semel.wire.api import ApiKey

PROBE_ID_MIN: Final = 1 << 42
GAP_MS_MAX: Final = 1_500
PRODUCE_VERSION: Final = 9
ACKS_ALL: Final = -1


class SimulatedProber:
    """One process for the whole history."""

    def __init__(
        self,
        tps: Sequence[TopicPartition],
        random: Random,
        around: Surroundings,
    ) -> None:
        self.process = Process(around.scheduler)
        self.wanted = True
        self._tps = tps
        self._random = random
        self._around = around
        self._session = Session("prober", self.process, around.network)
        self._next_sequence = dict.fromkeys(tps, 0)
        self._probes = 0
        self.process.after(1, self._probe)

    def _probe(self) -> None:
        if not self.wanted:
            return
        self._probes += 1
        random, tp = self._random, self._random.choice(self._tps)
        expected, record_count = self._next_sequence[tp], random.randint(1, 3)
        producer_id, producer_epoch, base_sequence = PROBE_ID_MIN, 0, expected
        match random.choice(
            ("next", "next", "next", "gap", "old", "straddling", "unknown", "never leased", "none")
        ):
            case "next":
                self._next_sequence[tp] += record_count
            case "gap":
                base_sequence += random.randint(1, 5)
            case "old":
                base_sequence = random.randint(0, expected)
            case "straddling":
                base_sequence, record_count = max(0, expected - 1), record_count + 1
            case "never leased":
                producer_id, base_sequence = NEVER_LEASED_FROM + self._probes, random.randint(0, 1)
            case "unknown":
                producer_id += self._probes
                base_sequence = random.randint(1, 9)
            case _:
                producer_id, producer_epoch, base_sequence = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
        if (
            producer_id != NO_PRODUCER_ID or not self._around.history.is_replayed
        ):  # else it would be stored twice
            self._send(tp, producer_id, producer_epoch, base_sequence, record_count)
        self.process.after(random.randint(1, GAP_MS_MAX), self._probe)

    def _send(
        self, tp: TopicPartition, producer_id: int, producer_epoch: int, base_sequence: int, record_count: int
    ) -> None:
        rows = []
        for place in range(record_count):
            value = f"probe{self._probes}.{place}/{tp.partition}:0".encode()
            record = self._around.history.sent(value, tp)
            record.promise = Promise.UNKNOWN
            rows.append(record.as_row(self.process.time_of_day_ms))
        self._around.counts.operations += record_count
        batch = encode_batch(
            rows, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
        )
        partition = produce.ProducePartition(tp.topic, tp.partition, memoryview(batch))
        request = produce.ProduceRequest(None, ACKS_ALL, 30_000, [partition])
        body = produce.encode_request(PRODUCE_VERSION, request)
        self._session.request(ApiKey.PRODUCE, PRODUCE_VERSION, body, lambda body: None)
