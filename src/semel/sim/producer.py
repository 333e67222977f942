"""A producer process: the real pipeline (``core.client``) behind a simulated session.

It sends rows at random moments to random partitions, keeps count of what it was told about each, and may be
killed at any moment; what it had not been told is then unknown for ever, and its next life goes on with new
rows. A named producer takes its identity again with a raised epoch, one without a name is somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LeadersKnown,
    LogAnswered,
    LogSilent,
    Lost,
    SendProduce,
    Tick,
)
from semel.core.client.fate import Fenced, InDoubt, PartFate, Refused, Stored
from semel.core.client.pipeline import Pipeline, PipelineSettings
from semel.errors import ErrorCode
from semel.record.batch import Record
from semel.sim.history import History, Promise, SentRecord
from semel.sim.network import Network
from semel.sim.scheduler import Event as Planned
from semel.sim.scheduler import Scheduler
from semel.sim.session import RECONNECT_MS, Session
from semel.sim.trace import Trace
from semel.types import ProducerGrant, TopicPartition
from semel.wire import init_producer_id, messages, produce
from semel.wire.api import ApiKey

PRODUCE_VERSION: Final = 9
INIT_PRODUCER_ID_VERSION: Final = 4
DESCRIBE_PRODUCERS_VERSION: Final = 0
ACKS_ALL: Final = -1
ROW_GAP_MS_MAX: Final = 120
THE_NODE: Final = 0
VETERAN: Final = ProducerGrant(1 << 40, 0)  # has written nearly 2^31 rows before this history begins
VETERAN_LAST_SEQUENCE: Final = 2**31 - 12


class SimulatedProducer:
    """One life of one producer."""

    def __init__(
        self,
        name: str,
        life: int,
        transactional_id: str | None,
        rows: int,
        tps: Sequence[TopicPartition],
        random: Random,
        scheduler: Scheduler,
        network: Network,
        trace: Trace,
        history: History,
        *,
        is_veteran: bool = False,
    ) -> None:
        self.name: Final = f"{name}.{life}"
        self.rows_left = rows
        self._lineage = name if transactional_id is not None else self.name
        self._life = life
        self._transactional_id = transactional_id
        self._tps = tps
        self._random = random
        self._scheduler = scheduler
        self._trace = trace
        self._history = history
        self._session = Session(self.name, scheduler, network)
        self._pipeline = Pipeline(
            PipelineSettings(
                batch_bytes=random.choice((100, 200, 400)),
                linger_ms=random.choice((0, 5, 50)),
                in_flight_max=random.choice((1, 2, 5, 5, 5)),
                delivery_timeout_ms=random.choice((8_000, 60_000, 600_000)),
            )
        )
        if is_veteran:
            self._continue_as_veteran()
        self._records: dict[ProducerBatch, list[SentRecord]] = {}
        self._numbers = dict.fromkeys(tps, 0)
        self._tick: Planned | None = None
        self.alive = True
        scheduler.after(random.randint(0, ROW_GAP_MS_MAX), self._send_row)

    @property
    def is_done(self) -> bool:
        return not self.rows_left and not self._pipeline.unsettled_batches

    def die(self) -> None:
        """Killed: what it had not been told, nobody will be told."""
        self.alive = False
        self._session.die()
        unknown = 0
        for records in self._records.values():
            for record in records:
                if record.promise is Promise.OPEN:
                    record.promise = Promise.UNKNOWN
                    unknown += 1
        self._trace.note(self.name, f"dies, {unknown} records open")

    def _continue_as_veteran(self) -> None:
        self._pipeline.grant = VETERAN
        for tp in self._tps:
            pipe = self._pipeline._pipe(tp)
            pipe.grant, pipe.next_sequence = VETERAN, VETERAN_LAST_SEQUENCE + 1

    # -- rows -------------------------------------------------------------------------------------------

    def _send_row(self) -> None:
        if not self.alive or not self.rows_left:
            return
        for _ in range(min(self.rows_left, self._random.choice((1, 1, 2, 8)))):
            tp = self._random.choice(self._tps)
            number = self._life * 1_000_000 + self._numbers[tp]
            self._numbers[tp] += 1
            value = f"{self._lineage}/{tp.partition}:{number}".encode()
            row = Record(0, self._scheduler.now_ms, None, value)
            batch, _, _ = self._pipeline.append(tp, row, self._scheduler.now_ms)
            self._records.setdefault(batch, []).append(self._history.sent(value, tp))
            self.rows_left -= 1
        self.handle(Tick())
        self._scheduler.after(self._random.randint(1, ROW_GAP_MS_MAX), self._send_row)

    # -- the pipeline -----------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if not self.alive:
            return
        self._carry_out(self._pipeline.handle(event, self._scheduler.now_ms))
        if self._tick is not None:
            self._tick.cancel()
        deadline_ms = self._pipeline.next_deadline_ms()
        if deadline_ms is not None:
            delay_ms = max(1, deadline_ms - self._scheduler.now_ms)
            self._tick = self._scheduler.after(delay_ms, lambda: self.handle(Tick()))

    def _carry_out(self, effects: Effects) -> None:
        for batch, fate in effects.settled:
            self._settle(batch, fate)
        if effects.ask_grant:
            self._ask_grant()
        for topic in sorted(effects.ask_leaders_of):
            known = LeadersKnown(frozenset({topic}), {tp: THE_NODE for tp in self._tps if tp.topic == topic})
            self._scheduler.after(RECONNECT_MS, lambda known=known: self.handle(known))  # type: ignore[misc]
        for tp, grant in effects.ask_log:
            self._ask_log(tp, grant)
        for send in effects.sends:
            self._send(send)

    def _settle(self, batch: ProducerBatch, fate: PartFate) -> None:
        rows = self._records[batch.whole or batch]
        rows = rows[batch.first_row : batch.first_row + batch.record_count]
        promise = {
            Stored: Promise.STORED,
            Refused: Promise.REFUSED,
            InDoubt: Promise.UNKNOWN,
            Fenced: Promise.UNKNOWN,
        }[type(fate)]
        if isinstance(fate, Fenced) and not fate.maybe_stored:
            promise = Promise.REFUSED
        base_offset = fate.base_offset if isinstance(fate, Stored) else None
        self._trace.note(
            self.name, f"{rows[0].value.decode()}+{len(rows)} {type(fate).__name__} at {base_offset}"
        )
        for place, record in enumerate(rows):
            record.promise = promise
            record.record_offset = None if base_offset is None else base_offset + place

    # -- requests ---------------------------------------------------------------------------------------

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
                TopicPartition(result.topic, result.partition): Answer(
                    ErrorCode.of(result.error_code),
                    result.base_offset,
                    result.log_append_time_ms,
                    result.error_message,
                )
                for result in results
            }
            self.handle(Answered(send.request_id, answers))

        body = produce.encode_request(PRODUCE_VERSION, request)
        self._session.request(ApiKey.PRODUCE, PRODUCE_VERSION, body, done)

    def _ask_grant(self) -> None:
        request = init_producer_id.InitProducerIdRequest(self._transactional_id, 60_000)

        def done(body: memoryview | None, sent: bool) -> None:
            if body is not None:
                response = init_producer_id.decode_response(INIT_PRODUCER_ID_VERSION, body)
                if response.error_code == ErrorCode.NONE:
                    self._trace.note(self.name, f"granted {response.producer_id}/{response.producer_epoch}")
                    self.handle(Granted(ProducerGrant(response.producer_id, response.producer_epoch)))
                    return
            if self.alive:
                self._scheduler.after(RECONNECT_MS, self._ask_grant)

        body = init_producer_id.encode_request(INIT_PRODUCER_ID_VERSION, request)
        self._session.request(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, [body], done)

    def _ask_log(self, tp: TopicPartition, grant: ProducerGrant) -> None:
        fields = {"topics": [{"name": tp.topic, "partition_indexes": [tp.partition]}]}

        def done(body: memoryview | None, sent: bool) -> None:
            if body is None:
                self.handle(LogSilent(tp, "no answer"))
                return
            response = messages.decode_response(ApiKey.DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION, body)
            partition = response.topics[0].partitions[0]
            if int(partition.error_code) != ErrorCode.NONE:
                self.handle(LogSilent(tp, "an error"))
                return
            for known in partition.active_producers:
                if known.producer_id == grant.producer_id:
                    self.handle(LogAnswered(tp, known.producer_epoch, known.last_sequence))
                    return
            self.handle(LogAnswered(tp, None, None))

        body = messages.encode_request(ApiKey.DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION, fields)
        self._session.request(ApiKey.DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_VERSION, [body], done)
