"""What follows when a batch failed for good, or when its time is over: its own fate, and that of those behind it.

Invariants:

- ``refused_is_not_stored``: a batch settles as Refused only when no attempt of it can be in the log or come
  to be there; otherwise it is InDoubt. One refusal holds of the moment only: for want of room, until the time
  is over, on a network that delivers again what was answered.
- ``in_doubt_only_in_silence``: under a lease a batch settles as InDoubt only when its time is over and no leader has
  said what became of it, or when the log was trimmed before it could be read (:mod:`semel.core.client.outliving`).

In a transaction nothing is in doubt: what failed once is never committed, so every row that is not acknowledged is
Refused, whatever the log has of it.

The rest hangs on ``strict``. A producer with a saved identity is strict: the partition stops, since "the first n
rows are stored" must stay true for a resume. One without goes on: from the sequence of what failed if nothing behind
it was sent, else under another grant (:mod:`semel.core.client.grants`).
"""

from __future__ import annotations

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects
from semel.core.client.fate import Fenced, InDoubt, Refused
from semel.core.client.grants import Grants
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.record_accumulator import RecordAccumulator
from semel.core.client.settings import PipelineSettings
from semel.errors import ErrorCode


class Aftermath:
    """Gives every fate but Stored; remembers the one that ended the producer."""

    __slots__ = ("_accumulator", "_grants", "_is_transactional", "_settings", "failed", "fenced", "shut_out")

    def __init__(self, settings: PipelineSettings, accumulator: RecordAccumulator, grants: Grants) -> None:
        self.fenced: Fenced | None = None
        self.failed: Refused | InDoubt | None = None  # strict: why it does not go on
        self.shut_out: Refused | None = None  # in a transaction: a higher epoch is known, of whomever
        self._is_transactional = settings.transactions is not None
        self._settings, self._accumulator, self._grants = settings, accumulator, grants

    # -- one batch --------------------------------------------------------------------------------------

    def refuse(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: ErrorCode,
        why: str,
        now_ms: int,
        effects: Effects,
    ) -> None:
        """Failed for good; under a lease, not before the log has said what became of earlier attempts."""
        if batch.maybe_stored and queue.is_under_lease:
            queue.put_back(batch)
            self._grants.drop(queue, now_ms)
        else:
            self.give_up(queue, batch, _fate(batch, code, why), effects)

    def give_up(
        self, queue: PartitionQueue, batch: ProducerBatch, fate: Refused | InDoubt, effects: Effects
    ) -> None:
        """Leave a gap to be closed, or stop the partition if it must not go on."""
        gap_at = batch.base_sequence
        self._settle(queue, batch, fate, effects)
        if self._settings.strict:
            self.stop(queue, fate.code, f"a batch in front of it failed: {fate.why}", effects)
        else:
            queue.leave_gap(gap_at, in_doubt=isinstance(fate, InDoubt))

    def forgotten(
        self, queue: PartitionQueue, batch: ProducerBatch, why: str, now_ms: int, effects: Effects
    ) -> None:
        """The log does not know our sequences any more: what cannot be in it goes on under another grant."""
        if self._settings.strict or batch.maybe_stored:
            self.refuse(queue, batch, ErrorCode.UNKNOWN_PRODUCER_ID, why, now_ms, effects)
            return
        queue.put_back(batch)
        self._grants.drop(queue, now_ms)

    def fence(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: ErrorCode,
        newer_epoch: int | None,
        effects: Effects,
    ) -> None:
        """A newer copy of this producer writes: no partition goes on.

        In a transaction it may also be the coordinator, which aborted it: who it was, it is asked itself.
        """
        if self._is_transactional:
            self.shut_out = Refused(code, "a higher epoch of its transactional id is known")
            self._settle(queue, batch, self.shut_out, effects)
            return
        fate = Fenced(code, batch.grant, newer_epoch, batch.maybe_stored)
        self.fenced = self.fenced or fate
        self._accumulator.settle(queue, batch, fate, effects)
        for each in self._accumulator.busy:
            self.stop(each, code, "a newer copy of this producer's identity writes", effects)

    # -- a partition ------------------------------------------------------------------------------------

    def close_gap_if_due(self, queue: PartitionQueue, now_ms: int) -> None:
        """Go on behind what was given up, once nothing in front of it is unsettled and nothing is under way."""
        if queue.is_at_gap and not queue.close_gap():
            self._grants.drop(queue, now_ms)
            queue.pass_gap()

    def begin_anew(self, queue: PartitionQueue, why: str, effects: Effects) -> None:
        """Before a partition moves to another grant: what may be stored under the old one is not resent."""
        for batch in list(queue.waiting):
            if batch.maybe_stored:
                fate = InDoubt(ErrorCode.REQUEST_TIMED_OUT, f"its answer was lost, and {why}")
                self._settle(queue, batch, fate, effects)
            else:
                batch.forget_attempts()

    def stop(self, queue: PartitionQueue, code: ErrorCode, why: str, effects: Effects) -> None:
        """Settle all that waits, now and whenever more of it comes back or is appended."""
        queue.stop(code, why)
        for batch in list(queue.waiting):
            if self.fenced is None:
                self._settle(queue, batch, _fate(batch, code, why), effects)
            else:
                fate = Fenced(code, batch.grant, self.fenced.newer_epoch, batch.maybe_stored)
                self._accumulator.settle(queue, batch, fate, effects)

    def stop_all(self, code: ErrorCode, why: str, effects: Effects) -> None:
        """Settle everything now, by what is known of it; what is in flight is in doubt."""
        for queue in self._accumulator.busy:
            queue.seal()
            for batch in list(queue.in_flight):
                self._settle(queue, batch, InDoubt(code, why), effects)
            self.stop(queue, code, why, effects)

    def drop_waiting(self, code: ErrorCode, why: str, effects: Effects) -> None:
        """Their transaction will not be committed: settle all that waits; what is in flight comes back first."""
        for queue in self._accumulator.busy:
            self.stop(queue, code, why, effects)

    def forget(self) -> None:
        """The transaction that something failed of is over, and everything of it is settled."""
        self.failed = self.shut_out = None
        self._accumulator.begin_anew()

    # -- time -------------------------------------------------------------------------------------------

    def expires_ms(self, batch: ProducerBatch) -> int:
        return batch.created_ms + self._settings.delivery_timeout_ms

    def expire_if_due(self, queue: PartitionQueue, trouble: str, now_ms: int, effects: Effects) -> None:
        if queue.waiting and now_ms >= self.expires_ms(queue.waiting[0]):
            self.expire(queue, trouble, now_ms, effects)

    def expire(self, queue: PartitionQueue, trouble: str, now_ms: int, effects: Effects) -> None:
        """Settle the waiting batches whose time is over, front to back; ``trouble``: with the way to a leader."""
        if queue.in_flight:
            return  # their answers come first; each is bounded by its request's time-out
        code = ErrorCode.REQUEST_TIMED_OUT
        said = f"its leader last answered {queue.held_up_by}" if queue.held_up_by else ""
        why = "; ".join(filter(None, (trouble, said))) or "no leader took it in time"
        text = f"not acknowledged within {self._settings.delivery_timeout_ms} ms: {why}"
        queue.heard()
        began = False
        while queue.waiting and now_ms >= self.expires_ms(queue.waiting[0]):
            batch = queue.waiting[0]
            began |= batch.attempts > 0
            self._settle(queue, batch, _fate(batch, code, text), effects)
        if self._settings.strict:
            self.stop(queue, code, "a batch in front of it was not acknowledged", effects)
        elif began:
            self._grants.drop(queue, now_ms)

    def _settle(
        self, queue: PartitionQueue, batch: ProducerBatch, fate: Refused | InDoubt, effects: Effects
    ) -> None:
        if self._is_transactional and isinstance(fate, InDoubt):
            fate = Refused(fate.code, fate.why)
        self._accumulator.settle(queue, batch, fate, effects)
        if self._settings.strict and self.failed is None:
            self.failed = fate


def _fate(batch: ProducerBatch, code: ErrorCode, why: str) -> Refused | InDoubt:
    return InDoubt(code, why) if batch.maybe_stored else Refused(code, why)
