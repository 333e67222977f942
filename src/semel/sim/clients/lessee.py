"""A client that leases its ids and goes by no clock of its own, so that the server's word alone ends a lease.

It writes under a lease, stands still for longer than one lives, and then sends on: the batch whose answer it
lost, or a copy of its first batch, at sequence 0. Some of its leases it asks for once more, as a restarted copy
would. A batch that is refused goes to nobody else; its rows are not sent again under another id, for only who can
read the log back could tell whether they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from semel.errors import BrokerError, ConnectionLost, ErrorCode, SemelError
from semel.record.batch import encode_batch
from semel.sim.checkers.watchers import ProducerWatcher
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.session import Session
from semel.sim.world.history import Promise, SentRecord
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import Lease, ProducerGrant, TopicPartition

REQUEST_TIMEOUT_MS: Final = 5_000
GAP_MS_MAX: Final = 300
RESEND_MS: Final = (1, 400)
RESUME_CHANCE: Final = 0.08
LEAVE_CHANCE: Final = 0.05
LONG_PAUSE_CHANCE: Final = 0.08
_IS_STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_ENDS_A_GRANT: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})


def promise_of_a_refusal(code: ErrorCode, *, maybe_stored: bool, is_replayed: bool) -> Promise:
    """What the answer ``code`` to a batch says of its rows, to a client that does not read the log back.

    Where the network delivers requests again (``is_replayed``), a copy may have come before the grant ended, and
    the request itself just behind it.
    """
    if maybe_stored or (is_replayed and code in _ENDS_A_GRANT):
        return Promise.UNKNOWN
    return Promise.REFUSED


@dataclass(slots=True)
class _Batch:
    """One batch, kept as it was sent: a copy of it may go out at any time."""

    tp: TopicPartition
    encoded: bytes
    records: list[SentRecord]
    maybe_stored: bool = False

    def settle(self, promise: Promise) -> None:
        for record in self.records:
            record.promise = promise


@dataclass(slots=True)
class _Held:
    """A lease, and what was sent under it."""

    grant: ProducerGrant
    next_sequences: dict[TopicPartition, int]
    first_batches: list[_Batch] = field(default_factory=list)
    is_over: bool = False


class SimulatedLessee:
    """One process for the whole history."""

    def __init__(
        self,
        name: str,
        tps: Sequence[TopicPartition],
        random: Random,
        around: Surroundings,
        *,
        lease_ms: int,
        on_granted: Callable[[ProducerGrant], None],
    ) -> None:
        self.name: Final = name
        self.process = Process(around.scheduler)
        self.wanted = True
        self.is_done = False
        self._tps = tps
        self._random = random
        self._around = around
        self._lease_ms = lease_ms
        self._on_granted = on_granted
        self._batches = 0
        self._cluster = SimulatedCluster(
            self.process, Session(self.name, self.process, around.network), REQUEST_TIMEOUT_MS
        )
        drive(self._live(), self._ended)

    def _ended(self, result: None, error: Exception | None) -> None:
        self.is_done = True
        if error is not None:
            raise error

    async def _live(self) -> None:
        while self.wanted:
            held = await self._ask(None)
            while held is not None and not held.is_over and self.wanted:
                await self._send_next(held)
                what_now = self._random.random()
                if what_now < RESUME_CHANCE:
                    older, held = held, await self._ask(held) or held
                    if what_now < RESUME_CHANCE / 2 and older is not held:
                        await self._ask(older)  # as its twin would
                elif what_now < RESUME_CHANCE + LEAVE_CHANCE:
                    break
                await self._pause(LONG_PAUSE_CHANCE)
            if held is not None:
                await self._pause(0.5)
                await self._send_late_copies(held)

    async def _pause(self, chance_of_a_life: float) -> None:
        if self._random.random() < chance_of_a_life:
            await self._cluster.runtime.pause(int(self._lease_ms * self._random.uniform(0.5, 2.5)))
        else:
            await self._cluster.runtime.pause(self._random.randint(1, GAP_MS_MAX))

    # -- leases -----------------------------------------------------------------------------------------

    async def _ask(self, held: _Held | None) -> _Held | None:
        """A fresh lease, or the rest of ``held``, which ends with that one way or the other."""
        asked = self._random.sample(self._tps, self._random.randint(0, len(self._tps)))
        before = () if held is None else (held.grant.producer_id, held.grant.producer_epoch)
        try:
            lease = await self._cluster.lease_producer_id(asked, *before)
        except SemelError as error:
            if held is not None and isinstance(error, BrokerError):
                self._around.counts.verdict(f"lease: not resumed, {error.code.name}")
                held.is_over = held.is_over or error.code in (
                    ErrorCode.PRODUCER_FENCED,
                    ErrorCode.UNKNOWN_PRODUCER_ID,
                )
            return None
        assert isinstance(lease, Lease), "a server that knows leases gave an id without one"
        assert list(lease.first_sequences.items()) == [(tp, 0) for tp in asked]
        self._around.trace.note(self.name, f"leased {lease.grant} for {lease.remaining_ms} ms")
        self._around.counts.verdict(f"lease: {'granted' if held is None else 'resumed'}")
        self._around.watchers.of(ProducerWatcher).granted(lease.grant, is_fresh=held is None)
        self._on_granted(lease.grant)
        return _Held(lease.grant, dict.fromkeys(self._tps, 0))

    # -- batches ----------------------------------------------------------------------------------------

    async def _send_next(self, held: _Held) -> None:
        tp = self._random.choice(self._tps)
        base_sequence = held.next_sequences[tp]
        batch = self._new_batch(tp, held.grant, base_sequence)
        if not base_sequence:
            held.first_batches.append(batch)
        while self.wanted:
            code = await self._send(batch)
            if code in _IS_STORED:
                batch.settle(Promise.STORED)
                held.next_sequences[tp] += len(batch.records)
                return
            if code is not None and not code.retriable:
                self._around.trace.note(self.name, f"{batch.records[0].value.decode()} {code.name}")
                batch.settle(
                    promise_of_a_refusal(
                        code,
                        maybe_stored=batch.maybe_stored,
                        is_replayed=self._around.history.is_replayed,
                    )
                )
                held.is_over = True
                return
            # No answer, or a disk that failed behind the append; where there was no room nothing was done.
            if code is not ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                batch.maybe_stored = True
            if self._random.random() < 0.3:
                await self._pause(LONG_PAUSE_CHANCE)
            await self._cluster.runtime.pause(self._random.randint(*RESEND_MS))
        batch.settle(Promise.UNKNOWN)

    async def _send_late_copies(self, held: _Held) -> None:
        """Sequence 0 once more, when its lease is likely to be over and its entry gone."""
        for batch in held.first_batches:
            if self.wanted and self._random.random() < 0.7:
                code = await self._send(batch)
                if code is ErrorCode.UNKNOWN_PRODUCER_ID:
                    self._around.counts.verdict("lease: late copy at sequence 0 refused")
                await self._cluster.runtime.pause(self._random.randint(*RESEND_MS))

    async def _send(self, batch: _Batch) -> ErrorCode | None:
        """One attempt; ``None``: no answer."""
        try:
            produced = await self._cluster.produce({batch.tp: memoryview(bytearray(batch.encoded))})
        except ConnectionLost:  # before it was sent
            return None
        code = produced[batch.tp].error_code
        return None if code is ErrorCode.NETWORK_EXCEPTION else code

    def _new_batch(self, tp: TopicPartition, grant: ProducerGrant, base_sequence: int) -> _Batch:
        records = []
        for place in range(self._random.randint(1, 3)):
            value = f"{self.name}/{tp.partition}:{self._batches * 10 + place}".encode()
            records.append(self._around.history.sent(value, tp))
        self._batches += 1
        self._around.counts.operations += len(records)
        encoded = encode_batch(
            [record.as_row(self.process.time_of_day_ms) for record in records],
            producer_id=grant.producer_id,
            producer_epoch=grant.producer_epoch,
            base_sequence=base_sequence,
        )
        return _Batch(tp, bytes(encoded), records)
