"""One sink: its source's rows, its outputs, and all that was done to it. What the checkers know of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from semel.sim.sinks.checkpoint import Checkpoint, Offsets
from semel.spark.planning import ReadRange
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
    sink_ids: list[str] = field(init=False)  # one after the other; the last is in use
    drivers: list[SimulatedDriver] = field(default_factory=list)
    was_lost: bool = False  # a checkpoint, and a new query has begun where the log had decided
    was_tampered: bool = False  # a checkpoint was put back, torn or begun anew, or the splits changed
    was_recut: bool = False
    backups: list[Checkpoint] = field(default_factory=list)
    is_finished: bool = False  # all rows of the source are decided
    has_stopped: bool = False  # for good, with an error that was right
    _planned_ends: dict[TopicPartition, int] = field(default_factory=dict)
    _closed_at: dict[TopicPartition, int] | None = None

    def __post_init__(self) -> None:
        self.sink_ids = [self.sink_id]

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
        at_ms = self.elapsed_ms()
        return {
            tp: min(
                at_ms // (self.row_gap_ms * (1 + tp.partition)),
                self._planned_ends.get(tp, 0) + BACKLOG_ROWS_MAX,
            )
            for tp in self.sources
        }

    def planned(self, ends: Offsets) -> None:
        """A micro-batch up to ``ends`` is in somebody's checkpoint."""
        for tp, end in ends.items():
            self._planned_ends[tp] = max(end, self._planned_ends.get(tp, 0))

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
        for number in range(planned.read_from, planned.read_end):
            value = f"{self.sink_id}/{tp.partition}:{number}{tilde}".encode()
            rows.append((self._key_of(number), value, self.topics[number // 4 % len(self.topics)]))
        if version == ONE_TOO_MANY:
            last = planned.read_end - 1
            value = f"{self.sink_id}/{tp.partition}:{last}x{tilde}".encode()
            rows.append((self._key_of(last), value, self.topics[last // 4 % len(self.topics)]))
        return rows

    def _key_of(self, number: int) -> bytes | None:
        return b"%d" % (number % KEYS) if self.has_keys else None

    def batches_of(self, planned: ReadRange, version: int, size: int) -> Iterator[pa.RecordBatch]:
        """The range's rows as Spark hands them on: ``size`` at a time, as it is configured."""
        rows = self.rows_of(planned, version)
        while rows:
            part, rows = rows[:size], rows[size:]
            columns = {"value": pa.array([value for _, value, _ in part], pa.binary())}
            if self.has_keys:
                columns["key"] = pa.array([key for key, _, _ in part], pa.binary())
            if len(self.topics) > 1:
                columns["topic"] = pa.array([topic for _, _, topic in part])
            yield pa.record_batch(columns)
