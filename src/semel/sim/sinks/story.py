"""One sink: its source's rows, its outputs, and all that was done to it. What the checkers know of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from semel.core.sink.litter import SWEPT_AT
from semel.sim.sinks.checkpoint import Checkpoint, Offsets
from semel.spark.planning import ReadRange
from semel.spark.reading import another_topic
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.sinks.driver import SimulatedDriver

KEYS: Final = 5
BACKUPS_MAX: Final = 8
BACKLOG_ROWS_MAX: Final = 100  # of each source partition
ONE_TOO_MANY: Final = 3  # the version whose attempts give a row more than the others
_VALUE: Final = re.compile(rb"(.+)/(\d+):(\d+)(x?)(?:~(\d+))?")


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it lies in an output."""

    sink_id: str
    source_partition: int
    number: int
    is_extra: bool  # of no number of its own: it comes behind the last row of a range
    version: int


def row_of(value: bytes) -> Row:
    """What ``value`` says of itself."""
    found = _VALUE.fullmatch(value)
    assert found is not None, value
    sink_id, partition, number, extra, version = found.groups()
    return Row(sink_id.decode(), int(partition), int(number), bool(extra), int(version or 0))


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """One topic that had the source's name, until another one got it. Its offsets begin at 0, rows' numbers do not."""

    topic_id: str
    made_ms: int
    rows_at_once: int  # that each partition had from the start
    first_numbers: Mapping[int, int]  # by partition: of the row at offset 0


@dataclass(slots=True)
class SinkStory:
    """``sink_id`` names its rows for ever; it may come to write them under other names (``sink_ids``).

    Rows come in at an even pace until :meth:`close_source`, but never far ahead of the sink.

    Else a history with long faults would leave more rows than a healed world can write in its time.
    """

    sink_id: str
    source_partitions: int
    topics: Sequence[str]
    output_partitions: int  # of each topic
    row_gap_ms: int
    rows_per_batch: Sequence[int]  # of which each driver takes one for its most
    has_keys: bool
    elapsed_ms: Callable[[], int]
    rows_differ: bool = False  # between the attempts of one task: the query is not deterministic
    straggle: float = (
        0.0  # how often the first attempt of such a task comes late to its rows, with one too many
    )
    fails_on_data_loss: bool = True  # the source's option
    swept_at: int = SWEPT_AT  # settled keys in its decision log
    sink_ids: list[str] = field(init=False)  # one after the other; the last is in use
    source_topics: list[SourceTopic] = field(init=False)  # one after the other
    drivers: list[SimulatedDriver] = field(default_factory=list)
    was_lost: bool = False  # a checkpoint, and a new query has begun where the log had decided
    was_tampered: bool = False  # a checkpoint was put back, torn or begun anew, or the splits changed
    was_recut: bool = False
    backups: list[Checkpoint] = field(default_factory=list)
    is_finished: bool = False  # all rows of the source are decided
    has_stopped: bool = False  # for good, with an error that was right
    _planned_ends: dict[TopicPartition, int] = field(default_factory=dict)
    _closed_at: dict[TopicPartition, int] | None = None
    _decided: dict[int, int] = field(default_factory=dict)  # by source partition: all rows below this number
    _lost: dict[int, list[range]] = field(default_factory=dict)  # rows that no source has any more

    def __post_init__(self) -> None:
        self.sink_ids = [self.sink_id]
        self.source_topics = [SourceTopic("0", 0, 0, dict.fromkeys(range(self.source_partitions), 0))]

    @property
    def outputs(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, number) for name in self.topics for number in range(self.output_partitions)
        ]

    @property
    def sources(self) -> list[TopicPartition]:
        return [TopicPartition(f"in.{self.sink_id}", number) for number in range(self.source_partitions)]

    def heads(self) -> dict[TopicPartition, int]:
        """Where the source ends now."""
        if self._closed_at is not None:
            return self._closed_at
        source = self.source_topics[-1]
        at_ms = self.elapsed_ms() - source.made_ms
        return {
            tp: source.rows_at_once
            + min(
                at_ms // (self.row_gap_ms * (1 + tp.partition)),
                max(0, self._planned_ends.get(tp, 0) - source.rows_at_once) + BACKLOG_ROWS_MAX,
            )
            for tp in self.sources
        }

    def planned(self, ends: Offsets) -> None:
        """A micro-batch up to ``ends`` is in somebody's checkpoint."""
        for tp, end in ends.items():
            self._planned_ends[tp] = max(end, self._planned_ends.get(tp, 0))

    def decided(self, topic_id: str, ends: Offsets) -> None:
        """A micro-batch up to ``ends`` is decided, for all that its driver knows."""
        for tp, end in ends.items():
            number = self.number_of(topic_id, tp, end)
            self._decided[tp.partition] = max(number, self._decided.get(tp.partition, 0))

    def make_source_anew(self, rows_at_once: int) -> None:
        """Delete the source topic and make another of its name. What nobody has read by now is lost."""
        heads, before = self.heads(), self.source_topics[-1]
        first_numbers = {tp.partition: self.number_of(before.topic_id, tp, heads[tp]) for tp in self.sources}
        for partition, number in first_numbers.items():
            self._lost.setdefault(partition, []).append(range(self._decided.get(partition, 0), number))
        self._planned_ends.clear()
        topic_id = str(len(self.source_topics))
        self.source_topics.append(SourceTopic(topic_id, self.elapsed_ms(), rows_at_once, first_numbers))

    @property
    def was_made_anew(self) -> bool:
        return len(self.source_topics) > 1

    def number_of(self, topic_id: str | None, tp: TopicPartition, offset: int) -> int:
        """The number of the row at ``offset`` of a source topic."""
        source = self.source_topics[0 if topic_id is None else int(topic_id)]
        return source.first_numbers[tp.partition] + offset

    def may_be_lost(self, tp: TopicPartition, number: int) -> bool:
        """Whether the row went with its topic before it was decided."""
        return any(number in lost for lost in self._lost.get(tp.partition, ()))

    @property
    def is_closed(self) -> bool:
        return self._closed_at is not None

    def back_up(self, checkpoint: Checkpoint) -> None:
        """Somebody keeps copies; the oldest go."""
        self.backups.append(checkpoint.copy())
        del self.backups[:-BACKUPS_MAX]

    def close_source(self) -> None:
        """No row comes any more."""
        self._closed_at = self.heads()

    # -- rows -------------------------------------------------------------------------------------------

    def rows_of(self, planned: ReadRange, version: int) -> list[tuple[bytes | None, bytes, str]]:
        """Key, value and topic of each row of a task's range, as ``version`` of the query gives them."""
        tp, tilde = planned.source_range.source, f"~{version}" if version else ""
        rows = []
        topic_id = planned.source_range.topic_id
        for offset in range(planned.read_from, planned.read_end):
            number = self.number_of(topic_id, tp, offset)
            value = f"{self.sink_id}/{tp.partition}:{number}{tilde}".encode()
            rows.append((self._key_of(number), value, self.topics[number // 4 % len(self.topics)]))
        if version == ONE_TOO_MANY:
            last = self.number_of(topic_id, tp, planned.read_end - 1)
            value = f"{self.sink_id}/{tp.partition}:{last}x{tilde}".encode()
            rows.append((self._key_of(last), value, self.topics[last // 4 % len(self.topics)]))
        return rows

    def _key_of(self, number: int) -> bytes | None:
        return b"%d" % (number % KEYS) if self.has_keys else None

    def batches_of(self, planned: ReadRange, version: int, size: int) -> Iterator[pa.RecordBatch]:
        """The range's rows as Spark hands them on: ``size`` at a time, as it is configured."""
        rows = self.rows_of(planned, version)
        while rows:
            # A fetch by the topic's id is refused from then on.
            if planned.source_range.topic_id != self.source_topics[-1].topic_id:
                if self.fails_on_data_loss:
                    raise another_topic(planned.source_range.source, planned.read_from, planned.read_end)
                return
            part, rows = rows[:size], rows[size:]
            columns = {"value": pa.array([value for _, value, _ in part], pa.binary())}
            if self.has_keys:
                columns["key"] = pa.array([key for key, _, _ in part], pa.binary())
            if len(self.topics) > 1:
                columns["topic"] = pa.array([topic for _, _, topic in part])
            yield pa.record_batch(columns)
