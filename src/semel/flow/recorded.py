"""What the log has recorded of a stage: its decisions, and where its source partitions begin and end.

Read as it stands: nobody is fenced, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.core.sink.committed_state import CommittedState, state_of
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Decision, OutputClaim, WriterState
from semel.core.sink.ranges import SourceRange
from semel.spark.options import Connection
from semel.spark.sink_log import JournalReading, SinkLog, topic_partition_count
from semel.types import SINKS_TOPIC, TopicPartition


@dataclass(slots=True)
class StageRecord:
    """One stage's sink, as of the last decision that counts."""

    history: SinkHistory
    begins: dict[TopicPartition, int] = field(default_factory=dict)  # as a CUT says it of a first range
    output_counts: dict[str, set[int]] = field(default_factory=dict)  # by topic; more than one: it grew
    decision_count: int = 0
    is_reset: bool = False
    wrong: list[str] = field(default_factory=list)

    @property
    def decision(self) -> Decision | None:
        """The last one."""
        return self.history.decision

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Decided, by source partition."""
        return {} if self.decision is None else self.decision.source_ends

    def source_range(self, source: TopicPartition, begin: int) -> SourceRange:
        """All that is decided of a source partition, as one range."""
        assert self.decision is not None
        topic_id = self.decision.source_ids.get(source.topic)
        return SourceRange(source, begin, self.ends[source], topic_id=topic_id, from_topic_id=topic_id)

    def writer(self, name: str) -> WriterState | None:
        """As of the last decision."""
        return None if self.decision is None else self.decision.writers.get(name)

    def state(self, source_range: SourceRange) -> CommittedState | None:
        """As of the last decision."""
        return None if self.decision is None else state_of(self.decision.states, source_range)

    def decided_below(self, writer: str, output: TopicPartition) -> int:
        """The rows of ``writer`` in front of this offset are decided, and no others."""
        assert self.decision is not None
        state = self.writer(writer)
        known = None if state is None else state.outputs.get(output)
        if known is not None and known.surplus_from is not None:
            return known.surplus_from
        return self.decision.output_ends.get(output, 0)

    def take(self, record: object) -> None:
        """The next record that counts, before the history has it."""
        if isinstance(record, Begin):
            for output in record.outputs:
                self.output_counts.setdefault(output.topic, set()).add(output.partition_count)
        elif isinstance(record, OutputClaim) and record.output.topic not in self.history.outputs:
            self.output_counts.setdefault(record.output.topic, set()).add(record.output.partition_count)
        elif isinstance(record, Decision):
            self._decide(record)

    def _decide(self, decision: Decision) -> None:
        if decision.is_reset:
            self.is_reset = True
            return
        self.decision_count += 1
        before = self.ends
        for source, end in decision.source_ends.items():
            if source not in before:
                cuts = [cut.batch_from for cut in self.history.cuts if cut.source == source]
                if cuts:
                    self.begins[source] = min(cuts)
            elif end < before[source]:
                self.wrong.append(
                    f"decision {self.decision_count} takes {source} from {before[source]} back to {end}"
                )


def recorded(connection: Connection, sink_id: str) -> StageRecord:
    """All that is recorded now."""
    history = SinkHistory(sink_id)
    record = StageRecord(history)
    log = SinkLog(connection, sink_id)
    if topic_partition_count(log.cluster, SINKS_TOPIC) is None:
        return record
    reading = JournalReading(log.cluster, log.partition, 0, log.history().end_offset)
    for entry in reading:
        if entry.sink_id != sink_id:
            continue
        if entry.record is not None and history.counts(entry.record):
            record.take(entry.record)
        history.take(entry)
    history.end_offset = reading.end_offset
    return record
