"""One copy of a landing job, from its fence to its last commit. :mod:`semel.core.land` has the law and the steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from semel.core.land.bounds import CommitBounds
from semel.core.land.columns import additions, landed_rows
from semel.core.land.fitting import fitting
from semel.core.land.marks import batch_marks, file_name, files_mark, held_batch, offset_mark
from semel.core.land.starting import LogTopic, another_batch, starting
from semel.errors import DataLoss, JobTakenOver, SemelError, StorageError
from semel.land.files import NewFiles
from semel.land.source import Source
from semel.land.target import Target
from semel.land.told import Progress
from semel.land.values import Values
from semel.spark.process import Clock, SystemClock
from semel.types import TopicPartition
from semel.wording import one_line

AWAY_MS_MAX: Final = 60_000  # so long a server is waited for that is away when the job starts
LOOK_MS: Final = 1_000  # between two questions for ends, ids and partitions while there is work
IDLE_S: Final = 0.25
HELD_MS: Final = 5_000  # between two looks at who holds the job, while there is nothing to commit
TURN_OFFSETS: Final = 1_000_000  # of one partition, before the next one has its turn


@dataclass(frozen=True, slots=True, kw_only=True)
class LandPlan:
    """What to land, and how often to commit. The table and the columns are the target's and the values'."""

    topics: Sequence[str]
    bounds: CommitBounds = field(default_factory=CommitBounds)
    from_latest: bool = False  # where a topic begins that the table does not know
    until_end: bool = False
    accept_loss: bool = False
    compact_every: int | None = None  # commits


class Landing:
    """Runs once. ``on_step`` is told of each step when it is done, ``on_loss`` of losses that were accepted."""

    def __init__(
        self,
        plan: LandPlan,
        target: Target,
        source: Source,
        values: Values,
        *,
        stop: threading.Event | None = None,
        clock: Clock | None = None,
        on_step: Callable[[str], None] = lambda step: None,
        on_loss: Callable[[DataLoss], None] = lambda loss: None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._plan, self._target, self._source, self._values = plan, target, source, values
        self._stop, self._clock = stop or threading.Event(), clock or SystemClock()
        self._on_step, self._on_loss, self._on_progress = on_step, on_loss, on_progress
        self.progress = Progress()
        self._epoch = 0
        self._number = 0  # of the last file that was begun
        self._topics: dict[str, LogTopic] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._marks: dict[str, int] = {}  # as they will be with the next commit
        self._committed: dict[str, int] = {}
        self._waiting_since_ms: int | None = None  # what is not committed
        self._looked_ms = self._held_ms = 0

    def run(self, schema: pa.Schema) -> None:
        """Until it is told to stop, or to the end; ``schema`` is the table's, as wanted."""
        self._begin(schema)
        try:
            until = self._look()
            while not self._stop.is_set():
                worked = self._pass()
                self._commit_if_due()
                if self._plan.until_end and all(
                    self._positions.get(tp, end) >= end for tp, end in until.items()
                ):
                    break
                if not worked:
                    self._rest()
                if not worked or self._since(self._looked_ms) >= LOOK_MS:
                    self._look()
            self._commit()
        except JobTakenOver:
            self._files.discard()
            raise
        except FileNotFoundError:
            self._target.check_held()  # a newer copy has cleared this one's files
            raise
        except SemelError:
            with suppress(SemelError):  # the first one is told
                self._commit()  # what was read up to here is whole
            raise
        except OSError as failed:
            self._files.discard()
            raise StorageError(
                f"{self._target.folder}: could not be written: {one_line(failed)}. What was committed is whole, and "
                f"nothing else came into the table. Once there is room, run it again: it goes on behind the last commit"
            ) from failed

    # -- beginning -------------------------------------------------------------------------------------------

    def _begin(self, schema: pa.Schema) -> None:
        job = self._target.job
        additions(self._target.schema, schema)  # who is refused shuts nobody out
        self._epoch = self._target.take_over()
        self._on_step("fenced")
        if self._target.evolve(schema):
            self._on_step("evolved")
        self._schema = schema
        self._number = self._target.mark(files_mark(job)) or 0
        for name in self._target.garbage():
            (self._target.folder / name).unlink(missing_ok=True)
        self._on_step("cleared")
        self._files = self._new_files()

    def _new_files(self) -> NewFiles:
        def next_name() -> str:
            self._number += 1
            return file_name(self._target.job, self._epoch, self._number)

        return NewFiles(self._target.folder, self._schema, self._target.partition_by, next_name)

    # -- reading ---------------------------------------------------------------------------------------------

    def _look(self) -> dict[TopicPartition, int]:
        """What the log has now; the ends. Losses stop the job, unless they are accepted."""
        self._topics = self._source.look()
        self._looked_ms = self._clock.elapsed_ms()
        is_first = not self._marks
        found = starting(self._mark, self._target.job, self._topics, from_latest=self._plan.from_latest)
        for loss in found.losses:
            if not self._plan.accept_loss:
                raise loss
            self._on_loss(loss)
        self._positions = found.positions
        self._set(found.marks)
        for loss in found.losses:
            topic_id = self._topics[loss.partition.topic].topic_id
            self._set(batch_marks(self._target.job, loss.partition, topic_id))
        if is_first:
            held = {name: self._target.mark(name) for name in found.marks}
            self._committed = {name: number for name, number in held.items() if number is not None}
            for source in sorted(self._positions):
                self._prove(source)
        if is_first or found.losses:
            self._commit()  # where it begins is remembered before a row is landed
        self._tell()
        return self._ends()

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, number): end
            for topic, its in self._topics.items()
            for number, end in its.ends.items()
        }

    def _tell(self) -> None:
        self.progress.lag = sum(max(0, end - self._positions[tp]) for tp, end in self._ends().items())
        self._on_progress(self.progress)

    def _mark(self, name: str) -> int | None:
        return self._marks[name] if name in self._marks else self._target.mark(name)

    def _pass(self) -> bool:
        """A turn for each partition that has rows; whether there was one."""
        worked = False
        for source in sorted(self._positions):
            end = self._topics[source.topic].ends[source.partition]
            if self._positions[source] < end:
                worked = True
                self._turn(source, min(end, self._positions[source] + TURN_OFFSETS))
            if self._stop.is_set():
                break
        return worked

    def _prove(self, source: TopicPartition) -> None:
        """That the log still has the batch that was landed last. (One that lost its end may have grown since.)"""
        topic_id, position = self._topics[source.topic].topic_id, self._positions[source]
        held = held_batch(self._mark, self._target.job, source, topic_id)
        if held is None or self._source.has_batch(source, topic_id, *held):
            return
        loss = another_batch(source, held[0], position)
        if not self._plan.accept_loss:
            raise loss
        self._on_loss(loss)
        self._set(batch_marks(self._target.job, source, topic_id))

    def _turn(self, source: TopicPartition, end: int) -> None:
        self._prove(source)
        try:
            self._read(source, end)
        except DataLoss:
            if not self._plan.accept_loss:
                raise
            self._look()  # which tells it, and goes on behind it

    def _read(self, source: TopicPartition, end: int) -> None:
        topic_id = self._topics[source.topic].topic_id
        for records, position, batch in self._source.read(source, topic_id, self._positions[source], end):
            if records.num_rows:
                values, bad = self._values.read(records.column("value"))
                if values is not None:
                    values, bad = fitting(values, bad, self._target.partition_by)
                self._files.write(landed_rows(records, values, bad, self._schema))
                self.progress.bad_rows += len(bad)
                self._on_step("written")
            self._positions[source] = position
            self._set({offset_mark(self._target.job, source, topic_id): position})
            if batch is not None:
                self._set(batch_marks(self._target.job, source, topic_id, batch.last_offset, batch.crc))
            self._commit_if_due()
            if self._stop.is_set():
                break

    def _rest(self) -> None:
        if self._since(self._held_ms) >= HELD_MS:
            self._target.check_held()
            self._held_ms = self._clock.elapsed_ms()
        self._stop.wait(IDLE_S)

    # -- committing ------------------------------------------------------------------------------------------

    def _set(self, marks: Mapping[str, int]) -> None:
        self._marks |= marks
        if self._waiting_since_ms is None and self._marks != self._committed:
            self._waiting_since_ms = self._clock.elapsed_ms()

    def _commit_if_due(self) -> None:
        waits_ms = 0 if self._waiting_since_ms is None else self._since(self._waiting_since_ms)
        if self._plan.bounds.is_due(self._files.rows, self._files.size_bytes, waits_ms):
            self._commit()

    def _commit(self) -> None:
        if self._marks == self._committed:
            return
        files = self._files.close()
        self._on_step("closed")
        marks = {name: number for name, number in self._marks.items() if self._committed.get(name) != number}
        if files:
            marks[files_mark(self._target.job)] = self._number
        self._target.commit(files, marks)
        self._on_step("committed")
        self._committed = dict(self._marks)
        self._waiting_since_ms = None
        self._files = self._new_files()
        self.progress.committed(sum(file.rows for file in files), len(files), self._clock.now_ms())
        every = self._plan.compact_every
        if files and every is not None and self.progress.commits % every == 0:
            self._compact()
            self._on_step("compacted")
        self._tell()

    def _compact(self) -> None:
        try:
            self.progress.files_compacted += self._target.compact()
        except StorageError as failed:  # its readers have more files to open, and every row
            self.progress.compactions_failed += 1
            self.progress.why_not_compacted = str(failed)

    def _since(self, moment_ms: int) -> int:
        return self._clock.elapsed_ms() - moment_ms
