"""One partition's queue of batches: sequences given in order, sent in order, settled in order.

What it is about is in three states (:mod:`semel.core.client.queue_states`). Only its own methods change them, each
by an event that it is named for; whoever else needs a change tells the queue what happened.

Invariants (each has a test of its name):

- ``sequences_are_dense``: within one grant the sequences given on a partition are 0, 1, 2 … without a gap.
- ``order_is_kept``: a batch that failed goes back to its place by sequence; nothing is sent on the partition
  while an answer for a later batch is outstanding, and those behind wait for those in front.
- ``first_goes_alone``: until the log has taken a batch of this grant, or taken one within the last minute, one
  batch is in flight. Apache Kafka takes any first sequence from a producer that it does not know
  (``ProducerAppendInfo.checkSequence``), so a second batch would be stored without the first, should that
  one meet a leader that is not ready yet.
- ``one_grant_at_a_time``: a partition moves to a new grant only when no batch of the old one is unsettled,
  or when those that are unsettled are proven not to be stored. While it is about to move, only what was begun
  under the old grant is sent.
- ``nothing_after_the_end``: under a lease that is over by our own clock nothing is sent, not even again.

Kafka's counterparts are a partition's deque in ``RecordAccumulator``, and ``TransactionManager.TopicPartitionEntry``
(KAFKA-5494).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import LastStored
from semel.core.client.queue_states import (
    Asking,
    Dense,
    Gapped,
    GappedInDoubt,
    Hold,
    Line,
    Moving,
    QueueEvent,
    Recovering,
    Sending,
    Sequences,
    ShutOut,
    Stopped,
    Ungranted,
    follow,
)
from semel.errors import ErrorCode
from semel.sequence import advance, distance, last_of
from semel.types import ProducerGrant, TopicPartition, is_leased

KNOWN_FOR_MS: Final = 60_000  # logs remember a producer for a day, unless told otherwise


class PartitionQueue:
    """The batches of one partition: one that is being filled, those that wait, those that are in flight."""

    __slots__ = (
        "filling",
        "held_up_by",
        "hold",
        "in_flight",
        "known_until_ms",
        "last_stored",
        "line",
        "next_order",
        "next_sequence",
        "sequences",
        "tp",
        "waiting",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.filling: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []  # in sequence order
        self.line: Line = Sending()
        self.hold: Hold = Ungranted()
        self.sequences: Sequences = Dense()
        self.next_sequence = 0
        self.next_order = 0
        self.last_stored: LastStored | None = None  # what is unsettled is stored behind it, if at all
        self.known_until_ms = 0  # until then the log surely knows the grant, and refuses a gap
        self.held_up_by = ""  # what its leader said last, if not that a batch is stored

    # -- what it is about -------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Nothing buffered and nothing unanswered."""
        return self.filling is None and not self.waiting and not self.in_flight

    @property
    def grant(self) -> ProducerGrant | None:
        return self.hold.grant

    @property
    def begun(self) -> bool:
        """Whether some batch of the grant is unsettled."""
        return bool(self.in_flight) or any(batch.attempts for batch in self.waiting)

    @property
    def is_under_lease(self) -> bool:
        return self.grant is not None and is_leased(self.grant.producer_id)

    @property
    def is_shut_out(self) -> bool:
        return isinstance(self.hold, ShutOut)

    @property
    def asking(self) -> Asking | None:
        """The question that the log is to answer."""
        return self.line if isinstance(self.line, Asking) else None

    @property
    def stopped(self) -> Stopped | None:
        """Why no batch of it may be sent any more."""
        return self.line if isinstance(self.line, Stopped) else None

    @property
    def may_finish(self) -> bool:
        """Whether the head was begun under some grant: an older one stays good for that, new batches wait."""
        return self.grant is not None and bool(self.waiting) and self.waiting[0].attempts > 0

    def is_over(self, now_ms: int) -> bool:
        """Whether the grant was a lease that is over, by our clock."""
        ends_ms = self.hold.ends_ms
        return ends_ms is not None and now_ms >= ends_ms

    def is_first_in_line(self, batch: ProducerBatch) -> bool:
        """Whether every batch in front of this waiting one is settled: then its answer is proof."""
        return self.waiting[0] is batch and all(other.place > batch.place for other in self.in_flight)

    def front_of(self, grant: ProducerGrant) -> ProducerBatch | None:
        """The waiting batch of ``grant`` with nothing unsettled in front of it: what a log's answer is about."""
        if self.waiting and self.waiting[0].grant == grant and self.is_first_in_line(self.waiting[0]):
            return self.waiting[0]
        return None

    def is_behind_unsettled(self, batch: ProducerBatch) -> bool:
        """Whether some batch in front of this one was sent, and nobody knows yet what became of it."""
        return (bool(self.in_flight) and self.in_flight[0].place < batch.place) or (
            bool(self.waiting) and self.waiting[0].attempts > 0 and self.waiting[0].place < batch.place
        )

    def is_behind_gap(self, batch: ProducerBatch) -> bool:
        """Whether ``batch`` waits for a gap to be closed.

        One that was sent in front of what failed goes on as if there were no gap. To send it under another grant
        would be safe only if no copy of its first request could come.
        """
        gap = self.sequences
        if not isinstance(gap, Gapped):
            return False
        is_sent = batch.grant is not None and batch.grant == self.grant
        return not is_sent or distance(batch.base_sequence, gap.at_sequence) >= 0

    @property
    def is_at_gap(self) -> bool:
        """Whether it is a gap that comes next: all in front of it is settled, and nothing is under way."""
        if not isinstance(self.sequences, Gapped) or self.in_flight or isinstance(self.line, Asking):
            return False
        return not self.waiting or self.is_behind_gap(self.waiting[0])

    # -- in, through and out ----------------------------------------------------------------------------

    def begin_batch(self, now_ms: int) -> ProducerBatch:
        """A batch to be filled."""
        self.filling = ProducerBatch(self.tp, now_ms)
        return self.filling

    def seal(self) -> None:
        """Close the batch that is being filled."""
        if self.filling is not None:
            self.waiting.append(self.filling)
            self.filling = None

    def enqueue(self, batch: ProducerBatch) -> None:
        """Put a batch that is full already behind what was handed in before it."""
        self.seal()
        self.waiting.append(batch)

    def head(self, now_ms: int, in_flight_max: int) -> ProducerBatch | None:
        """The next batch that may be sent now, or None."""
        waiting, in_flight, hold = self.waiting, self.in_flight, self.hold
        if not waiting or type(self.line) is not Sending or len(in_flight) >= in_flight_max:
            return None
        batch = waiting[0]
        if (
            batch.not_before_ms > now_ms
            or (type(self.sequences) is not Dense and self.is_behind_gap(batch))
            or (hold.ends_ms is not None and now_ms >= hold.ends_ms)
            or (type(hold) is Moving and not batch.attempts)
            or (in_flight and hold.grant is not None and now_ms >= self.known_until_ms)
        ):
            return None
        return batch

    def take(self) -> ProducerBatch:
        """Move the head into flight, giving it its sequences at the first attempt."""
        batch = self.waiting.popleft()
        grant = self.hold.grant
        if grant is not None and batch.grant != grant:
            batch.assign(grant, self.next_sequence)
            self.next_sequence = advance(self.next_sequence, batch.record_count)
        if batch.attempts == 0:
            batch.order = self.next_order
            self.next_order += 1
        batch.attempts += 1
        self.in_flight.append(batch)
        return batch

    def answered(self, code: ErrorCode, message: str | None) -> None:
        """The partition's leader answered, whatever it was.

        Those behind a batch that was refused are out of sequence for it: its refusal is the cause, and is kept.
        """
        if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not self.held_up_by:
            self.held_up_by = f"{code.name}: {message}" if message else code.name

    def stored(self, batch: ProducerBatch, base_offset: int | None, now_ms: int) -> None:
        """The log has ``batch``, so that it knows the grant; at ``base_offset``, if that was told."""
        if batch.grant == self.hold.grant:
            self.known_until_ms = now_ms + KNOWN_FOR_MS
        self.held_up_by = ""
        if base_offset is not None and batch.grant is not None and not self.is_behind_unsettled(batch):
            last_sequence = last_of(batch.base_sequence, batch.record_count)
            self.last_stored = LastStored(base_offset + batch.record_count, batch.grant, last_sequence)
        gap = self.sequences
        if isinstance(gap, Gapped) and distance(batch.base_sequence, gap.at_sequence) >= 0:
            at_sequence = advance(batch.base_sequence, batch.record_count)
            self.sequences = follow(gap, QueueEvent.TAKEN_BEHIND, at_sequence=at_sequence)

    def let_go(self, batch: ProducerBatch) -> None:
        """Take a batch out of the line, in flight or back from there or never sent."""
        (self.in_flight if batch in self.in_flight else self.waiting).remove(batch)
        if not self.in_flight:
            self._go_on_if_answered()

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that failed to its place in the line: by the order of first attempts."""
        self.let_go(batch)
        before = sum(1 for other in self.waiting if other.attempts and other.place < batch.place)
        self.waiting.insert(before, batch)
        self.line = follow(self.line, QueueEvent.CAME_BACK)
        self._go_on_if_answered()

    def _go_on_if_answered(self) -> None:
        if type(self.line) is Recovering and not self.in_flight:
            self.line = follow(self.line, QueueEvent.ALL_ANSWERED)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Put ``parts`` where ``batch`` was in flight; together they have its sequences."""
        self.put_back(batch)
        place = self.waiting.index(batch)
        del self.waiting[place]
        assert batch.grant is not None
        sequence = batch.base_sequence
        for part in reversed(parts):
            part.order = batch.order
            part.attempts, part.was_sent = batch.attempts, batch.was_sent
            part.maybe_stored = batch.maybe_stored
            self.waiting.insert(place, part)
        for part in parts:
            part.assign(batch.grant, sequence)
            sequence = advance(sequence, part.record_count)

    # -- the line ---------------------------------------------------------------------------------------

    def ask(self, batch: ProducerBatch, refusal: tuple[ErrorCode, str] | None = None) -> None:
        """The log is asked about ``batch``, which fails with ``refusal`` if nothing of it is there."""
        self.line = follow(self.line, QueueEvent.ASKED, batch=batch, refusal=refusal)

    def heard(self) -> None:
        """Whatever was asked, no answer is waited for any more."""
        self.line = follow(self.line, QueueEvent.HEARD)
        self._go_on_if_answered()

    def stop(self, code: ErrorCode, why: str) -> None:
        """Send nothing any more, and let what is being filled be settled with the rest."""
        self.line = follow(self.line, QueueEvent.STOPPED, code=code, why=why)
        self.seal()

    # -- the grant --------------------------------------------------------------------------------------

    def adopt(self, grant: ProducerGrant, ends_ms: int | None = None) -> bool:
        """Move to ``grant`` if no batch of the old one is unsettled; whether the partition is on it now."""
        if self.grant == grant:
            return True
        if self.begun:
            self.hold = follow(self.hold, QueueEvent.NEWER_GRANTED)
            return False
        self.hold = follow(self.hold, QueueEvent.ADOPTED, grant=grant, ends_ms=ends_ms)
        self.next_sequence, self.known_until_ms = 0, 0
        return True

    def resume(self, grant: ProducerGrant, next_sequence: int) -> None:
        """Write under a grant that has written here before, from ``next_sequence`` on."""
        self.adopt(grant)
        self.next_sequence = next_sequence

    def lease_ended(self, now_ms: int) -> None:
        """Its server says so, whatever our clock does."""
        self.hold = follow(self.hold, QueueEvent.ENDED_EARLY, ends_ms=now_ms)

    def lease_lives(self, until_ms: int) -> None:
        """Its server says so, and that is the better reckoning."""
        self.hold = follow(self.hold, QueueEvent.FOUND_ALIVE, ends_ms=until_ms)

    def shut_out(self, now_ms: int) -> None:
        """The lease is used no more: from now on the log's memory of it says only that it was shut out."""
        self.hold = follow(self.hold, QueueEvent.SHUT_OUT, ends_ms=now_ms)
        self.heard()

    def leave(self) -> None:
        """Be without a grant; nothing of the old one can be in the log any more but what is settled."""
        self.hold = follow(self.hold, QueueEvent.LEFT, grant=None, ends_ms=None)
        self.pass_gap()
        self.heard()

    def forget_attempts(self) -> None:
        """What waits is not in the log and cannot come to be there: it goes as new under another grant."""
        for batch in self.waiting:
            batch.forget_attempts()
        self.leave()

    # -- a gap ------------------------------------------------------------------------------------------

    def leave_gap(self, at_sequence: int, *, in_doubt: bool) -> None:
        """A batch failed for good: nothing behind it is sent until the gap is closed."""
        gap = self.sequences
        if isinstance(gap, Gapped) and distance(at_sequence, gap.at_sequence) >= 0:
            at_sequence = gap.at_sequence
        event = QueueEvent.FAILED_IN_DOUBT if in_doubt else QueueEvent.FAILED
        self.sequences = follow(gap, event, at_sequence=at_sequence)

    def close_gap(self) -> bool:
        """Go on with the sequences of the batch that failed for good; whether that may be.

        Only safe, and only done, when nothing behind it was ever sent, and it cannot be stored. A copy of a request
        may come late even if the request was answered, and would be taken for the batch that has its sequence now.
        """
        gap = self.sequences
        if self.grant is None or self.begun or not isinstance(gap, Gapped) or isinstance(gap, GappedInDoubt):
            return False
        self.next_sequence = gap.at_sequence
        self.sequences = follow(gap, QueueEvent.CLOSED)
        return True

    def pass_gap(self) -> None:
        """The sequences behind the gap count no more."""
        self.sequences = follow(self.sequences, QueueEvent.PASSED)
