"""What the decision log says about one sink: a fold over its records, in log order.

Only :meth:`SinkHistory.apply` mutates, so planner, task and commit see the same thing.

Who holds the sink is decided here, by the FENCEs' order in the log, and a driver's record counts only while its
run is the holder's. The log refuses most of an older driver's records by itself, but not for ever: a broker forgets
a producer id that rests, and then takes its records at any epoch and sequence.

The log is compacted, and of what is settled any part may be missing. That makes no difference: runs and decisions only
rise, and the BEGIN of a run carries all that was known by then (:class:`~semel.core.sink.journal.Carried`), so it
puts right whatever what is left in front of it seems to say. Nothing is settled but by a BEGIN or a DECISION that
stays (:mod:`semel.core.sink.litter`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.core.sink.epochs import generation_of
from semel.core.sink.journal import (
    FORMAT_VERSION,
    Attempt,
    Begin,
    Carried,
    Cut,
    Decision,
    Entry,
    Fence,
    JournalRecord,
    OutputClaim,
    OutputTopic,
    WriterClaim,
    encode,
)
from semel.core.sink.litter import Litter
from semel.core.sink.ranges import ids_agree
from semel.core.sink.refusal import Reason, Refusal, is_stage, one_at_a_time, subject
from semel.types import NO_PRODUCER_ID, TopicPartition

WriterIds = Mapping[int, int]  # a writer's producer id by generation


@dataclass(slots=True)
class SinkHistory:
    """All records of ``sink_id`` below ``end_offset`` of its decision-log partition."""

    sink_id: str
    end_offset: int = 0
    fence: Fence | None = None
    begin: Begin | None = None
    decision: Decision | None = None
    writers: dict[str, dict[int, int]] = field(default_factory=dict)  # the first claim of a name wins
    outputs: dict[str, OutputTopic] = field(default_factory=dict)  # BEGIN's, then the first claim of a name
    starts: dict[TopicPartition, int] = field(default_factory=dict)  # of ``outputs``, before any decision
    attempts: list[Attempt] = field(default_factory=list)  # since the last BEGIN
    cuts: list[Cut] = field(default_factory=list)  # of ranges that may have undecided rows
    former_id: int = NO_PRODUCER_ID  # of the identity that the sink had before this one
    other_fence: Fence | None = None  # the newest of another query than the newest one's
    rests_on_format_1: bool = False  # whose records replace each other where they are compacted
    is_whole: bool = False  # nothing in front of the newest BEGIN, or of a reset, matters
    litter: Litter | None = None  # None: nobody asks what is settled

    def take(self, entry: Entry) -> bool:
        """:meth:`apply` for a record as it lies in the log, among tombstones and records of older formats."""
        record = entry.record
        if entry.sink_id != self.sink_id:
            return False
        if record is None:
            if self.litter is not None:
                self.litter.gone(entry.key)
            return False
        counts = self.apply(record)
        if counts and isinstance(record, Begin) and record.is_whole:
            self.rests_on_format_1 = False
        elif entry.format_version < FORMAT_VERSION:
            self.rests_on_format_1 = True
        if self.litter is not None:
            self.litter.see(entry.key, record, counts=bool(counts), undecided=self.cuts)
        return counts

    def apply(self, record: JournalRecord) -> bool:
        """Take the next record of the log in; ``False`` for those that count for nothing here.

        Such are the ones of other sinks, and of drivers that did not hold the sink when they came in: also a
        FENCE by a grant from before the newest FENCE (its driver took the identity before, and appended after).
        """
        if record.sink_id != self.sink_id:
            return False
        match record:
            case Fence():
                if not record.follows(self.fence):
                    return False
                if self.fence is not None and self.fence.producer_id != record.producer_id:
                    self.former_id = self.fence.producer_id
                if self.fence is not None and not (record.query and record.query == self.fence.query):
                    self.other_fence = self.fence
                self.fence = record
            case Begin() if not self._begins(record):
                return False
            case Begin():
                self.begin = record
                self.outputs = {output.topic: output for output in record.outputs}
                self.starts = dict(record.scanned_from)
                self.attempts.clear()
                self.cuts = self._cuts_behind(record)
                if record.carried is not None:
                    self._go_on_from(record.carried)
                self.is_whole = self.is_whole or record.is_whole
            case Decision() if not self._decides(record):
                return False
            case Decision():
                # Attempts stay: one that came in just before this did not see it, and may still write.
                self.decision = record
                self.is_whole = self.is_whole or record.is_reset
                if record.txn_version is not None:
                    self.writers.clear()  # of this version and those below, which nobody writes again
                self.cuts = [cut for cut in self.cuts if self._is_undecided(cut)]
            case WriterClaim() if self._is_written(record.sink_epoch):
                return False  # late: it would be the first of its name again
            case WriterClaim():
                ids = self.writers.setdefault(record.writer, {})
                ids.setdefault(generation_of(record.sink_epoch), record.producer_id)
            case OutputClaim():
                if record.output.topic not in self.outputs:
                    self.outputs[record.output.topic] = record.output
                    self.starts.update(record.starts)
            case Attempt():
                self.attempts.append(record)
            case Cut():
                # A late attempt may tell of a range that is decided by now: its rows are known to the log.
                is_current = self.begin is None or record.sink_epoch >= self.begin.sink_epoch
                if is_current and self._is_undecided(record) and record not in self.cuts:
                    self.cuts.append(record)
        return True

    def carried(self, begun: Begin, decision_bytes_max: int) -> Carried | None:
        """What ``begun`` has to carry, which is about to be appended; ``None`` without a FENCE of its run.

        A stage's decisions stay where they are: whoever looks into a flow reads them all.
        """
        if self.fence is None or self.fence.sink_epoch != begun.sink_epoch:
            return None
        has_decision = not is_stage(self.sink_id) and (
            self.decision is None or len(encode(self.decision)[1]) <= decision_bytes_max
        )
        return Carried(
            self.fence,
            self.other_fence,
            self.former_id,
            {name: dict(ids) for name, ids in self.writers.items()},
            tuple(self._cuts_behind(begun)),
            self.decision if has_decision else None,
            has_decision,
        )

    def _go_on_from(self, carried: Carried) -> None:
        self.fence, self.other_fence, self.former_id = carried.fence, carried.other_fence, carried.former_id
        self.writers = {name: dict(ids) for name, ids in carried.writers.items()}
        self.cuts = list(carried.cuts)
        if carried.has_decision:
            self.decision = carried.decision

    def _begins(self, record: Begin) -> bool:
        """Whether it counts: it is of a later run than the one before, and no FENCE came behind its own.

        By the FENCE that it carries: what is left of those in front of it may be one that never counted.
        """
        is_later = self.begin is None or record.sink_epoch > self.begin.sink_epoch
        if record.carried is None:
            return is_later and self.is_held_by(record.sink_epoch)
        return is_later and not (self.fence is not None and self.fence.follows(record.carried.fence))

    def _decides(self, record: Decision) -> bool:
        return self.is_held_by(record.sink_epoch) and record.follows(self.decision)

    def _cuts_behind(self, begun: Begin) -> list[Cut]:
        """Of a source without stored rows nothing comes any more: the older writers are fenced."""
        return [cut for cut in self.cuts if begun.has_rows_of(cut.source)]

    def counts(self, record: JournalRecord) -> bool:
        """Whether a driver's record would count as the next one; others are not judged."""
        match record:
            case Begin():
                return self._begins(record)
            case Decision():
                return self._decides(record)
        return True

    def is_held_by(self, sink_epoch: int) -> bool:
        """Whether run ``sink_epoch`` is that of the newest FENCE."""
        return self.fence is None or self.fence.sink_epoch == sink_epoch

    def _is_written(self, sink_epoch: int) -> bool:
        """Whether the version that run ``sink_epoch`` of a named batch write writes is decided."""
        last = self.decision
        return last is not None and last.txn_version is not None and last.sink_epoch >= sink_epoch

    def _is_undecided(self, cut: Cut) -> bool:
        if self.decision is None or not ids_agree(
            cut.topic_id, self.decision.source_ids.get(cut.source.topic)
        ):
            return True  # of a topic made anew, perhaps: BEGIN drops it, should it have no rows
        return cut.batch_end > self.decision.source_ends.get(cut.source, 0)

    def resume_ends(self) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Where each source partition is to be begun again without a checkpoint, and the ids of the topics that
        these are offsets of: at its decided end, or where the first range began of which rows may stand undecided.
        A source partition that is not named was never written, and begins at its start.
        """
        ends: dict[TopicPartition, int] = {}
        ids: dict[str, str] = {}
        if self.decision is not None:
            ends, ids = dict(self.decision.source_ends), dict(self.decision.source_ids)
        decided = frozenset(ends)
        for cut in self.cuts:
            if cut.source in decided or not ids_agree(cut.topic_id, ids.get(cut.source.topic)):
                continue
            ends[cut.source] = min(cut.batch_from, ends.get(cut.source, cut.batch_from))
            if cut.topic_id is not None:
                ids[cut.source.topic] = cut.topic_id
        return ends, ids

    def resume_epochs(self) -> dict[TopicPartition, int]:
        """The leader epochs that go with the decided ones of :meth:`resume_ends`, where they are known."""
        return {} if self.decision is None else dict(self.decision.source_epochs)

    def of_writers(self, prefix: str) -> SinkHistory:
        """The same with only the writers whose name starts with ``prefix``: the others are done for good."""
        return SinkHistory(
            self.sink_id,
            self.end_offset,
            self.fence,
            self.begin,
            self.decision,
            {name: ids for name, ids in self.writers.items() if name.startswith(prefix)},
            dict(self.outputs),
            dict(self.starts),
            list(self.attempts),
            list(self.cuts),
            self.former_id,
            self.other_fence,
            self.rests_on_format_1,
            self.is_whole,
        )

    def fenced_by_other(self, sink_epoch: int) -> Refusal | None:
        """The rule that every planner and every task obeys: only the newest FENCE's holder goes on."""
        if self.fence is not None and self.fence.sink_epoch > sink_epoch:
            return Refusal(
                Reason.SINK_FENCED,
                f"{subject(self.sink_id)} was taken over by {self.fence.owner} (sink epoch "
                f"{self.fence.sink_epoch}; this one's is {sink_epoch}). {one_at_a_time(self.sink_id)}",
            )
        return None

    def resumed_before(self, sink_epoch: int, query: str) -> Refusal | None:
        """The same for a query that was told where to begin behind the FENCE of ``sink_epoch``: since then no other
        one may have taken the sink over. It could have decided beyond that, and what is planned from there would
        differ for ever, in whoever came last.
        """
        newest = self.fence
        if newest is not None and query and newest.query == query:
            newest = self.other_fence
        if newest is None or newest.sink_epoch <= sink_epoch:
            return None
        return Refusal(
            Reason.SINK_FENCED,
            f"{subject(self.sink_id)} was taken over by {newest.owner} (sink epoch {newest.sink_epoch}) after this one "
            f"had read where to begin (at {sink_epoch}). Nothing was written. {one_at_a_time(self.sink_id)}",
        )

    def twins_of(self, sink_epoch: int) -> dict[str, set[int]]:
        """The attempts of run ``sink_epoch`` that said that they might not be alone, by writer."""
        found: dict[str, set[int]] = {}
        for attempt in self.attempts:
            if attempt.sink_epoch == sink_epoch:
                found.setdefault(attempt.writer, set()).add(attempt.task_attempt_id)
        return found
