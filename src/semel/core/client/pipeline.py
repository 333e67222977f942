"""The idempotent producer's pipeline: what happens is taken in, and which batch goes when is decided.

A Timed state machine: ``handle(event, now_ms) -> Effects`` and ``next_deadline_ms()``. It holds no socket,
clock or thread. Its rooms: the rows wait in :mod:`~semel.core.client.record_accumulator`, a queue a partition
(:mod:`~semel.core.client.partition_queue`), and leave in :mod:`~semel.core.client.requests`;
:mod:`~semel.core.client.grants` says under which id, :mod:`~semel.core.client.judge` what an answer means,
:mod:`~semel.core.client.aftermath` what follows when a batch failed for good, and
:mod:`~semel.core.client.transaction` which rows count together. Their invariants hold, and

- ``bounded``: at most ``in_flight_max`` requests a node and as many batches a partition are unanswered, and
  every batch settles within ``delivery_timeout_ms`` and one request's time-out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from semel.core.client import outliving
from semel.core.client.aftermath import Aftermath
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LeadersKnown,
    Leased,
    LeaseRefused,
    LogAnswered,
    LogSilent,
    Lost,
    NoLeases,
    Trouble,
)
from semel.core.client.fate import Fenced, InDoubt, Refused
from semel.core.client.grants import Grants
from semel.core.client.judge import Judge
from semel.core.client.leaders import Leaders
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.record_accumulator import RecordAccumulator
from semel.core.client.requests import Requests
from semel.core.client.settings import PipelineSettings
from semel.core.client.transaction import Aborted, Transactions
from semel.core.client.transaction_events import (
    AbortAsked,
    BeginAsked,
    CommitAsked,
    CoordinatorAnswered,
    CoordinatorLost,
    GivenUp,
    OffsetsAsked,
    StartAsked,
)
from semel.core.client.transaction_places import Failure, Ready
from semel.errors import ErrorCode


class Pipeline:
    """All partitions of one producer. Rows are put into its ``accumulator``; whoever did so has it handle a Tick."""

    def __init__(self, settings: PipelineSettings) -> None:
        self.settings = settings
        self.transactions = None if settings.transactions is None else Transactions(settings.transactions)
        self.accumulator = RecordAccumulator(
            settings.batch_bytes, is_transactional=settings.transactions is not None
        )
        self.grants = Grants(settings)
        self.leaders = Leaders(settings.retry_backoff_ms)
        self._requests = Requests(settings)
        self._aftermath = Aftermath(settings, self.accumulator, self.grants)
        self._judge = Judge(settings, self.accumulator, self.grants, self.leaders, self._aftermath)
        self._handled_ms = 0
        self._trouble = ""  # why nothing could be sent lately

    @property
    def fenced(self) -> Fenced | None:
        """The newer copy that has this one's place."""
        return self._aftermath.fenced

    @property
    def failed(self) -> Refused | InDoubt | None:
        """The first failure of a strict producer, which does not go on."""
        return self._aftermath.failed

    def forget_unsent(self, why: str) -> Effects:
        """Give up: settle everything now, by what is known of it. For a close whose time is over."""
        effects = Effects()
        self._aftermath.stop_all(ErrorCode.REQUEST_TIMED_OUT, why, effects)
        return effects

    # -- Timed ------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> Effects:
        """Take in what happened; say what is to be done."""
        effects = Effects()
        self._handled_ms = now_ms
        match event:
            case Trouble(why):
                self._trouble = why
            case CommitAsked() | AbortAsked() if self.transactions is not None:
                self.accumulator.seal()
                self.transactions.handle(event, now_ms)
            case (
                StartAsked()
                | BeginAsked()
                | OffsetsAsked()
                | GivenUp()
                | CoordinatorAnswered()
                | CoordinatorLost()
            ) if self.transactions is not None:
                self.transactions.handle(event, now_ms)
            case Granted(grant):
                self.grants.take(grant)
            case Leased(lease, asked_ms):
                self.grants.take_lease(lease, asked_ms, now_ms)
            case LeaseRefused(why):
                self._trouble = why
                self.grants.refuse_lease(now_ms)
            case NoLeases(why, code):
                self.grants.refuse_leases(code, why, now_ms)
            case LeadersKnown(topics, leaders):
                self.leaders.take(topics, leaders, now_ms)
            case Answered(request_id, answers):
                self._trouble = ""
                for queue, batch in self._close_request(request_id):
                    batch.was_sent = True
                    answer = answers.get(queue.tp, Answer(ErrorCode.NETWORK_EXCEPTION))
                    self._judge.judge(queue, batch, answer, now_ms, effects)
            case Lost(request_id, sent, why):
                self._trouble = why
                if self.transactions is not None and sent:
                    self.transactions.lost_rows()
                for queue, batch in self._close_request(request_id):
                    batch.was_sent |= sent
                    batch.maybe_stored |= sent
                    self._judge.retry(queue, batch, now_ms, elsewhere=True)
                    if now_ms >= self._aftermath.expires_ms(batch):
                        self._aftermath.expire(queue, why, now_ms, effects)
            case LogAnswered(tp):
                self._judge.judge_by_log(self.accumulator.of(tp), event, now_ms, effects)
            case LogSilent(tp, why):
                queue, self._trouble = self.accumulator.of(tp), why
                if queue.asking is not None:
                    queue.asking.batch.not_before_ms = now_ms + self.settings.retry_backoff_ms
                    queue.heard()
        if self.transactions is not None:
            self._note_failures(self.transactions, now_ms)
        self._advance(now_ms, effects)
        if self.transactions is not None:
            self._note_failures(self.transactions, now_ms)
            self._advance_transactions(self.transactions, now_ms, effects)
        return effects

    def next_deadline_ms(self) -> int | None:
        """When ``handle(Tick())`` is due, or None while only an event can change anything.

        Never in the past: what was due at the last event and could not go waits for an answer, not for time.
        """
        busy = self.accumulator.busy
        next_lease_ms = self.grants.next_lease_ms() if busy else None
        next_look_ms = None if self.transactions is None else self.transactions.next_deadline_ms()
        others = [when for when in (next_lease_ms, next_look_ms) if when is not None]
        deadlines = chain(others, *map(self._deadlines, busy))
        return min((when for when in deadlines if when > self._handled_ms), default=None)

    def _close_request(self, request_id: int) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """The batches of the request whose fate still hangs on it."""
        batches = ((self.accumulator.of(batch.tp), batch) for batch in self._requests.close(request_id))
        return [(queue, batch) for queue, batch in batches if batch in queue.in_flight]

    # -- sending ----------------------------------------------------------------------------------------

    def _advance(self, now_ms: int, effects: Effects) -> None:
        if self.accumulator.unsettled_batches == 0:
            return
        self.grants.lease_if_due(self.accumulator.tps, now_ms, effects)
        ready: dict[int, list[PartitionQueue]] = {}
        for queue in self.accumulator.busy:
            self._seal_if_due(queue, now_ms)
            if (stopped := queue.stopped) is not None:
                self._aftermath.stop(queue, stopped.code, stopped.why, effects)
                continue
            if self.grants.unleasable is not None and not queue.begun:
                self._aftermath.stop(queue, *self.grants.unleasable, effects)
                continue  # what was begun is settled under the lease that was
            if queue.is_over(now_ms):
                outliving.doubt(queue)
            self._aftermath.expire_if_due(queue, self._trouble, now_ms, effects)
            if queue.is_over(now_ms):
                outliving.ask_the_log(queue, now_ms, effects)
            self._aftermath.close_gap_if_due(queue, now_ms)
            if not queue.waiting or not self._lets_send(queue, effects):
                continue
            leader = self.leaders.of(queue.tp)
            if leader is None:
                if self.leaders.ask_if_due(queue.tp.topic, now_ms):
                    effects.ask_leaders_of.add(queue.tp.topic)
            elif queue.head(now_ms, self.settings.in_flight_max) is not None:
                ready.setdefault(leader, []).append(queue)
        for node_id, queues in ready.items():
            self._requests.send(node_id, queues, now_ms, effects)
        if effects.sends and self.transactions is not None:
            self.transactions.sent()

    def _note_failures(self, transactions: Transactions, now_ms: int) -> None:
        """What failed of a transaction is never committed, and no more of it is sent."""
        if (shut_out := self._aftermath.shut_out) is not None:
            transactions.shut_out(shut_out.code, shut_out.why, now_ms)
        elif (failed := self._aftermath.failed) is not None:
            transactions.broke(Failure(failed.code, failed.why), now_ms)

    def _advance_transactions(self, transactions: Transactions, now_ms: int, effects: Effects) -> None:
        if transactions.is_lost:
            why = "its transaction is aborted"
            self._aftermath.drop_waiting(ErrorCode.TRANSACTION_ABORTABLE, why, effects)
        is_drained = self.accumulator.unsettled_batches == 0
        effects.ask_coordinator = transactions.advance(now_ms, is_drained=is_drained)
        if isinstance(transactions.place, Ready) and transactions.grant != self.grants.newest:
            assert transactions.grant is not None
            self.grants.take(transactions.grant)
        if isinstance(transactions.place, Ready) and isinstance(transactions.outcome, Aborted):
            self._aftermath.forget()

    def _lets_send(self, queue: PartitionQueue, effects: Effects) -> bool:
        if self.transactions is not None and not self.transactions.admits(queue.tp):
            return False
        if queue.grant is None and not queue.in_flight:
            self._aftermath.begin_anew(queue, "a batch in front of it failed", effects)
        return self.grants.lets_send(queue, effects)

    def _seal_if_due(self, queue: PartitionQueue, now_ms: int) -> None:
        filling = queue.filling
        if filling is not None and now_ms >= filling.created_ms + self.settings.linger_ms:
            queue.seal()

    def _deadlines(self, queue: PartitionQueue) -> Iterable[int]:
        if queue.filling is not None:
            yield queue.filling.created_ms + self.settings.linger_ms
        if queue.waiting and not queue.in_flight:
            head = queue.waiting[0]
            yield self._aftermath.expires_ms(head)
            if queue.hold.ends_ms is not None:
                yield queue.hold.ends_ms
                if queue.asking is None:
                    yield head.not_before_ms
            if self.grants.newest is None and not queue.may_finish:
                return
            if self.leaders.of(queue.tp) is None:
                question_ms = self.leaders.next_question_ms(queue.tp.topic)
                if question_ms is not None:
                    yield question_ms
            elif queue.asking is None:
                yield head.not_before_ms
