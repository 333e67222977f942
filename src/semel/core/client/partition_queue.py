"""One partition's queue of batches: sequences given in order, sent in order, settled in order.

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
from semel.errors import ErrorCode
from semel.sequence import advance, distance
from semel.types import ProducerGrant, TopicPartition, is_leased

KNOWN_FOR_MS: Final = 60_000  # logs remember a producer for a day, unless told otherwise


class PartitionQueue:
    """The batches of one partition: one that is being filled, those that wait, those that are in flight."""

    __slots__ = (
        "asking",
        "ends_ms",
        "filling",
        "gap_at",
        "gap_in_doubt",
        "grant",
        "held_up_by",
        "in_flight",
        "is_moving",
        "is_shut",
        "known_until_ms",
        "last_stored",
        "next_order",
        "next_sequence",
        "recovering",
        "refusal",
        "stopped",
        "tp",
        "waiting",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.filling: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []  # in sequence order
        self.grant: ProducerGrant | None = None
        self.ends_ms: int | None = None  # when the grant's lease is over, by our clock
        self.is_moving = False  # there is a newer grant; this one only finishes
        self.is_shut = False  # we have shut the grant out ourselves, to read back what is stored of it
        self.last_stored: LastStored | None = None  # what is unsettled is stored behind it, if at all
        self.known_until_ms = 0  # until then the log surely knows the grant, and refuses a gap
        self.next_sequence = 0
        self.next_order = 0
        self.recovering = False  # a batch failed: let the answers behind it come in before sending again
        self.asking: ProducerBatch | None = None  # the log is being asked about this batch's sequence
        self.refusal: tuple[ErrorCode, str] | None = None  # why it fails, should the log have nothing of it
        self.gap_at: int | None = None  # a batch failed for good here: the sequence to go on with
        self.gap_in_doubt = False  # that batch may be stored, or come to be
        self.held_up_by = ""  # what its leader said last, if not that a batch is stored
        self.stopped: tuple[ErrorCode, str] | None = None  # why no batch of it may be sent any more

    @property
    def is_idle(self) -> bool:
        """Nothing buffered and nothing unanswered."""
        return self.filling is None and not self.waiting and not self.in_flight

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

    def seal(self) -> None:
        """Close the batch that is being filled."""
        if self.filling is not None:
            self.waiting.append(self.filling)
            self.filling = None

    def adopt(self, grant: ProducerGrant, ends_ms: int | None = None) -> bool:
        """Move to ``grant`` if no batch of the old one is unsettled; whether the partition is on it now."""
        if self.grant == grant:
            return True
        if self.begun:
            self.is_moving = self.grant is not None
            return False
        self.grant, self.next_sequence, self.known_until_ms = grant, 0, 0
        self.ends_ms, self.is_moving, self.is_shut = ends_ms, False, False
        return True

    @property
    def begun(self) -> bool:
        """Whether some batch of the grant is unsettled."""
        return bool(self.in_flight) or any(batch.attempts for batch in self.waiting)

    @property
    def is_under_lease(self) -> bool:
        return self.grant is not None and is_leased(self.grant.producer_id)

    @property
    def may_finish(self) -> bool:
        """Whether the head was begun under some grant: an older one stays good for that, new batches wait."""
        return self.grant is not None and bool(self.waiting) and self.waiting[0].attempts > 0

    def is_over(self, now_ms: int) -> bool:
        """Whether the grant was a lease that is over, by our clock."""
        return self.ends_ms is not None and now_ms >= self.ends_ms

    def leave(self) -> None:
        """Be without a grant; nothing of the old one can be in the log any more but what is settled."""
        self.grant = self.ends_ms = self.gap_at = self.asking = None
        self.is_moving = self.is_shut = self.gap_in_doubt = False

    def forget_attempts(self) -> None:
        """What waits is not in the log and cannot come to be there: it goes as new under another grant."""
        for batch in self.waiting:
            batch.forget_attempts()
        self.leave()

    def head(self, now_ms: int, in_flight_max: int) -> ProducerBatch | None:
        """The next batch that may be sent now, or None."""
        if (
            self.stopped is not None
            or self.asking is not None
            or not self.waiting
            or self.is_behind_gap(self.waiting[0])
            or len(self.in_flight) >= in_flight_max
            or self.is_over(now_ms)
            or (self.is_moving and not self.waiting[0].attempts)
        ):
            return None
        if self.recovering:
            if self.in_flight:
                return None
            self.recovering = False
        if self.in_flight and self.grant is not None and now_ms >= self.known_until_ms:
            return None
        batch = self.waiting[0]
        return batch if batch.not_before_ms <= now_ms else None

    def take(self) -> ProducerBatch:
        """Move the head into flight, giving it its sequences at the first attempt."""
        batch = self.waiting.popleft()
        if self.grant is not None and batch.grant != self.grant:
            batch.assign(self.grant, self.next_sequence)
            self.next_sequence = advance(self.next_sequence, batch.record_count)
        if batch.attempts == 0:
            batch.order = self.next_order
            self.next_order += 1
        batch.attempts += 1
        self.in_flight.append(batch)
        return batch

    def taken_by_log(self, batch: ProducerBatch, now_ms: int) -> None:
        """The log holds ``batch``, so that it knows the grant."""
        if batch.grant == self.grant:
            self.known_until_ms = now_ms + KNOWN_FOR_MS

    def let_go(self, batch: ProducerBatch) -> None:
        """Take a batch out of the line, in flight or back from there or never sent."""
        (self.in_flight if batch in self.in_flight else self.waiting).remove(batch)

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that failed to its place in the line: by the order of first attempts."""
        self.let_go(batch)
        before = sum(1 for other in self.waiting if other.attempts and other.place < batch.place)
        self.waiting.insert(before, batch)
        self.recovering = True

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

    def leave_gap(self, at_sequence: int, *, in_doubt: bool) -> None:
        """A batch failed for good: nothing behind it is sent until the gap is closed."""
        if self.gap_at is None or distance(at_sequence, self.gap_at) < 0:
            self.gap_at = at_sequence
        self.gap_in_doubt |= in_doubt

    def is_behind_gap(self, batch: ProducerBatch) -> bool:
        """Whether ``batch`` waits for a gap to be closed.

        One that was sent in front of what failed goes on as if there were no gap. To send it under another grant
        would be safe only if no copy of its first request could come.
        """
        if self.gap_at is None:
            return False
        is_sent = batch.grant is not None and batch.grant == self.grant
        return not is_sent or distance(batch.base_sequence, self.gap_at) >= 0

    def close_gap(self, from_sequence: int) -> bool:
        """Go on with the sequences from ``from_sequence`` on: a batch that had them failed for good.

        Only safe, and only done, when nothing behind it was ever sent, and it cannot be stored. A copy of a request
        may come late even if the request was answered, and would be taken for the batch that has its sequence now.
        """
        if self.grant is None or self.begun or self.gap_in_doubt:
            return False
        self.next_sequence = from_sequence
        return True
