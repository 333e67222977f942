"""What both kinds of producer share: the real pipeline (``core.client``) behind a simulated session.

It carries the pipeline's effects out, as ``client/engine`` does with asyncio; what a fate means for a row is
the owner's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from semel.client.reading_back import read_back
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    LeadersKnown,
    Leased,
    LeaseRefused,
    LogAnswered,
    LogSilent,
    Lost,
    ReadBack,
    SendProduce,
    Tick,
)
from semel.core.client.fate import PartFate
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.errors import ErrorCode, SemelError
from semel.record.batch import Record
from semel.sim.checkers.history import SentRecord
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import RECONNECT_MS, Session
from semel.sim.world.process import Process
from semel.sim.world.scheduler import Event as Planned
from semel.types import Lease, ProducerGrant, TopicPartition
from semel.wire import describe_producers, messages, produce
from semel.wire.api import ApiKey

PRODUCE_VERSION: Final = 9
DESCRIBE_PRODUCERS_VERSION: Final = 0
ACKS_ALL: Final = -1
LEASE_TIMEOUT_MS: Final = 2_000
THE_NODE: Final = 0


class PipelineShell:
    """One pipeline of one process."""

    def __init__(
        self,
        process: Process,
        session: Session,
        settings: PipelineSettings,
        tps: Sequence[TopicPartition],
        *,
        transactional_id: str | None,
        ask_grant: Callable[[], None],
        on_settled: Callable[[Sequence[SentRecord], ProducerBatch, PartFate], None],
        record_age_ms: int = 0,
        on_leased: Callable[[Lease], None] = lambda lease: None,
        on_read_back: Callable[[], None] = lambda: None,
        on_handled: Callable[[Event, Effects], None] = lambda event, effects: None,
    ) -> None:
        self.pipeline = Pipeline(settings)
        self.open: dict[ProducerBatch, list[SentRecord]] = {}
        self._process = process
        self._session = session
        self._tps = tps
        self._transactional_id = transactional_id
        self._ask_grant = ask_grant
        self._on_settled = on_settled
        self._record_age_ms = record_age_ms
        self._on_leased, self._on_read_back, self._on_handled = on_leased, on_read_back, on_handled
        self._cluster = SimulatedCluster(process, session, LEASE_TIMEOUT_MS)
        self._tick: Planned | None = None

    def append(self, record: SentRecord, key: bytes | None = None) -> None:
        row = Record(0, self._process.time_of_day_ms - self._record_age_ms, key, record.value)
        batch, _, _ = self.pipeline.backlog.append(record.tp, row, self._process.now_ms)
        self.open.setdefault(batch, []).append(record)

    def handle(self, event: Event) -> None:
        if not self._process.alive:
            return
        effects = self.pipeline.handle(event, self._process.now_ms)
        self._on_handled(event, effects)
        self._carry_out(effects)
        if self._tick is not None:
            self._tick.cancel()
        deadline_ms = self.pipeline.next_deadline_ms()
        if deadline_ms is not None and self._process.alive:
            delay_ms = max(1, deadline_ms - self._process.now_ms)
            self._tick = self._process.after(delay_ms, lambda: self.handle(Tick()))

    def _rows_of(self, batch: ProducerBatch) -> list[SentRecord]:
        rows = self.open[batch.whole or batch]
        return rows[batch.first_row : batch.first_row + batch.record_count]

    def _carry_out(self, effects: Effects) -> None:
        for batch, fate in effects.settled:
            self._on_settled(self._rows_of(batch), batch, fate)
            if batch.whole is None:
                del self.open[batch]
        if effects.ask_grant:
            self._ask_grant()
        if effects.ask_lease is not None:
            self._ask_lease(effects.ask_lease)
        for topic in sorted(effects.ask_leaders_of):
            known = LeadersKnown(frozenset({topic}), {tp: THE_NODE for tp in self._tps if tp.topic == topic})
            self._process.after(RECONNECT_MS, lambda known=known: self.handle(known))  # type: ignore[misc]
        for tp, grant in effects.ask_log:
            self._ask_log(tp, grant)
        for ask in effects.read_back:
            self._read_back(ask)
        for send in effects.sends:
            self._send(send)

    def _send(self, send: SendProduce) -> None:
        partitions = [
            produce.ProducePartition(
                batch.tp.topic, batch.tp.partition, memoryview(bytes(batch.encoded or b""))
            )
            for batch in send.batches
        ]
        request = produce.ProduceRequest(self._transactional_id, ACKS_ALL, 30_000, partitions)

        def done(body: memoryview | None, sent: bool) -> None:
            if body is None:
                self.handle(Lost(send.request_id, sent, "no answer"))
                return
            results, _ = produce.decode_response(PRODUCE_VERSION, body)
            answers = {
                TopicPartition(str(result.topic), result.partition): Answer(
                    ErrorCode.of(result.error_code),
                    result.base_offset,
                    result.log_append_time_ms,
                    result.error_message,
                )
                for result in results
            }
            for batch in send.batches:
                if answers[batch.tp].code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                    for record in self._rows_of(batch):
                        record.was_turned_away = True
            self.handle(Answered(send.request_id, answers))

        body = produce.encode_request(PRODUCE_VERSION, request)
        self._session.request(ApiKey.PRODUCE, PRODUCE_VERSION, body, done)

    def _ask_lease(self, tps: tuple[TopicPartition, ...]) -> None:
        asked_ms = self._process.now_ms

        def done(answer: Lease | ProducerGrant | None, error: Exception | None) -> None:
            if isinstance(answer, Lease):
                self._on_leased(answer)
                self.handle(Leased(answer, asked_ms))
            elif isinstance(error, SemelError):
                self.handle(LeaseRefused(str(error)))
            else:
                raise error or AssertionError("a server that knows leases gave an id without one")

        drive(self._cluster.lease_producer_id(tps, is_retried=False), done)

    def _read_back(self, ask: ReadBack) -> None:
        def done(answer: LogAnswered | None, error: Exception | None) -> None:
            if answer is not None:
                self._on_read_back()
                self.handle(answer)
            elif isinstance(error, SemelError):
                self.handle(LogSilent(ask.tp, str(error)))
            else:
                raise error or AssertionError("neither an answer nor an error")

        drive(read_back(self._cluster, ask), done)

    def _ask_log(self, tp: TopicPartition, grant: ProducerGrant) -> None:
        fields = {"topics": [{"name": tp.topic, "partition_indexes": [tp.partition]}]}
        asked_ms = self._process.now_ms

        def done(body: memoryview | None, sent: bool) -> None:
            if body is None:
                self.handle(LogSilent(tp, "no answer"))
                return
            (partition,) = describe_producers.decode_response(body)
            if partition.error_code != ErrorCode.NONE:
                self.handle(LogSilent(tp, "an error"))
                return
            for known in partition.producers:
                if known.producer_id == grant.producer_id:
                    epoch, last = known.producer_epoch, known.last_sequence
                    remaining_ms = known.lease_remaining_ms
                    self.handle(LogAnswered(tp, epoch, last, grant, remaining_ms, asked_ms))
                    return
            self.handle(LogAnswered(tp, None, None, grant))

        body = messages.encode_request(ApiKey.DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION, fields)
        self._session.request(ApiKey.DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION, [body], done)
