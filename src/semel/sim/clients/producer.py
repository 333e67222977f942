"""A producer process without a saved position.

It sends rows at random moments to random partitions, keeps count of what it was told about each, and may be
killed at any moment; what it had not been told is then unknown for ever, and its next life goes on with new
rows. A named producer takes its identity again with a raised epoch, one without a name is somebody else; one
may write under an id that no server gave out, as any client may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from random import Random
from typing import Final

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects, Event, Granted, Tick
from semel.core.client.fate import Fenced, InDoubt, PartFate, Refused, Stored
from semel.core.client.settings import PipelineSettings
from semel.errors import BrokerError, ErrorCode
from semel.sim.checkers.watchers import ProducerWatcher
from semel.sim.clients.cluster import SimulatedCluster
from semel.sim.clients.sending import PipelineShell
from semel.sim.clients.session import Session
from semel.sim.world.faults import Fault
from semel.sim.world.history import Promise, SentRecord
from semel.sim.world.process import EVEN_PACE, Process
from semel.sim.world.surroundings import Surroundings
from semel.types import Lease, ProducerGrant, TopicPartition

REQUEST_TIMEOUT_MS: Final = 2_000
ROWS_WITHOUT_END: Final = 1 << 40
DAY_MS: Final = 86_400_000
VETERAN: Final = ProducerGrant(1 << 40, 0)  # has written nearly 2^31 rows before this history begins
VETERAN_LAST_SEQUENCE: Final = 2**31 - 12
INVENTED_ID_MIN: Final = 1 << 41
TIMES_MS: Final = (8_000, 60_000, 600_000)  # until a row is given up
SHORT_TIMES_MS: Final = (1_500, 3_000, 60_000)  # for who must not doubt what waits behind such a row


class Kind(Enum):
    """Where a producer's id comes from."""

    GIVEN = auto()  # from the server, a new one for each life
    NAMED = auto()  # from the server, the same for every life of its name, with a raised epoch
    INVENTED = auto()  # from nowhere
    LEASED = auto()  # from the server, for a time: a new one again and again
    VETERAN = auto()  # from an earlier life of which this history knows nothing: its sequences wrap

    @property
    def heir(self) -> Kind:
        """What the next life is."""
        return Kind.GIVEN if self is Kind.VETERAN else self


class SimulatedProducer:
    """One life of one producer."""

    def __init__(
        self,
        name: str,
        life: int,
        kind: Kind,
        tps: Sequence[TopicPartition],
        random: Random,
        around: Surroundings,
        *,
        pace: int,
        row_gap_ms_max: int,
        next_key: Callable[[], bytes | None],
        on_granted: Callable[[ProducerGrant], None],
        on_fenced: Callable[[], None],
    ) -> None:
        transactional_id = name if kind is Kind.NAMED else None
        self.name: Final = f"{name}.{life}"
        self.rows_left = ROWS_WITHOUT_END
        self.is_over = False  # fenced, or a newer copy runs
        self.process = Process(around.scheduler, pace)
        self._kind = kind
        self._pace = pace
        self._lineage = name if kind is Kind.NAMED else self.name
        self._life = life
        self._transactional_id = transactional_id
        self._row_gap_ms_max = row_gap_ms_max
        self._next_key = next_key
        self._on_granted, self._on_fenced = on_granted, on_fenced
        self._record_age_ms = random.choice((0, 0, 0, 2 * DAY_MS))  # who loads old rows
        self._tps = tps
        self._random = random
        self._around = around
        self._watcher = around.watchers.of(ProducerWatcher)
        self._session = Session(self.name, self.process, around.network)
        self._cluster = SimulatedCluster(self.process, self._session, REQUEST_TIMEOUT_MS)
        self._shell = PipelineShell(
            self.process,
            self._cluster,
            PipelineSettings(
                batch_bytes=random.choice((100, 200, 400)),
                linger_ms=random.choice((0, 5, 50)),
                in_flight_max=random.choice((1, 2, 5, 5, 5)),
                delivery_timeout_ms=random.choice(SHORT_TIMES_MS if kind is Kind.LEASED else TIMES_MS),
                lease=kind is Kind.LEASED,
                raises_epoch=kind is not Kind.NAMED,
            ),
            transactional_id=transactional_id,
            new_grant=self._new_grant,
            on_settled=self._settle,
            record_age_ms=self._record_age_ms,
            on_leased=self._leased,
            on_read_back=lambda: around.counts.verdict("lease: outlived, the log was read"),
            on_handled=self._show,
        )
        self._last_grant: ProducerGrant | None = None
        self._invented_id = INVENTED_ID_MIN + random.getrandbits(40)
        if kind is Kind.VETERAN:
            self._continue_as_veteran()
        self._numbers = dict.fromkeys(tps, 0)
        self.process.after(random.randint(0, row_gap_ms_max), self._send_row)

    @property
    def is_done(self) -> bool:
        return not self.rows_left and not self._shell.pipeline.accumulator.unsettled_batches

    @property
    def may_have_twin(self) -> bool:
        """Whether a newer copy of it would be the newer one for the server, too."""
        return self._last_grant is not None

    def die(self) -> None:
        """Killed: what it had not been told, nobody will be told."""
        self.process.alive = False
        self._session.die()
        unknown = 0
        for records in self._shell.open.values():
            for record in records:
                if record.promise is Promise.OPEN:
                    record.promise = Promise.UNKNOWN
                    unknown += 1
        self._around.trace.note(self.name, f"dies, {unknown} records open")

    def _continue_as_veteran(self) -> None:
        pipeline = self._shell.pipeline
        pipeline.grants.newest = VETERAN
        for tp in self._tps:
            pipeline.accumulator.begin(tp).resume(VETERAN, VETERAN_LAST_SEQUENCE + 1)

    def _send_row(self) -> None:
        if not self.rows_left:
            return
        if self._shell.pipeline.fenced is not None:
            self.rows_left = 0  # somebody else goes on with this identity
            self._on_fenced()
            return
        for _ in range(min(self.rows_left, self._random.choice((1, 1, 2, 8)))):
            tp = self._random.choice(self._tps)
            number = self._life * 1_000_000 + self._numbers[tp]
            self._numbers[tp] += 1
            value = f"{self._lineage}/{tp.partition}:{number}".encode()
            self._around.counts.operations += 1
            self._shell.append(self._around.history.sent(value, tp), self._next_key())
            self.rows_left -= 1
        self._shell.handle(Tick())
        self.process.after(self._random.randint(1, self._row_gap_ms_max), self._send_row)

    def _settle(self, rows: Sequence[SentRecord], batch: ProducerBatch, fate: PartFate) -> None:
        promise = {
            Stored: Promise.STORED,
            Refused: Promise.REFUSED,
            InDoubt: Promise.UNKNOWN,
            Fenced: Promise.UNKNOWN,
        }[type(fate)]
        if isinstance(fate, Fenced) and not fate.maybe_stored:
            promise = Promise.REFUSED
        if isinstance(fate, Stored) and batch.whole is not None:
            self._around.counts.verdict("producer: part of a batch stored, which was too large")
        if isinstance(fate, Refused) and fate.code is ErrorCode.MESSAGE_TOO_LARGE:
            self._around.counts.verdict("producer: row refused, which is too large")
        base_offset = fate.base_offset if isinstance(fate, Stored) else None
        self._around.trace.note(
            self.name, f"{rows[0].value.decode()}+{len(rows)} {type(fate).__name__} at {base_offset}"
        )
        for place, record in enumerate(rows):
            record.promise = promise
            record.record_offset = None if base_offset is None else base_offset + place

    def _show(self, event: Event, effects: Effects) -> None:
        if isinstance(event, Granted):
            self._granted(event.grant)
        if self._kind is not Kind.LEASED:
            return
        delivery_timeout_ms = self._shell.pipeline.settings.delivery_timeout_ms
        self._watcher.lease_holder_handled(event, effects, self.process.now_ms, delivery_timeout_ms)

    def _leased(self, lease: Lease) -> None:
        self._around.counts.verdict("lease: granted to a producer")
        if self._pace != EVEN_PACE:
            self._around.counts.bit(Fault.CLIENT_CLOCK)
        self._watcher.granted(lease.grant, is_fresh=True)
        self._on_granted(lease.grant)

    def _granted(self, grant: ProducerGrant) -> None:
        self._around.trace.note(self.name, f"granted {grant}")
        self._on_granted(grant)
        if self._kind is Kind.NAMED:
            self._last_grant = grant  # told when it asks again: whoever was granted meanwhile stays (KIP-360)

    async def _new_grant(self) -> ProducerGrant:
        if self._kind is Kind.INVENTED:
            await self._cluster.runtime.pause(1)
            self._invented_id += 1
            return ProducerGrant(self._invented_id, 0)
        before = (self._last_grant.producer_id, self._last_grant.producer_epoch) if self._last_grant else ()
        try:
            grant = await self._cluster.init_producer_id(self._transactional_id, *before)
        except BrokerError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                self._on_fenced()
                self.die()
            raise
        self._watcher.granted(grant, is_fresh=self._kind is Kind.GIVEN)
        return grant
