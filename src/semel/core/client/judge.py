"""What every answer means for the batch that it is about: a leader's to a request, or the log's to a question.

Invariants:

- ``acknowledged_is_stored``: a batch settles as Stored only on an answer 0 or 46, or when the log itself
  says that its last sequence is stored.
- ``told_is_not_stored``: where a leader tells of batches that it may lose (Apache Kafka), what it tells of settles
  nothing. The batch goes again, for a repeat is answered only once it is committed; and where the leader does not
  remember it as it was sent, it is looked for among what can be read, which is what is committed. If neither finds
  it in time, it is in doubt.
- ``no_blind_epoch``: on 45 the log is asked; the producer id is never changed to get past it.

The table of the codes is :mod:`semel.core.client.fate`; what a failure for good leads to,
:mod:`semel.core.client.aftermath`.
"""

from __future__ import annotations

from semel.core.client import outliving
from semel.core.client.aftermath import Aftermath
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Answer, Effects, LogAnswered, ReadBack
from semel.core.client.fate import MAYBE_APPENDED, InDoubt, Next, Stored, next_step
from semel.core.client.grants import Grants
from semel.core.client.leaders import Leaders
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.record_accumulator import RecordAccumulator
from semel.core.client.settings import PipelineSettings
from semel.errors import ErrorCode
from semel.sequence import advance, distance
from semel.types import NO_SEQUENCE, is_leased


class Judge:
    """Judges batches that are in flight, and those about which a log was asked."""

    __slots__ = ("_accumulator", "_aftermath", "_grants", "_leaders", "_settings")

    def __init__(
        self,
        settings: PipelineSettings,
        accumulator: RecordAccumulator,
        grants: Grants,
        leaders: Leaders,
        aftermath: Aftermath,
    ) -> None:
        self._settings = settings
        self._accumulator, self._grants, self._leaders, self._aftermath = (
            accumulator,
            grants,
            leaders,
            aftermath,
        )

    def judge(
        self, queue: PartitionQueue, batch: ProducerBatch, answer: Answer, now_ms: int, effects: Effects
    ) -> None:
        """The partition's leader answered."""
        code = answer.code
        if code in MAYBE_APPENDED:
            batch.maybe_stored = True
        why = answer.message or f"the broker answered {code.name}"
        queue.answered(code, answer.message)
        match next_step(code):
            case Next.ACCEPT:
                known = code is ErrorCode.NONE and answer.base_offset >= 0
                base_offset = answer.base_offset if known else None
                self._stored(queue, batch, base_offset, answer.log_append_time_ms, now_ms, effects)
            case Next.RETRY:
                self.retry(queue, batch, now_ms, elsewhere=False)
            case Next.RETRY_ELSEWHERE:
                self.retry(queue, batch, now_ms, elsewhere=True)
            case Next.SPLIT if batch.record_count > 1:
                self._accumulator.split(queue, batch, self._settings.compression)
            case Next.ASK_THE_LOG | Next.ASK_OR_FAIL as step:
                queue.put_back(batch)
                # While those in front are unsettled they may only be late: 45 then proves nothing.
                is_proof = queue.is_first_in_line(batch) and not queue.is_behind_gap(batch)
                if is_proof and batch.grant is not None and batch.grant == queue.grant:
                    queue.ask(batch, (code, why) if step is Next.ASK_OR_FAIL else None)
                    effects.ask_log.append((batch.tp, batch.grant))
            case Next.FENCED:
                self._aftermath.fence(queue, batch, code, None, effects)
            case Next.NEW_GRANT if batch.grant is not None and is_leased(batch.grant.producer_id):
                queue.put_back(batch)  # this attempt is not stored; what of those before it, the log is asked
                queue.lease_ended(now_ms)
                self._grants.give_up_lease(queue, now_ms)
            case Next.NEW_GRANT:
                self._aftermath.forgotten(queue, batch, why, now_ms, effects)
            case _:
                self._aftermath.refuse(queue, batch, code, why, now_ms, effects)

    def retry(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: int, *, elsewhere: bool) -> None:
        """The same again, after a pause that grows; elsewhere: once it is known anew who leads the partition."""
        queue.put_back(batch)
        pause_ms = self._settings.retry_backoff_ms * 2 ** min(batch.attempts - 1, 10)
        batch.not_before_ms = now_ms + min(pause_ms, self._settings.retry_backoff_ms_max)
        if elsewhere:
            self._leaders.forget(batch.tp)

    def judge_by_log(self, queue: PartitionQueue, answer: LogAnswered, now_ms: int, effects: Effects) -> None:
        """The log told what it knows of a grant."""
        is_asked = queue.asking is not None and queue.asking.batch.grant == answer.asked_for
        if answer.may_be_lost:
            front = queue.front_of(answer.asked_for)
            if front is not None and front.is_within(answer.stored_to):
                if is_asked:
                    self._look_for(queue, front, now_ms, effects)
                return
        # What it says is stored is, whichever batch it was asked about, and however long ago.
        while (batch := queue.front_of(answer.asked_for)) is not None and batch.is_within(answer.stored_to):
            queue.heard()
            self._stored(queue, batch, None, -1, now_ms, effects)
        # The last word holds for whoever waits by now. Before it, a log that was shut does not know what it knew.
        is_last_word = answer.is_final and answer.asked_for == queue.grant
        if is_last_word or (is_asked and not queue.is_shut_out):
            self._judge_missing(queue, answer, now_ms, effects)

    def _look_for(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: int, effects: Effects) -> None:
        """The leader tells of ``batch``, and did not answer that it is stored: see whether it can be read already."""
        batch.maybe_stored = True
        batch.not_before_ms = now_ms + self._settings.retry_backoff_ms
        if (
            batch.grant is not None
            and queue.last_stored is not None
            and queue.last_stored.grant == batch.grant
        ):
            effects.read_back.append(ReadBack(batch.tp, batch.grant, queue.last_stored, shuts_out=False))
        else:  # the log would have to be read from its beginning
            queue.heard()

    def _judge_missing(
        self, queue: PartitionQueue, answer: LogAnswered, now_ms: int, effects: Effects
    ) -> None:
        """What becomes of the batch that the log does not have, or has in part."""
        newest_epoch, stored_to = answer.newest_epoch, answer.stored_to
        asked = queue.asking
        queue.heard()
        about = None if asked is None else asked.batch
        batch = queue.front_of(answer.asked_for) if answer.is_final else about
        if batch is None:
            return
        if newest_epoch is not None and newest_epoch > answer.asked_for.producer_epoch:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
            self._aftermath.fence(queue, batch, code, newest_epoch, effects)
        elif stored_to != NO_SEQUENCE and distance(stored_to, batch.base_sequence) >= 0:
            why = f"its sequences up to {stored_to} are stored, by another that writes under the same id"
            fate = InDoubt(ErrorCode.INVALID_RECORD, why)
            self._aftermath.give_up(queue, batch, fate, effects)
        elif asked is not None and asked.refusal is not None and not queue.is_over(now_ms):
            self._aftermath.refuse(queue, batch, *asked.refusal, now_ms, effects)
        elif answer.is_final and (answer.is_compacted or (answer.is_cut and answer.last_sequence is None)):
            what_became = "compacted" if answer.is_compacted else "trimmed"
            self._aftermath.begin_anew(queue, f"its lease is over, and the log was {what_became}", effects)
            queue.leave()
        elif queue.is_over(now_ms):
            outliving.judge(queue, answer, now_ms, self._settings.retry_backoff_ms)
        elif advance(stored_to, 1) == batch.base_sequence:
            batch.not_before_ms = now_ms + self._settings.retry_backoff_ms
        else:
            why = (
                f"the log's last sequence of this producer is {stored_to}, this batch begins at "
                f"{batch.base_sequence}: rows that were acknowledged before it are missing"
            )
            self._aftermath.forgotten(queue, batch, why, now_ms, effects)

    def _stored(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int | None,
        log_append_time_ms: int,
        now_ms: int,
        effects: Effects,
    ) -> None:
        queue.stored(batch, base_offset, now_ms)
        fate = Stored(batch.grant, batch.base_sequence, base_offset, log_append_time_ms)
        self._accumulator.settle(queue, batch, fate, effects)
