"""What clients were told of their records and offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects, Event, LogAnswered
from semel.core.client.fate import InDoubt
from semel.sequence import distance, last_of
from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import GroupWatcher, LogWatcher, ProducerWatcher
from semel.sim.world.history import OTHER_INPUT, History, Logs, Promise, lineage_of
from semel.types import ProducerGrant, TopicPartition

NONE_COMMITTED: Final = -1


class AcknowledgedIsStored(Checker, LogWatcher):
    """``acknowledged_is_stored``: a record whose producer was told "stored" is in the log, where it was told.

    Judged after every recovery too, so that a loss is found beside its cause.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, bytes], int] = {}

    def logs(self, history: History, logs: Logs) -> None:
        stored = {
            (tp, value): record_offset
            for tp, batches in logs.items()
            for batch in batches
            for record_offset, value in batch.placed
        }
        self._seen.update(stored)
        for record in history.promised(Promise.STORED):
            if record.tp not in logs:
                continue
            found, told = stored.get((record.tp, record.value)), record.record_offset
            if found is None:
                log_start = history.log_starts.get(record.tp, 0)
                was_at = self._seen.get((record.tp, record.value), -1) if told is None else told
                if log_start and was_at < log_start:
                    continue  # trimmed
                raise self.violated(f"{record.value!r} was acknowledged and is not in {record.tp}")
            if told not in (None, found):
                raise self.violated(
                    f"{record.value!r} was acknowledged at {told} of {record.tp}, lies at {found}"
                )


class RefusedIsNotStored(Checker, LogWatcher):
    """``refused_is_not_stored``: a record whose producer was told "not stored" never appears in the log.

    Where the network delivers requests twice, which TCP does not, one thing is not judged: a refusal for want of room,
    for the disk, for a gap in front of it or by a fence holds of the moment only, and a copy that comes when that is
    over, or has not begun, is new to the log.

    An error has one meaning: the answer "no" must stay true for ever.
    """

    def logs(self, history: History, logs: Logs) -> None:
        refused = {
            record.value
            for record in history.promised(Promise.REFUSED)
            if not (history.is_replayed and record.was_turned_away)
        }
        if not refused:
            return
        for tp, batches in logs.items():
            for batch in batches:
                for value in batch.values:
                    if value in refused:
                        raise self.violated(f"{value!r} was refused and lies in {tp}: {batch}")


class InDoubtOnlyInSilence(Checker, ProducerWatcher):
    """``in_doubt_only_in_silence``: who writes under leases is told "cannot know" only of what no leader answered for.

    That is: only when a batch's time is over, or when the log was trimmed or compacted before it could be read back;
    and not of a batch that a leader has said is stored, or is not and never will be. Judged at every fate of a batch.
    """

    def __init__(self) -> None:
        self._sent: dict[ProducerBatch, tuple[ProducerGrant | None, int]] = {}  # whose, and its last sequence
        self._decided: dict[ProducerBatch, str] = {}  # by a leader, since its last attempt

    def lease_holder_handled(
        self, event: Event, effects: Effects, now_ms: int, delivery_timeout_ms: int
    ) -> None:
        if isinstance(event, LogAnswered):
            self._take_in(event)
        for batch, fate in effects.settled:
            if isinstance(fate, InDoubt):
                self._judge(batch, fate, event, now_ms - batch.created_ms, delivery_timeout_ms)
            self._sent.pop(batch, None)
            self._decided.pop(batch, None)
        for send in effects.sends:
            for batch in send.batches:
                self._sent[batch] = (batch.grant, last_of(batch.base_sequence, batch.record_count))
                self._decided.pop(batch, None)

    def _take_in(self, answer: LogAnswered) -> None:
        for batch, (grant, last_sequence) in self._sent.items():
            if grant is None or batch.tp != answer.tp or grant != answer.asked_for:
                continue
            known = answer.last_sequence if answer.newest_epoch == grant.producer_epoch else None
            if known is not None and known >= 0 and distance(known, last_sequence) >= 0:
                self._decided[batch] = "it is stored"
            elif answer.is_final and not (answer.is_cut or answer.is_compacted):
                self._decided[batch] = "it is not stored and never will be"

    def _judge(
        self, batch: ProducerBatch, fate: InDoubt, event: Event, age_ms: int, delivery_timeout_ms: int
    ) -> None:
        if isinstance(event, LogAnswered) and (event.is_cut or event.is_compacted) and event.tp == batch.tp:
            return
        what = f"{batch.record_count} rows for {batch.tp} are in doubt ({fate.why})"
        if batch in self._decided:
            raise self.violated(f"{what}, though a leader said: {self._decided[batch]}")
        if age_ms < delivery_timeout_ms:
            raise self.violated(f"{what} after {age_ms} of {delivery_timeout_ms} ms")


class RowsResumeExactly(Checker, LogWatcher):
    """``rows_resume_exactly``: of every source each row is stored once, in order, and none before the saved position is
    missing, however often its producer died, and however many copies of it ran at once.

    At every moment a partition holds the first rows of its share, without a hole; at the end all of them. Of an input
    that a copy was started on by mistake it holds nothing. Judged by the numbers in the values; what was trimmed is
    taken for granted.
    """

    def logs(self, history: History, logs: Logs) -> None:
        for source in history.sources:
            saved_position = source.saved_position
            for tp, batches in logs.items():
                found = []
                for batch in batches:
                    for value in batch.values:
                        lineage, row = lineage_of(value)
                        if lineage == f"{source.name}/{tp.partition}":
                            found.append(row)
                        elif lineage.startswith(f"{source.name}{OTHER_INPUT}/"):
                            raise self.violated(
                                f"{tp} holds row {row} of an input that {source.name} never had"
                            )
                expected = source.rows_of(tp)
                first = expected.index(found[0]) if found and found[0] in expected else 0
                if first and not history.log_starts.get(tp, 0):
                    raise self.violated(f"the first row of {source.name} in {tp} is {found[0]}")
                if found != expected[first : first + len(found)]:
                    wrong = next(
                        n for n, row in enumerate(found) if expected[first + n : first + n + 1] != [row]
                    )
                    raise self.violated(
                        f"{source.name} in {tp}: behind row {found[wrong - 1] if wrong else None} lies row "
                        f"{found[wrong]}, due was {expected[first + wrong : first + wrong + 1]}"
                    )
                saved_to = max((row for row in expected if row <= saved_position), default=-1)
                if saved_to >= 0 and not (found and found[-1] >= saved_to):
                    if not found and history.log_starts.get(tp, 0):
                        continue  # trimmed as a whole
                    raise self.violated(
                        f"{source.name} saved position {saved_position}, and its row {saved_to} is not "
                        f"in {tp}"
                    )


class CommittedOffsetHolds(Checker, GroupWatcher):
    """``committed_offset_holds``: the offset that a group has committed is one that it sent, and stays once it was
    told.

    A commit may arrive late and twice, and the last to arrive counts: so any that was ever sent may be there, but none
    at all only as long as none was acknowledged. Judged at every answer to who asks for it.
    """

    def committed_is(
        self, tp: TopicPartition, known: int, sent: Sequence[int], *, was_acknowledged: bool
    ) -> None:
        if known not in sent and (known != NONE_COMMITTED or was_acknowledged):
            raise self.violated(f"{tp}: offset {known} is committed, sent were {list(sent)}")
