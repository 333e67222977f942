"""What each stage of a flow does, read from the log alone: so it is the same on Spark, in this process, and elsewhere.

A look is one round of requests, at most one a second: where the topics end, the decisions since the last look, and
where something was decided, the entries that it was decided up to and the changelog's last words. Nothing is fenced,
made or written. What is told is what is decided: rows that stand behind a decided end are not counted.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from semel.core.dead_letter import WHY_HEADER
from semel.core.flow.changelog import Meta, told_meta
from semel.core.flow.merge_records import Entry, InputTopic
from semel.core.flow.state import MemoryBase
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import SINKS_TOPIC, Decision
from semel.core.sink.ranges import writers_of
from semel.flow.merge_reading import read_records
from semel.flow.plan import Plan, Stage
from semel.record.batch import decode_records
from semel.record.columnar import decode_table
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.reading import read_range
from semel.spark.sink_log import JournalReading, SinkLog
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

LOOK_S: Final = 1.0
RATE_S: Final = 10.0  # rows a second are those of so long
REQUEST_TIMEOUT_MS: Final = 5_000
_LAST_OFFSETS: Final = 8  # of a changelog: fence markers may stand behind its last message


@dataclass(frozen=True, slots=True)
class StageLook:
    """One stage at one moment."""

    stage: str
    is_begun: bool = False  # it has decided something, now or earlier
    micro_batches: int = 0  # decided since the watch's first look
    row_count: int = 0  # decided since then, in all of its topics
    rows_per_s: float = 0.0
    lag: int = 0  # offsets of its inputs that are not decided
    has_state: bool = False
    state_keys: int = 0
    state_bytes: int = 0
    is_in_changelog: bool = False  # at least one partition's; else it rides in the decisions
    bad_count: int = 0  # of row_count: that no step could take
    late_count: int = 0  # of row_count: that came after their window was closed


@dataclass(frozen=True, slots=True)
class Look:
    """A flow at one moment."""

    flow: str
    stages: tuple[StageLook, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)  # of the first bad row, and the first late one

    @property
    def asides(self) -> dict[str, int]:
        """The rows that went to the flow's topics for bad and for late ones, by topic; those that there are."""
        bad, late = (
            sum(getattr(stage, name) for stage in self.stages) for name in ("bad_count", "late_count")
        )
        return {topic: count for topic, count in self._sides(bad, late).items() if count}

    def _sides(self, bad: int, late: int) -> dict[str, int]:
        return {f"{self.flow}.bad": bad, f"{self.flow}.late": late}

    @property
    def lag(self) -> int:
        """Over all stages."""
        return sum(stage.lag for stage in self.stages)


@dataclass(slots=True)
class _Seen:
    """What is known of one stage from look to look."""

    stage: Stage
    history: SinkHistory | None = None
    journal: TopicPartition | None = None
    micro_batches: int = 0
    row_count: int = 0
    asides: Counter[str] = field(default_factory=Counter)  # of them, by topic
    counted: deque[tuple[float, int]] = field(default_factory=deque)  # when, and rows by then
    # By partition: a decided end, and what it means.
    entry_ends: dict[int, tuple[int, Mapping[InputTopic, int]]] = field(default_factory=dict)
    metas: dict[str, tuple[CommittedState, Meta]] = field(default_factory=dict)  # by writer

    @property
    def decision(self) -> Decision | None:
        return None if self.history is None else self.history.decision


class Watch:
    """Looks at one flow, with a client of its own: :meth:`close` it."""

    def __init__(self, plan: Plan, bootstrap: str, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._plan, self._now_s = plan, now_s
        client_id = f"semel-watch-{plan.flow}-{uuid.uuid4().hex[:8]}"
        self._connection = Connection(bootstrap, client_id, REQUEST_TIMEOUT_MS)
        self._seen = [_Seen(stage) for stage in plan.stages]
        self._is_first = True
        self._starts: dict[TopicPartition, int] = {}  # of the inputs, when they were seen first
        self._sides = (plan.bad_topic, plan.late_topic)
        self._side_starts: dict[TopicPartition, int] | None = None  # where their rows begin that are counted
        self._reasons: dict[str, str] = {}

    def close(self) -> None:
        """Let go of the server."""
        cluster = this_process().clusters.pop(self._connection, None)
        if cluster is not None:
            cluster.close()

    def look(self) -> Look:
        """How all stages stand; :class:`~semel.errors.SemelError` where the server does not answer."""
        self._find_journals()
        inputs = self._inputs()
        ends = self._listed([*inputs, *self._journals()], LATEST_TIMESTAMP)
        new = [tp for tp in inputs if tp not in self._starts]
        self._starts |= self._listed(new, EARLIEST_TIMESTAMP)
        if self._side_starts is None:
            counts = self._partition_counts(self._sides)
            sides = [TopicPartition(topic, number) for topic in counts for number in range(counts[topic])]
            self._side_starts = self._listed(sides, LATEST_TIMESTAMP)
        self._read_journals(ends)
        self._read_reasons()
        now_s = self._now_s()
        stages = tuple(self._of(seen, ends, now_s) for seen in self._seen)
        return Look(self._plan.flow, stages, dict(self._reasons))

    # -- decisions -------------------------------------------------------------------------------------------

    def _find_journals(self) -> None:
        """Where the sinks' decisions are; before anybody has decided anything there is no such topic.

        What a later look finds there in it is all since the first one, and counted.
        """
        missing = [seen for seen in self._seen if seen.history is None]
        is_first, self._is_first = self._is_first, False
        if not missing or SINKS_TOPIC not in self._partition_counts([SINKS_TOPIC]):
            return
        for seen in missing:
            log = SinkLog(self._connection, seen.stage.sink_id)
            seen.history = log.history() if is_first else SinkHistory(seen.stage.sink_id)
            seen.journal = log.partition

    def _journals(self) -> list[TopicPartition]:
        return list(dict.fromkeys(seen.journal for seen in self._seen if seen.journal is not None))

    def _read_journals(self, ends: Mapping[TopicPartition, int]) -> None:
        """Stages that were read up to one offset are read on together."""
        together: dict[tuple[TopicPartition, int], list[tuple[_Seen, SinkHistory]]] = {}
        for seen in self._seen:
            if seen.history is not None and seen.journal is not None:
                place = seen.journal, seen.history.end_offset
                together.setdefault(place, []).append((seen, seen.history))
        cluster = connect(self._connection)
        for (tp, first), stages in together.items():
            end = max(first, ends.get(tp, first))
            reading = JournalReading(cluster, tp, first, end)
            for entry in reading:
                record = entry.record
                for seen, history in stages:
                    before = history.decision
                    if history.take(entry) and isinstance(record, Decision) and not record.is_reset:
                        seen.micro_batches += 1
                        seen.row_count += record.row_count
                        for topic in self._sides:
                            seen.asides[topic] += _rows_in(topic, record, before)
            for _, history in stages:
                history.end_offset = reading.end_offset

    # -- bad and late rows -----------------------------------------------------------------------------------

    def _read_reasons(self) -> None:
        """Of the first row that went there since the first look."""
        for topic in self._sides:
            if topic not in self._reasons and any(seen.asides[topic] for seen in self._seen):
                for number in range(self._partition_counts([topic]).get(topic, 0)):
                    tp = TopicPartition(topic, number)
                    why = self._first_reason(tp, (self._side_starts or {}).get(tp, 0))
                    if why is not None:
                        self._reasons[topic] = why
                        break

    def _first_reason(self, tp: TopicPartition, first: int) -> str | None:
        cluster, end = connect(self._connection), self._listed([tp], LATEST_TIMESTAMP)[tp]
        for batches in read_range(cluster, tp, first, end, poll_timeout_ms=REQUEST_TIMEOUT_MS):
            for batch, header in batches:
                for record in () if header.is_control else decode_records(batch):
                    whys = [
                        value for name, value in record.headers if name == WHY_HEADER and value is not None
                    ]
                    if whys and record.offset >= first:
                        return whys[0].decode(errors="replace")
        return None

    # -- one stage -------------------------------------------------------------------------------------------

    def _of(self, seen: _Seen, ends: Mapping[TopicPartition, int], now_s: float) -> StageLook:
        seen.counted.append((now_s, seen.row_count))
        while len(seen.counted) > 2 and now_s - seen.counted[1][0] >= RATE_S:
            seen.counted.popleft()
        begun_s, before = seen.counted[0]
        rate = (seen.row_count - before) / (now_s - begun_s) if now_s > begun_s else 0.0
        metas = self._metas(seen)
        return StageLook(
            seen.stage.name,
            seen.decision is not None,
            seen.micro_batches,
            seen.row_count,
            rate,
            self._lag(seen, ends),
            seen.stage.has_state,
            sum(meta.key_count for meta in metas),
            sum(meta.size_bytes for meta in metas),
            any(not meta.is_inline for meta in metas),
            seen.asides[self._plan.bad_topic],
            seen.asides[self._plan.late_topic],
        )

    def _lag(self, seen: _Seen, ends: Mapping[TopicPartition, int]) -> int:
        if seen.stage.is_stateful:
            decided = self._decided_of_merged(seen)
        else:
            decided = {} if seen.decision is None else dict(seen.decision.source_ends)
        topics = {read.topic for read in seen.stage.inputs}
        return sum(
            max(0, end - decided.get(tp, self._starts.get(tp, 0)))
            for tp, end in ends.items()
            if tp.topic in topics
        )

    def _decided_of_merged(self, seen: _Seen) -> dict[TopicPartition, int]:
        """Ends of the inputs, as the entries have them that are decided last."""
        topic = seen.stage.merge_topic
        decision = seen.decision
        if decision is None:
            return {}
        decided = {tp.partition: end for tp, end in decision.source_ends.items() if tp.topic == topic and end}
        asked = {
            number: (end - 1, end)
            for number, end in decided.items()
            if seen.entry_ends.get(number, (-1, {}))[0] != end
        }
        topic_id = decision.source_ids.get(topic)
        if asked and topic_id is not None:
            for number, records in read_records(connect(self._connection), topic, topic_id, asked).items():
                for _, record in records:
                    if isinstance(record, Entry):
                        seen.entry_ends[number] = decided[number], record.ends
        return {
            TopicPartition(key.topic, number): end
            for number, (_, of_inputs) in seen.entry_ends.items()
            for key, end in of_inputs.items()
        }

    # -- its state -------------------------------------------------------------------------------------------

    def _metas(self, seen: _Seen) -> list[Meta]:
        decision = seen.decision
        if decision is None or not seen.stage.has_state:
            return []
        kept: dict[str, tuple[CommittedState, Meta]] = {}
        for writer, state in decision.states.items():
            known = seen.metas.get(writer)
            if known is not None and known[0] == state:
                kept[writer] = known
                continue
            meta = (
                MemoryBase.decoded(state.inline).meta
                if state.inline is not None
                else self._last_words(seen.stage, writer, decision)
            )
            meta = meta or (None if known is None else known[1])
            if meta is not None:
                kept[writer] = state, meta
        seen.metas = kept
        return [meta for _, meta in kept.values()]

    def _last_words(self, stage: Stage, writer: str, decision: Decision) -> Meta | None:
        """What the last decided message of a changelog says of the state; ``None`` where it is not right there."""
        sources = [tp for tp in decision.source_ends if writer.startswith(writers_of(tp))]
        if not sources:
            return None
        changelog = TopicPartition(stage.changelog_topic, sources[0].partition)
        end = decision.output_ends.get(changelog, 0)
        first = max(0, end - _LAST_OFFSETS)
        cluster = connect(self._connection)
        found = None
        for batches in read_range(
            cluster, changelog, first, end, isolation="read_uncommitted", poll_timeout_ms=REQUEST_TIMEOUT_MS
        ):
            table = decode_table(
                (batch for batch, header in batches if not header.is_control),
                topic=changelog.topic,
                partition=changelog.partition,
                from_offset=first,
                end_offset=end,
                include_headers=False,
            )
            for value in table.column("value").to_pylist():
                found = (told_meta(value) if value is not None else None) or found
        return found

    # -- what is asked of the server -------------------------------------------------------------------------

    def _inputs(self) -> list[TopicPartition]:
        topics = dict.fromkeys(read.topic for seen in self._seen for read in seen.stage.inputs)
        if not self._starts or {tp.topic for tp in self._starts} != set(topics):
            counts = self._partition_counts(list(topics))
            return [TopicPartition(topic, number) for topic in counts for number in range(counts[topic])]
        return list(self._starts)

    def _partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Of those that are there."""
        found = connect(self._connection).metadata(list(topics)).topics
        return {
            topic: len(found[topic].partitions)
            for topic in topics
            if topic in found and not found[topic].error_code
        }

    def _listed(self, partitions: Sequence[TopicPartition], which: int) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        listed = connect(self._connection).list_offsets(dict.fromkeys(partitions, which))
        return {tp: each.offset for tp, each in listed.items()}


def _rows_in(topic: str, decision: Decision, before: Decision | None) -> int:
    """How many rows of a topic a micro-batch has decided. What a writer has from an earlier one is carried on in it."""
    count = 0
    is_same_run = before is not None and before.sink_epoch == decision.sink_epoch
    for name, writer in decision.writers.items():
        known = None if before is None else before.writers.get(name)
        for tp, output in writer.outputs.items():
            if tp.topic != topic:
                continue
            earlier = None if known is None else known.outputs.get(tp)
            if earlier is not None and not is_same_run:
                earlier = replace(earlier, next_sequence=0, surplus_from=None)
            count += output.digest.count if output != earlier else 0
    return count
