"""What the tasks of a stage are to do, micro-batch by micro-batch; asked by Spark's driver and by the runner here.

No run trusts a checkpoint. A stage begins where its sink has decided to, after the sink was fenced; so an older
driver of the stage decides no more by then. A stateless stage reads plain ranges of its topic; a stateful one reads
entries of its merge log, whose offsets are the stage's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from semel.core.flow.merge import PlacedEntry
from semel.core.flow.merge_plan import ENTRY_ROWS_MAX
from semel.core.sink.ranges import SourceRange
from semel.flow.losses import told_to_a_flow
from semel.flow.merge_log import MergeLog
from semel.flow.plan import Stage
from semel.flow.resting import Ticks
from semel.flow.unreadable import with_unreadable
from semel.spark.offsets import EARLIEST, Json, Offsets, TopicIds, from_json, to_json
from semel.spark.options import Connection, Position, SourceOptions
from semel.spark.planning import RangeTopic, ReadRange, split
from semel.spark.resuming import Resumption
from semel.spark.source_offsets import SourceOffsets
from semel.spark.stream_ranges import StreamRanges, tables_and_unreadable
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class StageTask:
    """One task: a plain range of a topic, or the entries of a range of the merge log."""

    planned: ReadRange
    entries: tuple[PlacedEntry, ...] | None = None  # None: of a stateless stage
    undecided_below: int | None = None  # undecided rows of older runs come from offsets below it

    @property
    def source_range(self) -> SourceRange:
        """What the sink knows the task by."""
        return self.planned.source_range


class StageRanges(Protocol):
    """Of one run of one stage. Offsets are Spark's JSON: topic, partition, next offset, topic id."""

    def initial(self) -> Json:
        """Where the stage goes on."""

    def fix_target(self) -> None:
        """From now on the stage ends at what its inputs have now."""

    def next_end(self, start: Json) -> Json:
        """The end of the next micro-batch, ``start`` itself where there is nothing to do."""

    def tasks(self, start: Json, end: Json) -> list[StageTask]:
        """Of the micro-batch between the two."""

    def lag(self, start: Json) -> int:
        """Offsets of the inputs behind ``start``, as they were asked for last."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """How large a micro-batch may be. It changes nothing of what a flow writes."""

    rows_max: int = 1_000_000  # of a stateless stage, over all partitions
    entries_max: int = 64  # of a stateful one, in each partition
    entry_rows_max: int = ENTRY_ROWS_MAX  # of an entry that is recorded anew: it stays as it is recorded


def ranges_of(stage: Stage, connection: Connection, cuts: Cuts, resumed: Resumption) -> StageRanges:
    """The ranges of ``stage`` from ``resumed`` on, whose FENCE no older driver of it decides behind."""
    if stage.is_stateful:
        return MergedRanges(stage, connection, cuts, resumed)
    return PlainRanges(stage, connection, cuts, resumed)


def source_options(stage: Stage, connection: Connection) -> SourceOptions:
    """How a stateless stage reads its topic."""
    return SourceOptions(
        connection=connection,
        subscribe=(stage.inputs[0].topic,),
        start=Position(default=EARLIEST),
        include_headers=stage.inputs[0].reads_headers,
    )


def plain_tables(stage: Stage, connection: Connection, planned: ReadRange) -> Iterator[pa.Table]:
    """The rows of a range that a stateless stage reads, in offset order, fetch by fetch."""
    with told_to_a_flow():
        for found in tables_and_unreadable(source_options(stage, connection), planned):
            yield with_unreadable(found, planned.read_end, has_headers=stage.inputs[0].reads_headers)


class PlainRanges:
    """Of a stateless stage."""

    def __init__(self, stage: Stage, connection: Connection, cuts: Cuts, resumed: Resumption) -> None:
        self._stage, self._connection, self._cuts, self._resumed = stage, connection, cuts, resumed
        self._options = source_options(stage, connection)
        self._stream = StreamRanges(self._options)
        self._ended: Offsets = {}  # when the sink had been fenced

    @told_to_a_flow()
    def initial(self) -> Json:
        resumed = self._resumed
        offsets = SourceOffsets(self._options)
        partitions = offsets.partitions()
        self._ended = offsets.latest(partitions)
        known = {tp: resumed.ends[tp] for tp in partitions if tp in resumed.ends}
        held: TopicIds = dict(offsets.topic_ids) | resumed.topic_ids
        earliest = offsets.earliest([tp for tp in partitions if tp not in known])
        return to_json(earliest | known, held, resumed.leader_epochs)

    def fix_target(self) -> None:
        self._stream.fix_target()

    @told_to_a_flow()
    def next_end(self, start: Json) -> Json:
        return self._stream.next_end(start, self._cuts.rows_max)

    @told_to_a_flow()
    def tasks(self, start: Json, end: Json) -> list[StageTask]:
        return [
            StageTask(planned, undecided_below=self._ended.get(planned.source_range.source))
            for planned in self._stream.ranges(start, end)
        ]

    def lag(self, start: Json) -> int:
        return _behind(from_json(self._stream.latest() or start), from_json(start))


class MergedRanges:
    """Of a stateful stage."""

    def __init__(self, stage: Stage, connection: Connection, cuts: Cuts, resumed: Resumption) -> None:
        self._stage, self._connection, self._cuts, self._resumed = stage, connection, cuts, resumed
        self._log = MergeLog(
            connection,
            stage.merge_topic,
            tuple(read.topic for read in stage.inputs),
            tables=tuple(read.topic for read in stage.inputs if read.is_table),
        )
        self._ticks = Ticks(stage, connection) if stage.idle_ms else None
        self._recorded: dict[int, int] = {}
        self._is_bounded = False
        self._target: Offsets | None = None

    def initial(self) -> Json:
        resumed = self._resumed
        topic = self._stage.merge_topic
        ends = {tp.partition: end for tp, end in resumed.ends.items() if tp.topic == topic}
        self._log.take_over(ends, resumed.sink_epoch)
        self._recorded = self._log.planned_ends()
        if self._ticks is not None:
            self._ticks.see(self._log.recorded(), {})
        begun = {
            TopicPartition(topic, number): ends.get(number, 0)
            for number in range(self._stage.partition_count)
        }
        return to_json(begun, {topic: self._log.topic_id} | resumed.topic_ids)

    def fix_target(self) -> None:
        self._is_bounded = True  # asked for before the merge log is taken over

    def next_end(self, start: Json) -> Json:
        begun = {tp.partition: offset for tp, offset in from_json(start).items()}
        if self._is_bounded and self._target is None:
            self._target = self._log.latest()
        is_done = self._target is not None and self._log.has_recorded(self._target)
        ticks = {} if self._ticks is None or self._is_bounded else self._ticks.due()
        ends = self._log.plan(
            begun,
            append=not is_done,
            entries_max=self._cuts.entries_max,
            rows_max=self._cuts.entry_rows_max,
            tick_ms=ticks,
        )
        if self._ticks is not None:
            self._ticks.see(self._log.recorded(), ticks)
        if ends == begun:
            return start
        topic = self._stage.merge_topic
        return to_json(
            {TopicPartition(topic, number): end for number, end in ends.items()}, {topic: self._log.topic_id}
        )

    def tasks(self, start: Json, end: Json) -> list[StageTask]:
        topic = RangeTopic(self._log.topic_id, self._log.topic_id)
        planned = split(from_json(start), from_json(end), topics={self._stage.merge_topic: topic})
        tasks = []
        for piece in planned:
            partition = piece.source_range.source.partition
            entries = tuple(self._log.entries(partition, piece.read_from, piece.read_end))
            tasks.append(StageTask(piece, entries, self._recorded.get(partition)))
        return tasks

    def lag(self, start: Json) -> int:
        return self._log.unrecorded()


class BoundedRanges:
    """One micro-batch of another's ranges, up to ends that are given, and no more."""

    def __init__(self, ranges: StageRanges, until: Json) -> None:
        self._ranges, self._until = ranges, until

    def initial(self) -> Json:
        return self._ranges.initial()

    def fix_target(self) -> None:
        """It is given."""

    def next_end(self, start: Json) -> Json:
        return self._until

    def tasks(self, start: Json, end: Json) -> list[StageTask]:
        return self._ranges.tasks(start, end)

    def lag(self, start: Json) -> int:
        return 0


def _behind(latest: Offsets, begun: Offsets) -> int:
    return sum(max(0, end - begun.get(tp, 0)) for tp, end in latest.items())
