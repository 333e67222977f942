"""The idempotent producer's pipeline: which batch goes when, and what every answer means.

A Timed state machine: ``handle(event, now_ms) -> Effects`` and ``next_deadline_ms()``. It holds no socket,
clock or thread. Invariants: those of :mod:`semel.core.client.pipe`, and

- ``acknowledged_is_stored``: a batch settles as Stored only on an answer 0 or 46, or when the log itself
  says that its last sequence is stored.
- ``refused_is_not_stored``: a batch settles as Refused only when no attempt of it can be in the log or come
  to be there; otherwise it is InDoubt.
- ``in_doubt_only_in_silence``: under a lease a batch settles as InDoubt only when its time is over and no leader has
  said what became of it, or when the log was trimmed before it could be read (:mod:`semel.core.client.outliving`).
- ``no_blind_epoch``: on 45 the log is asked; the producer id is never changed to get past it.
- ``bounded``: at most ``in_flight_max`` requests a node and as many batches a partition are unanswered, and
  every batch settles within ``delivery_timeout_ms`` and one request's time-out.

What follows a failure for good hangs on ``strict``. A producer with a saved identity is strict: the
partition stops, since "the first n rows are stored" must stay true for a resume. One without goes on: with
the sequences closed up when that is safe, else under a raised epoch, which shuts out what is still under way of
the old one; under a new producer id when the epochs are used up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from semel.core.client import outliving
from semel.core.client.batch import BATCH_OVERHEAD_BYTES, ProducerBatch, estimated_bytes
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LastStored,
    LeadersKnown,
    Leased,
    LeaseRefused,
    LogAnswered,
    LogSilent,
    Lost,
    NoLeases,
    SendProduce,
    Trouble,
)
from semel.core.client.fate import (
    MAYBE_APPENDED,
    Fenced,
    InDoubt,
    Next,
    PartFate,
    Refused,
    Stored,
    next_step,
)
from semel.core.client.leaders import Leaders
from semel.core.client.leasing import Leasing
from semel.core.client.pipe import PartitionPipe
from semel.errors import ErrorCode
from semel.record.batch import Record
from semel.record.compression import Compression
from semel.sequence import advance, distance, last_of
from semel.types import NO_SEQUENCE, PRODUCER_EPOCH_MAX, ProducerGrant, TopicPartition, is_leased


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Bounds of one producer; the names are Kafka's where Kafka has one."""

    batch_bytes: int = 262_144
    linger_ms: int = 5
    compression: Compression = Compression.NONE
    in_flight_max: int = 5
    request_bytes_max: int = 1_048_576
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 50
    retry_backoff_ms_max: int = 1_000
    idempotent: bool = True
    strict: bool = False
    lease: bool = False
    raises_epoch: bool = True  # of an id without a name: the epochs of a name are its coordinator's to give


class Pipeline:
    """All partitions of one producer."""

    def __init__(self, settings: PipelineSettings) -> None:
        self.settings = settings
        self.grant: ProducerGrant | None = None
        self.buffered_bytes = 0
        self.unsettled_batches = 0
        self.fenced: Fenced | None = None
        self.failed: Refused | InDoubt | None = None  # strict: why it does not go on
        self._pipes: dict[TopicPartition, PartitionPipe] = {}
        self._busy: dict[TopicPartition, PartitionPipe] = {}
        self._leaders = Leaders(settings.retry_backoff_ms)
        self._requests: dict[int, SendProduce] = {}
        self._requests_of_node: dict[int, int] = {}
        self._next_request_id = 0
        self._asking_grant = False
        self._leasing = (
            Leasing(settings.retry_backoff_ms, settings.retry_backoff_ms_max) if settings.lease else None
        )
        self._unleasable: str | None = None  # why there will never be a lease
        self._handled_ms = 0
        self._trouble = ""  # why nothing could be sent lately

    # -- what the caller puts in ------------------------------------------------------------------------

    def append(self, tp: TopicPartition, row: Record, now_ms: int) -> tuple[ProducerBatch, int, bool]:
        """Buffer one row. Returns its batch, its place there, and whether the shell should tick."""
        pipe = self._pipe(tp)
        batch = pipe.filling
        size_bytes = estimated_bytes(row)
        wake = False
        if batch is not None and batch.size_bytes + size_bytes > self.settings.batch_bytes:
            pipe.seal()
            batch, wake = None, True
        if batch is None:
            batch = pipe.filling = ProducerBatch(tp, now_ms)
            self.unsettled_batches += 1
            self.buffered_bytes += BATCH_OVERHEAD_BYTES
            wake = True
        place = batch.add(row)
        self.buffered_bytes += size_bytes
        return batch, place, wake

    def append_encoded(
        self, tp: TopicPartition, encoded: bytearray, record_count: int, now_ms: int
    ) -> ProducerBatch:
        """Buffer a batch that is encoded already."""
        pipe = self._pipe(tp)
        pipe.seal()
        batch = ProducerBatch.of_encoded(tp, encoded, record_count, now_ms)
        pipe.waiting.append(batch)
        self.unsettled_batches += 1
        self.buffered_bytes += batch.size_bytes
        return batch

    def flush(self) -> None:
        """Send what is buffered without waiting for more. Rows appended later linger as before."""
        for pipe in self._busy.values():
            pipe.seal()

    def unsettled(self) -> list[ProducerBatch]:
        """Every batch that has no fate yet, as it was appended."""
        return list(
            {
                batch.whole or batch: None
                for pipe in self._busy.values()
                for batch in (*pipe.in_flight, *pipe.waiting, *([pipe.filling] if pipe.filling else ()))
            }
        )

    def forget_unsent(self, why: str) -> Effects:
        """Give up: settle everything now, by what is known of it. For a close whose time is over."""
        effects = Effects()
        for pipe in list(self._busy.values()):
            pipe.seal()
            self._give_up(pipe, ErrorCode.REQUEST_TIMED_OUT, why, effects)
        return effects

    # -- Timed ------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> Effects:
        """Take in what happened; say what is to be done."""
        effects = Effects()
        self._handled_ms = now_ms
        match event:
            case Trouble(why):
                self._trouble = why
            case Granted(grant):
                self.grant, self._asking_grant = grant, False
            case Leased(lease, asked_ms) if self._leasing is not None:
                if self._leasing.take(lease, asked_ms, now_ms):
                    self.grant = self._leasing.grant
            case LeaseRefused(why) if self._leasing is not None:
                self._trouble = why
                self._leasing.refuse(now_ms)
            case NoLeases(why):
                self._unleasable = why
            case LeadersKnown(topics, leaders):
                self._leaders.take(topics, leaders, now_ms)
            case Answered(request_id, answers):
                self._trouble = ""
                for batch in self._close_request(request_id):
                    answer = answers.get(batch.tp, Answer(ErrorCode.NETWORK_EXCEPTION))
                    self._judge(batch, answer, now_ms, effects)
            case Lost(request_id, sent, why):
                self._trouble = why
                for batch in self._close_request(request_id):
                    batch.maybe_stored |= sent
                    self._retry(batch, now_ms, elsewhere=True)
                    if now_ms >= self._expires_ms(batch):
                        self._expire(self._pipes[batch.tp], why, effects, now_ms)
            case LogAnswered(tp, _, _, asked_for):
                pipe = self._pipes[tp]
                is_asked = pipe.asking is not None and pipe.asking.grant == asked_for
                self._take_stored(pipe, event, now_ms, effects)
                # Shut out, the log does not know what it knew before.
                if is_asked and (event.is_final or not pipe.is_shut):
                    self._judge_by_log(pipe, event, now_ms, effects)
            case LogSilent(tp, why):
                pipe, self._trouble = self._pipes[tp], why
                if pipe.asking is not None:
                    pipe.asking.not_before_ms = now_ms + self.settings.retry_backoff_ms
                    pipe.asking = None
        self._advance(now_ms, effects)
        return effects

    def next_deadline_ms(self) -> int | None:
        """When ``handle(Tick())`` is due, or None while only an event can change anything.

        Never in the past: what was due at the last event and could not go waits for an answer, not for time.
        """
        if not self._busy:
            return None
        next_lease_ms = None if self._leasing is None else self._leasing.next_question_ms()
        deadlines = chain(
            () if next_lease_ms is None else (next_lease_ms,), *map(self._deadlines, self._busy.values())
        )
        return min((when for when in deadlines if when > self._handled_ms), default=None)

    # -- sending ----------------------------------------------------------------------------------------

    def _advance(self, now_ms: int, effects: Effects) -> None:
        if self.unsettled_batches == 0:
            return
        if self._leasing is not None:
            self._lease_if_due(self._leasing, now_ms, effects)
        ready: dict[int, list[PartitionPipe]] = {}
        for pipe in list(self._busy.values()):
            self._seal_if_due(pipe, now_ms)
            if self._unleasable is not None:
                pipe.stopped = ErrorCode.UNSUPPORTED_VERSION, self._unleasable
            if pipe.stopped is not None:
                self._stop(pipe, *pipe.stopped, effects)
                continue
            self._expire_if_due(pipe, now_ms, effects)
            if pipe.is_over(now_ms):
                outliving.ask_the_log(pipe, now_ms, effects)
            if pipe.gap_at is not None and not pipe.in_flight and pipe.asking is None:
                self._close_gap(pipe)
            if not pipe.waiting:
                continue
            if self.settings.idempotent and not self._has_grant(pipe, effects):
                continue
            leader = self._leaders.of(pipe.tp)
            if leader is None:
                if self._leaders.ask_if_due(pipe.tp.topic, now_ms):
                    effects.ask_leaders_of.add(pipe.tp.topic)
            elif pipe.head(now_ms, self.settings.in_flight_max) is not None:
                ready.setdefault(leader, []).append(pipe)
        for node_id, pipes in ready.items():
            self._send_to(node_id, pipes, now_ms, effects)

    def _send_to(self, node_id: int, pipes: list[PartitionPipe], now_ms: int, effects: Effects) -> None:
        while pipes and self._requests_of_node.get(node_id, 0) < self.settings.in_flight_max:
            size_bytes = 0
            taken: list[ProducerBatch] = []
            for pipe in list(pipes):
                batch = pipe.head(now_ms, self.settings.in_flight_max)
                if batch is None:
                    pipes.remove(pipe)
                    continue
                size_bytes += len(batch.encode(self.settings.compression))
                if taken and size_bytes > self.settings.request_bytes_max:
                    break
                taken.append(pipe.take())
                pipes.remove(pipe)
                pipes.append(pipe)  # its turn comes again after the others
            if not taken:
                return
            taken.sort(key=lambda batch: batch.tp.topic)
            request = SendProduce(self._next_request_id, node_id, tuple(taken))
            self._next_request_id += 1
            self._requests[request.request_id] = request
            self._requests_of_node[node_id] = self._requests_of_node.get(node_id, 0) + 1
            effects.sends.append(request)

    def _has_grant(self, pipe: PartitionPipe, effects: Effects) -> bool:
        if pipe.grant is None and not pipe.in_flight:
            self._begin_anew(pipe, "a batch in front of it failed", effects)
        ends_ms = None if self._leasing is None else self._leasing.ends_ms
        if self.grant is not None and pipe.adopt(self.grant, ends_ms):
            return True
        if self.grant is None and not self._asking_grant and self._leasing is None:
            self._asking_grant = effects.ask_grant = True
        return self._may_finish(pipe)

    @staticmethod
    def _may_finish(pipe: PartitionPipe) -> bool:
        """An older grant stays good for what was begun with it; new batches wait for the new one."""
        return pipe.grant is not None and bool(pipe.waiting) and pipe.waiting[0].attempts > 0

    def _seal_if_due(self, pipe: PartitionPipe, now_ms: int) -> None:
        filling = pipe.filling
        if filling is not None and now_ms >= filling.created_ms + self.settings.linger_ms:
            pipe.seal()

    def _deadlines(self, pipe: PartitionPipe) -> Iterable[int]:
        if pipe.filling is not None:
            yield pipe.filling.created_ms + self.settings.linger_ms
        if pipe.waiting and not pipe.in_flight:
            head = pipe.waiting[0]
            yield self._expires_ms(head)
            if pipe.ends_ms is not None:
                yield pipe.ends_ms
                if pipe.asking is None:
                    yield head.not_before_ms
            if self.settings.idempotent and self.grant is None and not self._may_finish(pipe):
                return
            if self._leaders.of(pipe.tp) is None:
                question_ms = self._leaders.next_question_ms(pipe.tp.topic)
                if question_ms is not None:
                    yield question_ms
            elif pipe.asking is None:
                yield head.not_before_ms

    # -- what an answer means ---------------------------------------------------------------------------

    def _judge(self, batch: ProducerBatch, answer: Answer, now_ms: int, effects: Effects) -> None:
        pipe = self._pipes[batch.tp]
        code = answer.code
        if code in MAYBE_APPENDED:
            batch.maybe_stored = True
        why = answer.message or f"the broker answered {code.name}"
        match next_step(code):
            case Next.ACCEPT:
                known = code is ErrorCode.NONE and answer.base_offset >= 0
                base_offset = answer.base_offset if known else None
                self._stored(pipe, batch, base_offset, answer.log_append_time_ms, now_ms, effects)
            case Next.RETRY:
                self._retry(batch, now_ms, elsewhere=False)
            case Next.RETRY_ELSEWHERE:
                self._retry(batch, now_ms, elsewhere=True)
            case Next.SPLIT if batch.record_count > 1:
                pipe.replace(batch, parts := batch.split(self.settings.compression))
                self.unsettled_batches += len(parts) - 1
                self.buffered_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes
            case Next.ASK_THE_LOG | Next.ASK_OR_FAIL as step:
                pipe.put_back(batch)
                # While those in front are unsettled they may only be late: 45 then proves nothing.
                is_proof = pipe.is_first_in_line(batch) and pipe.gap_at is None
                if is_proof and batch.grant is not None and batch.grant == pipe.grant:
                    pipe.asking = batch
                    pipe.refusal = (code, why) if step is Next.ASK_OR_FAIL else None
                    effects.ask_log.append((batch.tp, batch.grant))
            case Next.FENCED:
                self._fence(batch, code, None, effects)
            case Next.NEW_GRANT if batch.grant is not None and is_leased(batch.grant.producer_id):
                pipe.put_back(batch)  # this attempt is not stored; what of those before it, the log is asked
                pipe.ends_ms = now_ms
                self._give_up_lease(pipe, now_ms)
            case Next.NEW_GRANT:
                self._forgotten(pipe, batch, why, effects)
            case _:
                self._refuse(pipe, batch, code, why, effects)

    def _take_stored(self, pipe: PartitionPipe, answer: LogAnswered, now_ms: int, effects: Effects) -> None:
        """What the log says is stored is, whichever batch it was asked about, and however long ago."""
        while (batch := pipe.front_of(answer.asked_for)) is not None and batch.is_within(answer.stored_to):
            pipe.asking = None
            pipe.recall_front()
            self._stored(pipe, batch, None, -1, now_ms, effects)

    def _judge_by_log(self, pipe: PartitionPipe, answer: LogAnswered, now_ms: int, effects: Effects) -> None:
        """What becomes of the batch that the log does not have, or has in part."""
        newest_epoch, stored_to = answer.newest_epoch, answer.stored_to
        # The last word is about whoever is in front by now.
        batch = pipe.front_of(answer.asked_for) if answer.is_final else pipe.asking
        pipe.asking = None
        if batch is None:
            return
        if newest_epoch is not None and newest_epoch > answer.asked_for.producer_epoch:
            pipe.recall_front()
            self._fence(batch, ErrorCode.INVALID_PRODUCER_EPOCH, newest_epoch, effects)
            return
        if stored_to != NO_SEQUENCE and distance(stored_to, batch.base_sequence) >= 0:
            pipe.recall_front()
            why = f"its sequences up to {stored_to} are stored, by another that writes under the same id"
            self._give_up_batch(pipe, batch, InDoubt(ErrorCode.INVALID_RECORD, why), effects)
        elif pipe.refusal is not None and not pipe.is_over(now_ms):
            pipe.recall_front()
            self._refuse(pipe, batch, *pipe.refusal, effects)
        elif answer.is_final and answer.is_cut and answer.last_sequence is None:
            self._begin_anew(pipe, "its lease is over, and the log was trimmed", effects)
            pipe.leave()
        elif pipe.is_over(now_ms):
            outliving.judge(pipe, answer, now_ms, self.settings.retry_backoff_ms)
        elif advance(stored_to, 1) == batch.base_sequence:
            batch.not_before_ms = now_ms + self.settings.retry_backoff_ms
        else:
            pipe.recall_front()
            self._forgotten(
                pipe,
                batch,
                f"the log's last sequence of this producer is {stored_to}, this batch begins at "
                f"{batch.base_sequence}: rows that were acknowledged before it are missing",
                effects,
            )

    def _stored(
        self,
        pipe: PartitionPipe,
        batch: ProducerBatch,
        base_offset: int | None,
        log_append_time_ms: int,
        now_ms: int,
        effects: Effects,
    ) -> None:
        pipe.taken_by_log(batch, now_ms)
        if base_offset is not None and batch.grant is not None and not pipe.is_behind_unsettled(batch):
            last_sequence = last_of(batch.base_sequence, batch.record_count)
            pipe.last_stored = LastStored(base_offset + batch.record_count, batch.grant, last_sequence)
        fate = Stored(batch.grant, batch.base_sequence, base_offset, log_append_time_ms)
        if pipe.gap_at is not None and distance(batch.base_sequence, pipe.gap_at) >= 0:
            # Behind a gap, yet taken: this log did not know the producer. The line goes on from here.
            pipe.gap_at = advance(batch.base_sequence, batch.record_count)
        self._settle(pipe, batch, fate, effects)

    def _retry(self, batch: ProducerBatch, now_ms: int, *, elsewhere: bool) -> None:
        pipe = self._pipes[batch.tp]
        pipe.put_back(batch)
        pause_ms = self.settings.retry_backoff_ms * 2 ** min(batch.attempts - 1, 10)
        batch.not_before_ms = now_ms + min(pause_ms, self.settings.retry_backoff_ms_max)
        if elsewhere:
            self._leaders.forget(batch.tp)

    def _refuse(
        self, pipe: PartitionPipe, batch: ProducerBatch, code: ErrorCode, why: str, effects: Effects
    ) -> None:
        """Failed for good; under a lease, not before the log has said what became of earlier attempts."""
        if not batch.maybe_stored:
            self._give_up_batch(pipe, batch, Refused(code, why), effects)
        elif self._is_leased(pipe):
            pipe.put_back(batch)
            self._drop_grant(pipe)
        else:
            self._give_up_batch(pipe, batch, InDoubt(code, why), effects)

    def _give_up_batch(
        self, pipe: PartitionPipe, batch: ProducerBatch, fate: Refused | InDoubt, effects: Effects
    ) -> None:
        """Close the gap that it leaves, or stop the partition if it must not go on."""
        gap_at = batch.base_sequence
        self._settle(pipe, batch, fate, effects)
        if self.settings.strict:
            self._stop(pipe, fate.code, f"a batch in front of it failed: {fate.why}", effects)
        elif self.settings.idempotent and isinstance(fate, Refused):
            pipe.gap_at = gap_at if pipe.gap_at is None else pipe.gap_at
        elif self.settings.idempotent:
            self._drop_grant(pipe)

    def _forgotten(self, pipe: PartitionPipe, batch: ProducerBatch, why: str, effects: Effects) -> None:
        """The log does not know our sequences any more."""
        if self.settings.strict or batch.maybe_stored:
            self._refuse(pipe, batch, ErrorCode.UNKNOWN_PRODUCER_ID, why, effects)
            return
        pipe.put_back(batch)
        self._drop_grant(pipe)

    def _close_gap(self, pipe: PartitionPipe) -> None:
        assert pipe.gap_at is not None
        if not pipe.close_gap(pipe.gap_at):
            self._drop_grant(pipe)
        pipe.gap_at = None

    def _drop_grant(self, pipe: PartitionPipe) -> None:
        """Go on under a raised epoch or another id, once every answer for the old one is in.

        A lease is left by reading the log: nobody who waits behind what failed is in doubt for that.
        """
        if self._is_leased(pipe) and pipe.begun:
            pipe.ends_ms, pipe.is_shut, pipe.asking = self._handled_ms, True, None
            self._give_up_lease(pipe, self._handled_ms)
            return
        if pipe.grant == self.grant:
            self.grant = self._raised(pipe.grant)
        pipe.leave()

    def _raised(self, grant: ProducerGrant | None) -> ProducerGrant | None:
        """The same id with the next epoch; None if one has to be asked for."""
        if (
            grant is None
            or self.settings.lease
            or not self.settings.raises_epoch
            or grant.producer_epoch >= PRODUCER_EPOCH_MAX
        ):
            return None
        return replace(grant, producer_epoch=grant.producer_epoch + 1)

    def _begin_anew(self, pipe: PartitionPipe, why: str, effects: Effects) -> None:
        """Before a partition moves to another grant: what may be stored under the old one is not resent."""
        for batch in list(pipe.waiting):
            if batch.maybe_stored:
                pipe.waiting.remove(batch)
                pipe.in_flight.append(batch)
                fate = InDoubt(ErrorCode.REQUEST_TIMED_OUT, f"its answer was lost, and {why}")
                self._settle(pipe, batch, fate, effects)
            else:
                batch.attempts, batch.grant = 0, None

    def _stop(self, pipe: PartitionPipe, code: ErrorCode, why: str, effects: Effects) -> None:
        pipe.stopped, pipe.asking = (code, why), None
        pipe.seal()
        for batch in list(pipe.waiting):
            pipe.waiting.remove(batch)
            pipe.in_flight.append(batch)
            fate: PartFate = InDoubt(code, why) if batch.maybe_stored else Refused(code, why)
            if self.fenced is not None:
                fate = Fenced(code, batch.grant, self.fenced.newer_epoch, batch.maybe_stored)
            self._settle(pipe, batch, fate, effects)

    def _fence(
        self, batch: ProducerBatch, code: ErrorCode, newer_epoch: int | None, effects: Effects
    ) -> None:
        fate = Fenced(code, batch.grant, newer_epoch, batch.maybe_stored)
        self.fenced = self.fenced or fate
        self._settle(self._pipes[batch.tp], batch, fate, effects)
        for pipe in list(self._busy.values()):
            self._stop(pipe, code, "a newer copy of this producer's identity writes", effects)

    # -- leases -----------------------------------------------------------------------------------------

    def _lease_if_due(self, leasing: Leasing, now_ms: int, effects: Effects) -> None:
        if self.grant is None or leasing.ends_by(now_ms):
            self.grant = leasing.tenure = None
        due_ms = leasing.next_question_ms()
        if due_ms is not None and now_ms >= due_ms:
            leasing.is_asking = True
            effects.ask_lease = tuple(self._pipes)

    @staticmethod
    def _is_leased(pipe: PartitionPipe) -> bool:
        return pipe.grant is not None and is_leased(pipe.grant.producer_id)

    def _give_up_lease(self, pipe: PartitionPipe, now_ms: int) -> None:
        assert self._leasing is not None
        if pipe.grant == self.grant:
            self.grant = None
            self._leasing.give_up(now_ms)

    # -- time -------------------------------------------------------------------------------------------

    def _expires_ms(self, batch: ProducerBatch) -> int:
        return batch.created_ms + self.settings.delivery_timeout_ms

    def _expire_if_due(self, pipe: PartitionPipe, now_ms: int, effects: Effects) -> None:
        if pipe.waiting and now_ms >= self._expires_ms(pipe.waiting[0]):
            self._expire(pipe, self._trouble or "no leader took it in time", effects, now_ms)

    def _expire(self, pipe: PartitionPipe, why: str, effects: Effects, now_ms: int) -> None:
        """Settle the waiting batches whose time is over, front to back."""
        if pipe.in_flight:
            return  # their answers come first; each is bounded by its request's time-out
        pipe.asking = None
        began = False
        while pipe.waiting and now_ms >= self._expires_ms(pipe.waiting[0]):
            batch = pipe.waiting.popleft()
            began |= batch.attempts > 0
            pipe.in_flight.append(batch)
            text = f"not acknowledged within {self.settings.delivery_timeout_ms} ms: {why}"
            doubt = batch.maybe_stored
            code = ErrorCode.REQUEST_TIMED_OUT
            self._settle(pipe, batch, InDoubt(code, text) if doubt else Refused(code, text), effects)
        if self.settings.strict:
            self._stop(
                pipe, ErrorCode.REQUEST_TIMED_OUT, "a batch in front of it was not acknowledged", effects
            )
        elif began and self.settings.idempotent:
            self._drop_grant(pipe)

    def _give_up(self, pipe: PartitionPipe, code: ErrorCode, why: str, effects: Effects) -> None:
        for batch in list(pipe.in_flight):
            self._settle(pipe, batch, InDoubt(code, why), effects)
        self._stop(pipe, code, why, effects)

    # -- bookkeeping ------------------------------------------------------------------------------------

    def _pipe(self, tp: TopicPartition) -> PartitionPipe:
        pipe = self._busy.get(tp)
        if pipe is None:
            pipe = self._pipes.get(tp)
            if pipe is None:
                pipe = self._pipes[tp] = PartitionPipe(tp)
            self._busy[tp] = pipe
        return pipe

    def _settle(self, pipe: PartitionPipe, batch: ProducerBatch, fate: PartFate, effects: Effects) -> None:
        pipe.in_flight.remove(batch)
        self.unsettled_batches -= 1
        self.buffered_bytes -= batch.size_bytes
        effects.settled.append((batch, fate))
        if self.settings.strict and self.failed is None and isinstance(fate, Refused | InDoubt):
            self.failed = fate
        if pipe.is_idle:
            self._busy.pop(pipe.tp, None)

    def _close_request(self, request_id: int) -> list[ProducerBatch]:
        request = self._requests.pop(request_id, None)
        if request is None:
            return []
        self._requests_of_node[request.node_id] -= 1
        return [batch for batch in request.batches if batch in self._pipes[batch.tp].in_flight]
