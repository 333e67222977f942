"""What a flow has done, held against a replay of what it has recorded. Nothing is fenced or written.

A stage is right if it equals a replay of its recorded inputs: of the topics' offsets up to the decided ends, and for a
stage with a merge log, of the entries in it. So each stage is run once more from the beginning, in one piece, by the
very steps that it has, without a store, a checkpoint or micro-batches; and what it gives is compared with what stands
in the log, per writer and output partition, in key, value and headers, in order, and in time where rows keep that of
their records. However often the flow was killed, moved, or cut otherwise, it is the same, or it is told where it is
not. Beside that:

* each offset of a merged input is in exactly one entry that counts, and every decided end is behind an entry;
* the decided state, from the DECISION or the changelog, is the one that the replay comes to, key by key;
* no decision takes a decided end back, and none counts other rows than the replay gives;
* nobody but the flow's own writers has written to its own topics. Rows of others in its outputs are counted: an output
  may be shared on purpose.

Rows that stand behind a decided end are visible and not decided; they are counted, not compared. What cannot be
compared, because it was trimmed or wants Spark, is said to be left out: it is neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from semel.client.blocking import Cluster
from semel.client.cluster import Isolation
from semel.core.flow.changelog import ChangelogRows
from semel.core.flow.coverage import uncovered
from semel.core.flow.merge_records import InputTopic, PlacedEntry
from semel.core.flow.state import MemoryBase, State
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.history import SinkHistory
from semel.core.sink.ranges import SourceRange
from semel.core.sink.refusal import Refusal
from semel.errors import DataLoss, ReplayUnprovable, SemelError, StepFailed
from semel.flow.compared import DIFFERENCES_MAX, Difference, WriterCompared
from semel.flow.merge_log import MergeLog
from semel.flow.plan import Plan, Stage, StageKind
from semel.flow.recorded import StageRecord, recorded
from semel.flow.replayed import Stateful, stateless
from semel.flow.topics import found_topics
from semel.record.batch import BatchHeader
from semel.spark.known_sinks import known_sinks
from semel.spark.options import Connection
from semel.spark.output import has_numbers
from semel.spark.process import connect
from semel.spark.reading import read_range
from semel.spark.sink_log import topic_partition_count
from semel.spark.stored_rows import stored_rows
from semel.spark.takeover import listed
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_PRODUCER_ID, TopicPartition
from semel.wording import counted

_KEYS_SHOWN_MAX = 3
_WRITERS_SHOWN_MAX = 3
_NOT_PROVABLE = "not provable"


@dataclass(slots=True)
class Strangers:
    """Rows in an output that the flow has not written, by producer id, and the ids of its own writers."""

    own_ids: frozenset[int]
    rows: dict[int, int] = field(default_factory=dict)
    sinks: dict[int, str] = field(default_factory=dict)  # whose ids these are, where that is recorded

    @property
    def row_count(self) -> int:
        return sum(self.rows.values())

    def text(self, topic: str) -> str:
        """How many, and whose."""
        by: dict[str, int] = {}
        for producer_id, count in self.rows.items():
            who = f"producer {producer_id}" if producer_id != NO_PRODUCER_ID else "producers without an id"
            who = f"sink {self.sinks[producer_id]}" if producer_id in self.sinks else who
            by[who] = by.get(who, 0) + count
        shown = ", ".join(f"{count:,} by {who}" for who, count in list(by.items())[:_WRITERS_SHOWN_MAX])
        more = ", …" * (len(by) > _WRITERS_SHOWN_MAX)
        were = "was" if self.row_count == 1 else "were"
        return f"{counted(self.row_count, 'row')} in {topic} {were} not written by this flow ({shown}{more})"


@dataclass(slots=True)
class StageReplay:
    """What was compared of one stage, and what is not the same."""

    stage: str
    decisions: int = 0
    entries: int = 0  # of the merge log, that are decided
    rows_read: int = 0  # offsets of its inputs
    rows: int = 0  # written to all of its topics, that are the same
    keys: int = 0  # of its state, that are the same
    undecided: int = 0  # rows behind the decided ends
    lag: int = 0  # offsets of its inputs behind the decided ends
    untimed: int = 0  # rows whose time was not compared, for the log has set it
    keeps_time: bool = False  # its rows have the time of their records
    differences: list[Difference] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    outputs: dict[str, Strangers] = field(default_factory=dict)  # its outputs that hold rows of others

    @property
    def holds(self) -> bool:
        """What was compared is the same."""
        return not self.differences

    def text(self) -> str:
        """One line, and one for each thing that is to be said beside it."""
        read = counted(self.rows_read, "offset")
        if self.entries:
            read += f" in {counted(self.entries, 'entry', 'entries')}"
        parts = [f"read {read}", f"{counted(self.rows, 'row')} the same"]
        if self.keys:
            parts.append(f"{counted(self.keys, 'key')} of state the same")
        if self.undecided:
            parts.append(f"{counted(self.undecided, 'row')} not decided yet")
        if self.lag:
            parts.append(f"{counted(self.lag, 'offset')} to come")
        lines = [f"{self.stage}: {', '.join(parts)} ({counted(self.decisions, 'decision')})"]
        lines += [f"  DIFFERS  {each}" for each in self.differences[:DIFFERENCES_MAX]]
        more = len(self.differences) - DIFFERENCES_MAX
        if more > 0:
            lines.append(f"  DIFFERS  in {counted(more, 'place')} more")
        lines += [f"  left out {each}" for each in self.left_out]
        return "\n".join(lines + [f"  of others {each.text(topic)}" for topic, each in self.outputs.items()])


@dataclass(frozen=True, slots=True)
class Replay:
    """A flow beside its replay."""

    flow: str
    stages: tuple[StageReplay, ...]

    @property
    def holds(self) -> bool:
        """All that was compared is the same."""
        return all(stage.holds for stage in self.stages)

    @property
    def is_complete(self) -> bool:
        """Nothing was left out."""
        return not any(stage.left_out for stage in self.stages)

    @property
    def is_at_rest(self) -> bool:
        """Nothing is undecided, and nothing is to come."""
        return not any(stage.undecided or stage.lag for stage in self.stages)

    def text(self) -> str:
        """For people."""
        verdict = (
            "each stage equals a replay of its recorded inputs"
            if self.holds
            else "NOT a replay of its inputs"
        )
        if self.holds and not self.is_complete:
            verdict = "what could be compared equals a replay of its recorded inputs"
        return "\n".join([*(stage.text() for stage in self.stages), f"{self.flow}: {verdict}"])


def replay(plan: Plan, bootstrap: str, *, spark: Any = None) -> Replay:
    """Compare what the flow has decided with a replay of it.

    Stages with steps of Spark's are run in the session ``spark``, and left out without one. The flow may run meanwhile:
    what it decides after this has begun is not looked at.
    """
    connection = Connection(bootstrap, f"semel-replay-{plan.flow}")
    plan = found_topics(connect(connection), plan)
    records: dict[str, StageRecord] = {}
    found: dict[str, StageReplay] = {}
    for stage in plan.stages:
        try:
            records[stage.name] = recorded(connection, stage.sink_id)
        except (DataLoss, ReplayUnprovable) as gone:
            found[stage.name] = StageReplay(
                stage.name, left_out=[f"{_NOT_PROVABLE}: all of it: {_told(gone)}"]
            )
    for stage in plan.stages:
        if stage.name in records:
            found[stage.name] = _Replayed(stage, connection, records[stage.name], spark).run()
    _strangers([stage for stage in plan.stages if stage.name in records], connection, records, found)
    return Replay(plan.flow, tuple(found[stage.name] for stage in plan.stages))


def replay_anyhow(plan: Plan, bootstrap: str) -> Replay:
    """As :func:`replay`, in the running Spark session, or a new one, where a stage has steps of Spark's."""
    if not any(stage.kind is StageKind.FRAME for stage in plan.stages):
        return replay(plan, bootstrap)
    from semel.spark.session import session

    return replay(plan, bootstrap, spark=session("semel-replay"))


def _told(gone: SemelError) -> str:
    """What is gone, without what a flow could do about it."""
    if isinstance(gone, DataLoss):
        return str(DataLoss(gone.partition, gone.lost_from, gone.lost_to_end, gone.why))
    return str(gone)


class _Replayed:
    """One stage."""

    def __init__(self, stage: Stage, connection: Connection, record: StageRecord, spark: Any) -> None:
        self.stage, self.connection, self.record, self.spark = stage, connection, record, spark
        self.cluster = connect(connection)
        self.result = StageReplay(
            stage.name, decisions=record.decision_count, keeps_time=stage.output.has_record
        )
        self._merged_ends: dict[int, dict[InputTopic, int]] = {}  # by partition, as its entries have them

    def run(self) -> StageReplay:
        """All of it."""
        result, record = self.result, self.record
        result.differences += [Difference(self.stage.sink_id, each) for each in record.wrong]
        if record.is_reset:
            result.left_out.append("the sink was reset: nothing says what its rows were made of before")
            return result
        if record.decision is None:
            result.left_out.append("nothing is decided yet")
        expected = {self._source(source) for source in sorted(record.ends)}
        # Of partitions of which nothing is decided there may be rows of an unfinished first micro-batch.
        result.left_out += [
            f"{name} may have written, and nothing of it is decided"
            for name in sorted(set(record.history.writers) - expected)
        ]
        result.lag = self._lag()
        return result

    # -- where it reads ------------------------------------------------------------------------------------

    def _lag(self) -> int:
        behind = 0
        for read in self.stage.inputs:
            found = self.cluster.metadata([read.topic]).topics.get(read.topic)
            if found is None or found.error_code:
                continue  # one of the flow's own, of a stage that has not begun
            partitions = [TopicPartition(read.topic, number) for number in found.partitions]
            latest = self.cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
            starts = listed(self.cluster, partitions, EARLIEST_TIMESTAMP)
            for tp in partitions:
                if self.stage.is_stateful:
                    ends = self._merged_ends.get(tp.partition, {})
                    end = ends.get(InputTopic(tp.topic, str(found.topic_id)))
                else:
                    end = self.record.ends.get(tp)
                behind += max(0, latest[tp].offset - (starts[tp] if end is None else end))
        return behind

    def _source(self, source: TopicPartition) -> str:
        """One source partition; returns its writer's name."""
        log_start = listed(self.cluster, [source], EARLIEST_TIMESTAMP)[source]
        begin = 0 if self.stage.is_stateful else self.record.begins.get(source, log_start)
        begin_there = min(max(begin, log_start), self.record.ends[source])
        source_range = self.record.source_range(source, begin_there)
        if log_start > begin:
            self.result.left_out.append(
                f"{_NOT_PROVABLE}: what came of offsets {begin} to {log_start - 1} of {source}, which are gone"
            )
            if self.stage.is_stateful:
                return source_range.writer
        try:
            if self.stage.is_stateful:
                self._merged(source_range)
            else:
                self._plain(source_range)
        except (DataLoss, ReplayUnprovable) as gone:
            self.result.left_out.append(f"{_NOT_PROVABLE}: what came of {source}: {_told(gone)}")
        except StepFailed as failed:
            self._differs(source_range.writer, f"the replay fails where the flow went on: {failed}")
        return source_range.writer

    def _plain(self, source_range: SourceRange) -> None:
        self.result.rows_read += source_range.batch_end - source_range.batch_from
        if self.stage.kind is StageKind.FRAME and self.spark is None:
            self.result.left_out.append(
                f"{source_range.source}: its steps are Spark's, and no session was given"
            )
            return
        begun = self.record.begins.get(source_range.source, 0)
        is_cut = source_range.batch_from > begun  # or it began there, which nothing may tell
        first_row = self._first_row(source_range) if is_cut else 0
        self._compare(source_range, self._rows(source_range), first_row, is_cut=is_cut)

    def _rows(self, source_range: SourceRange) -> Iterator[pa.RecordBatch]:
        if self.stage.kind is not StageKind.FRAME:
            return stateless(self.stage, self.connection, source_range)
        from semel.flow.frame_replay import framed

        return framed(self.stage, self.connection, source_range, self.spark)

    def _first_row(self, source_range: SourceRange) -> int:
        """The number of the first row that the replay gives, where the topic may have begun before: counted back."""
        state = self.record.writer(source_range.writer)
        made = sum(batch.num_rows for batch in self._rows(source_range) if not has_numbers(batch))
        return 0 if state is None else max(0, state.rows_total - made)

    def _compare(
        self,
        source_range: SourceRange,
        batches: Iterator[pa.RecordBatch],
        first_row: int = 0,
        *,
        is_cut: bool = False,
    ) -> None:
        compared = WriterCompared(self.cluster, self.record, source_range.writer, first_row, is_cut)
        compared.over(batches)
        compared.finish()
        self.result.rows += compared.row_count
        self.result.undecided += compared.undecided
        self.result.untimed += compared.untimed
        self.result.differences += compared.differences
        self.result.left_out += sorted(compared.left_out)
        if compared.trimmed:
            self.result.left_out.append(
                f"{_NOT_PROVABLE}: {counted(compared.trimmed, 'row')} of {source_range.writer}, trimmed from where "
                f"they stood"
            )
        if compared.unmade:
            self.result.left_out.append(
                f"{_NOT_PROVABLE}: {counted(compared.unmade, 'row')} of {source_range.writer}, made of what is gone "
                f"below offset {source_range.batch_from} of {source_range.source}"
            )

    def _differs(self, place: str, what: str) -> None:
        self.result.differences.append(Difference(place, what))

    # -- a merge log, and the state ------------------------------------------------------------------------

    def _merged(self, source_range: SourceRange) -> None:
        partition, decided_end = source_range.source.partition, source_range.batch_end
        log = MergeLog(self.connection, self.stage.merge_topic, topic_id=source_range.topic_id)
        entries = log.entries(partition, 0, decided_end)
        self.result.entries += len(entries)
        self.result.rows_read += sum(
            each.end_offset - each.from_offset for placed in entries for each in placed.entry.ranges
        )
        self._cover(source_range.source, entries)
        if decided_end != (entries[-1].offset + 1 if entries else 0):
            self._differs(
                str(source_range.source), f"decided up to {decided_end}, which is not the end of an entry"
            )
        if not entries:
            return
        again = Stateful(self.stage, self.connection, partition, entries)
        self._compare(source_range, again.batches())
        if again.state is not None:
            self._state(source_range, again.state)

    def _cover(self, source: TopicPartition, entries: list[PlacedEntry]) -> None:
        topics = [read.topic for read in self.stage.inputs]
        partitions = [TopicPartition(topic, source.partition) for topic in topics]
        starts = listed(self.cluster, partitions, EARLIEST_TIMESTAMP)
        keys = {tp: InputTopic(tp.topic, str(self.cluster.topic(tp.topic).topic_id)) for tp in partitions}
        for wrong in uncovered(entries, {keys[tp]: start for tp, start in starts.items()}):
            self._differs(str(source), wrong)
        if entries:
            self._merged_ends[source.partition] = dict(entries[-1].entry.ends)

    def _state(self, source_range: SourceRange, state: State) -> None:
        place = f"the state of partition {source_range.source.partition}"
        committed = self.record.state(source_range)
        if committed is None:
            self._differs(place, "no state is decided")
            return
        decided = self._decided_state(source_range, committed)
        if isinstance(decided, Refusal):
            self._differs(place, decided.evidence)
            return
        if decided.meta != state.meta:
            self._differs(place, f"it is told as {decided.meta}, and the replay's is {state.meta}")
        stored, made = dict(decided.scan(b"", None)), dict(state.scan())
        wrong = sorted(key for key in stored.keys() | made.keys() if stored.get(key) != made.get(key))
        self.result.keys += len(stored.keys() | made.keys()) - len(wrong)
        for key in wrong[:_KEYS_SHOWN_MAX]:
            self._differs(place, f"key {key!r} has {stored.get(key)!r}, and in the replay {made.get(key)!r}")
        if len(wrong) > _KEYS_SHOWN_MAX:
            self._differs(place, f"{counted(len(wrong), 'key')} differ in all")

    def _decided_state(self, source_range: SourceRange, committed: CommittedState) -> MemoryBase | Refusal:
        if committed.inline is not None:
            return MemoryBase.decoded(committed.inline)
        changelog = TopicPartition(self.stage.changelog_topic, source_range.source.partition)
        ids = self.record.history.writers.get(source_range.writer, {}).values()
        end = self.record.decided_below(source_range.writer, changelog)
        found = stored_rows(
            self.cluster, self.stage.sink_id, changelog, dict.fromkeys(ids, committed.changelog_from), end
        )
        messages = (ChangelogRows(rows.keys, rows.values) for _, rows, _ in found)
        return MemoryBase.restored(messages, source_range.batch_end, committed)


def _strangers(
    stages: Sequence[Stage],
    connection: Connection,
    records: dict[str, StageRecord],
    results: dict[str, StageReplay],
) -> None:
    """Rows in the flow's topics by nobody of it: in those that are its alone, and in its outputs."""
    cluster = connect(connection)
    ids = {stage.name: _writer_ids(records[stage.name].history) for stage in stages}
    outputs: dict[str, str] = {}  # and the first stage that writes there
    for stage in stages:
        own = [stage.output.topic] if stage.output.is_internal else []
        own += [stage.changelog_topic] if stage.has_state else []
        for topic in own:
            for tp, header in _batches(cluster, topic, "read_uncommitted"):
                if header.producer_id not in ids[stage.name]:
                    results[stage.name].differences.append(
                        Difference(
                            f"{tp}@{header.base_offset}",
                            f"{counted(header.record_count, 'row')} by producer {header.producer_id}, "
                            f"which is no writer of the stage",
                        )
                    )
        for topic in [*records[stage.name].history.outputs, *[stage.output.topic] * (not own)]:
            if topic not in own:
                outputs.setdefault(topic, stage.name)
    for topic, name in outputs.items():
        found = _of_others(cluster, connection, topic, {stage.sink_id for stage in stages}, ids.values())
        if found.rows:
            results[name].outputs[topic] = found


def _of_others(
    cluster: Cluster, connection: Connection, topic: str, sink_ids: set[str], ids: Iterable[frozenset[int]]
) -> Strangers:
    """The rows of an output that none of these sinks has written, whose writers may come and go meanwhile."""
    own: frozenset[int] = frozenset().union(*ids)
    rows: dict[int, int] = {}
    for _, header in _batches(cluster, topic, "read_committed"):
        if header.producer_id not in own:
            rows[header.producer_id] = rows.get(header.producer_id, 0) + header.record_count
    if not rows:
        return Strangers(own)
    known = known_sinks(connection.bootstrap)
    own = own.union(*(_writer_ids(known[each]) for each in sink_ids if each in known))
    return Strangers(
        own,
        {producer_id: count for producer_id, count in rows.items() if producer_id not in own},
        {
            each: sink_id
            for sink_id, history in known.items()
            for each in _writer_ids(history)
            if each in rows
        },
    )


def _writer_ids(history: SinkHistory) -> frozenset[int]:
    return frozenset(each for of_writer in history.writers.values() for each in of_writer.values())


def _batches(
    cluster: Cluster, topic: str, isolation: Isolation
) -> Iterator[tuple[TopicPartition, BatchHeader]]:
    """The headers of a topic's batches that have rows."""
    for number in range(topic_partition_count(cluster, topic) or 0):
        tp = TopicPartition(topic, number)
        start, end = (listed(cluster, [tp], which)[tp] for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP))
        for batches in read_range(cluster, tp, start, end, isolation=isolation):
            yield from ((tp, header) for _, header in batches if not header.is_control)
