"""What both kinds of producer share: the real pipeline (``core.client``) and the real runner of its effects
(``client.effects``) in simulated time; what a fate means for a row is the owner's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from semel.client.effects import EffectRunner
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Answered, Effects, Event, Leased, LogAnswered, Lost, NoLeases, Tick
from semel.core.client.fate import PartFate
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.errors import ErrorCode
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.world.history import SentRecord
from semel.sim.world.process import Process
from semel.sim.world.scheduler import Event as Planned
from semel.types import Lease, ProducerGrant

_REFUSED_ALONE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class PipelineShell:
    """One pipeline of one process."""

    def __init__(
        self,
        process: Process,
        cluster: SimulatedCluster,
        settings: PipelineSettings,
        *,
        on_settled: Callable[[Sequence[SentRecord], ProducerBatch, PartFate], None],
        transactional_id: str | None = None,
        new_grant: Callable[[], Awaitable[ProducerGrant]] | None = None,
        record_age_ms: int = 0,
        on_leased: Callable[[Lease], None] = lambda lease: None,
        on_read_back: Callable[[], None] = lambda: None,
        on_handled: Callable[[Event, Effects], None] = lambda event, effects: None,
    ) -> None:
        self.pipeline = Pipeline(settings)
        self.open: dict[ProducerBatch, list[SentRecord]] = {}
        self._process = process
        self._runner = EffectRunner(
            cluster,
            start=self._start,
            handle=self.handle,
            new_grant=new_grant,
            transactional_id=transactional_id,
        )
        self._sent: dict[int, tuple[ProducerBatch, ...]] = {}  # by request
        self._on_settled = on_settled
        self._record_age_ms = record_age_ms
        self._on_leased, self._on_read_back, self._on_handled = on_leased, on_read_back, on_handled
        self._tick: Planned | None = None

    def append(self, record: SentRecord, key: bytes | None = None) -> None:
        row = record.as_row(self._process.time_of_day_ms - self._record_age_ms, key)
        batch, _, _ = self.pipeline.accumulator.append(record.tp, row, self._process.now_ms)
        self.open.setdefault(batch, []).append(record)

    def handle(self, event: Event) -> None:
        if not self._process.alive:
            return
        self._note(event)
        effects = self.pipeline.handle(event, self._process.now_ms)
        self._on_handled(event, effects)
        for send in effects.sends:
            self._sent[send.request_id] = send.batches
        for batch, fate in effects.settled:
            self._on_settled(self._rows_of(batch), batch, fate)
            if batch.whole is None:
                del self.open[batch]
        self._runner.carry_out(effects)
        if self._tick is not None:
            self._tick.cancel()
        deadline_ms = self.pipeline.next_deadline_ms()
        if deadline_ms is not None and self._process.alive:
            delay_ms = max(1, deadline_ms - self._process.now_ms)
            self._tick = self._process.after(delay_ms, lambda: self.handle(Tick()))

    def _rows_of(self, batch: ProducerBatch) -> list[SentRecord]:
        rows = self.open[batch.whole or batch]
        return rows[batch.first_row : batch.first_row + batch.record_count]

    def _note(self, event: Event) -> None:
        """What the pipeline itself does not keep."""
        match event:
            case Answered(request_id, answers):
                for batch in self._sent.pop(request_id):
                    if _is_refused_alone(answers[batch.tp].code):
                        for record in self._rows_of(batch):
                            record.was_turned_away = True
            case Lost(request_id):
                del self._sent[request_id]
            case Leased(lease):
                self._on_leased(lease)
            case LogAnswered(is_final=True):
                self._on_read_back()
            case NoLeases():
                raise AssertionError("a server that knows leases gave an id without one")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        drive(work, self._ended)

    def _ended(self, result: None, error: Exception | None) -> None:
        if error is not None:
            raise error


def _is_refused_alone(code: ErrorCode) -> bool:
    """Whether a copy of the request may fare otherwise: later, when there is room, a sound disk or no gap in front of
    it, or earlier, before its producer was fenced.
    """
    return code.retriable or code in _REFUSED_ALONE
