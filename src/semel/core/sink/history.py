"""What the decision log says about one sink: a fold over its records, in log order.

Only :meth:`SinkHistory.apply` mutates, so planner, task and ``semel sink describe`` see the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.core.sink.journal import Attempt, Begin, Decision, Fence, JournalRecord, WriterClaim
from semel.core.sink.refusal import Reason, Refusal


@dataclass(slots=True)
class SinkHistory:
    """All records of ``sink_id`` below ``end_offset`` of its decision-log partition."""

    sink_id: str
    end_offset: int = 0
    fence: Fence | None = None
    begin: Begin | None = None
    decision: Decision | None = None
    producer_ids: dict[str, int] = field(default_factory=dict)  # by writer: the first claim of a name wins
    attempts: list[Attempt] = field(default_factory=list)  # since the last BEGIN

    def apply(self, record: JournalRecord) -> None:
        """Take the next record of the log in; records of other sinks are passed over."""
        if record.sink_id != self.sink_id:
            return
        match record:
            case Fence():
                self.fence = record
            case Begin():
                self.begin = record
                self.attempts.clear()
            case Decision():
                # Attempts stay: one that came in just before this did not see it, and may still write.
                self.decision = record
            case WriterClaim():
                self.producer_ids.setdefault(record.writer, record.producer_id)
            case Attempt():
                self.attempts.append(record)

    def of_writers(self, prefix: str) -> SinkHistory:
        """The same with only the writers whose name starts with ``prefix``: the others are done for good."""
        known = {
            name: producer_id for name, producer_id in self.producer_ids.items() if name.startswith(prefix)
        }
        return SinkHistory(
            self.sink_id, self.end_offset, self.fence, self.begin, self.decision, known, list(self.attempts)
        )

    def fenced_by_other(self, sink_epoch: int) -> Refusal | None:
        """The rule that every planner and every task obeys: only the newest FENCE's holder goes on."""
        if self.fence is not None and self.fence.sink_epoch > sink_epoch:
            return Refusal(
                Reason.SINK_FENCED,
                f"sink {self.sink_id!r} was taken over by {self.fence.owner} (sink epoch "
                f"{self.fence.sink_epoch}; this one's is {sink_epoch}). Two queries must not share a sinkId",
            )
        return None

    def twins_of(self, sink_epoch: int) -> frozenset[str]:
        """The writers of run ``sink_epoch`` of which a second attempt may have written, or may yet."""
        return frozenset(attempt.writer for attempt in self.attempts if attempt.sink_epoch == sink_epoch)
