"""One attempt of one task of a stage that runs in the sink's own task: fetch, decode, the steps, and the sink.

Spark's worker and the runner of this process call the same function. Rows go from the log to the log in this process;
what the sink is handed is a stream of Arrow batches whose rows, in their order for each output partition, depend on
the source's offsets, or on the recorded entries, alone, and never on how fetches or micro-batches were cut.

No row of an entry is handed on before all steps have come through with the whole of it. A step that fails at an entry
ends the attempt in front of that entry, and one that fails in a stateless stage, in front of the row: what came before
is decided, and then the flow stops. So nothing is undecided when somebody has to mend the step, and the mended one
begins where it failed.

A stateful stage works entry by entry. Its state is the decided one, which the ticket has, under what the entries so
far have changed; it is loaded only once it is known that the range is to be written, for then the decided end is
where the range begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from semel.core.flow.chain import Chain, RunningChain
from semel.core.flow.codec import CODEC_VERSION
from semel.core.flow.merge import PlacedEntry
from semel.core.flow.pieces import Entry, Piece
from semel.core.flow.state import State, rules
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.routing import Routing
from semel.core.sink.run import Ticket
from semel.core.sink.task import Attempted
from semel.errors import NonDeterministicReplay, SemelError, StepFailed
from semel.flow.plan import Stage, Tombstones
from semel.flow.rows_in import PIECE_OFFSETS, EntryRows, cut_at_offsets, piece_of, proven, with_output_key
from semel.flow.rows_out import changelog_batch, output_batch, side_batches
from semel.flow.stage_ranges import StageTask, plain_tables
from semel.flow.stage_state import TaskState
from semel.flow.unreadable import readable
from semel.record.columnar import BATCH_BYTES_MAX
from semel.spark.options import Connection, SinkOptions
from semel.spark.output import PARTITIONER
from semel.spark.task_write import write_range

JOINED_ROWS_MAX: Final = 32_768  # one piece more is too much for a core's cache
JOINED_BYTES_MAX: Final = 8 * 2**20


def sink_options(stage: Stage, connection: Connection, resumed_epoch: int | None = None) -> SinkOptions:
    """The sink of a stage: each row names its topic, and rows without one of their own a partition."""
    return SinkOptions(
        connection=connection,
        topic=None,
        sink_id=stage.sink_id,
        routing=Routing(None, ("key",), PARTITIONER),
        plan=f"{stage.plan_text} {written_by(stage)}",
        state_plan=stage.state_text,
        batch_bytes_max=min(stage.record_bytes_max, BATCH_BYTES_MAX),
        resumed_epoch=resumed_epoch,
    )


def run_attempt(
    stage: Stage,
    options: SinkOptions,
    ticket: Ticket,
    task: StageTask,
    *,
    query_id: str,
    task_attempt_id: int,
    attempt_number: int,
    store: Path,
    state_kind: Callable[..., TaskState] = TaskState,
) -> Attempted:
    """Write what the task's range gives, once; ``store`` is where a large state lies on this machine."""
    with state_kind(stage, options.connection, ticket, task.source_range, store) as kept:
        attempt: _Attempt = (
            _Stateless(stage, options, task)
            if task.entries is None
            else _Stateful(stage, options, task, kept)
        )
        try:
            attempted = write_range(
                options,
                ticket,
                task.source_range,
                joined(attempt.batches()),
                query_id=query_id,
                task_attempt_id=task_attempt_id,
                attempt_number=attempt_number,
                state=attempt.committed if stage.has_state else None,
                is_own_source=True,
                surplus_below=task.undecided_below,
            )
        except NonDeterministicReplay as fewer:
            if attempt.failure is None:
                raise
            raise attempt.failure from fewer  # it had got further before: what is stored there waits
    if attempt.failure is None:
        return attempted
    ended = replace(task.source_range, batch_end=attempt.failed_at)
    return replace(attempted, report=replace(attempted.report, source_range=ended), failure=attempt.failure)


class _Attempt:
    """What both kinds have: where a step failed, if one did."""

    stage: Stage
    failure: StepFailed | None = None
    failed_at = -1  # in front of this offset all came through

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the sink is to write."""
        raise NotImplementedError

    def committed(self) -> CommittedState:
        """The state behind all of it; only of a stage that has one."""
        raise NotImplementedError

    def _written(self, pieces: list[Piece], entry: Entry, number: int) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            keyed = with_output_key(self.stage, piece, entry)
            if len(keyed):
                yield output_batch(self.stage, keyed, entry)[1]
        yield from side_batches(self.stage, entry, number)


class _Stateless(_Attempt):
    """Rows of a plain range."""

    def __init__(self, stage: Stage, options: SinkOptions, task: StageTask) -> None:
        self.stage, self.connection, self.task = stage, options.connection, task

    def batches(self) -> Iterator[pa.RecordBatch]:
        stage = self.stage
        chain = chain_of(stage).start()
        done_to = self.task.source_range.batch_from
        for table in cut_at_offsets(plain_tables(stage, self.connection, self.task.planned)):
            try:
                made = self._made(chain, table, done_to)
            except StepFailed as failed:
                made, self.failed_at, self.failure = self._in_front_of(failed, table, done_to)
                yield from made
                return
            yield from made
            done_to = int(table.column("offset")[-1].as_py()) + 1

    def _made(self, chain: RunningChain, table: pa.Table, number: int) -> list[pa.RecordBatch]:
        entry, piece = Entry(), piece_of(self.stage.inputs[0], 0, table, self.task.source_range.source)
        with failing_as_a_step(self.stage, f"{piece.place(0)} or behind it"):
            pieces = proven(self.stage.inputs[0], readable(piece, table, entry), entry)
            return list(self._written(chain.process(pieces, entry), entry, number))

    def _in_front_of(
        self, failed: StepFailed, table: pa.Table, number: int
    ) -> tuple[list[pa.RecordBatch], int, StepFailed]:
        """What the rows give that stand in front of the one that fails, its offset, and its failure.

        Rows of a piece may be stored and undecided, where an earlier attempt ended before the failing row had come.
        Those have to be met again, or the mended step could never take its place.
        """
        made: list[pa.RecordBatch] = []
        through, failing = 0, table.num_rows  # the first so many rows come through; the first so many do not
        while failing - through > 1:
            middle = (through + failing) // 2
            try:
                made = self._made(chain_of(self.stage).start(), table.slice(0, middle), number)
                through = middle
            except StepFailed as nearer:
                failing, failed = middle, nearer
        return made, int(table.column("offset")[through].as_py()), failed


class _Stateful(_Attempt):
    """Rows of entries of the merge log."""

    def __init__(self, stage: Stage, options: SinkOptions, task: StageTask, kept: TaskState) -> None:
        self.stage, self.connection, self.task, self.kept = stage, options.connection, task, kept
        self._state: State | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        stage, entries = self.stage, self.task.entries
        assert entries is not None
        partition = self.task.source_range.source.partition
        if stage.has_state:
            self._state = self.kept.load()
        chain = chain_of(stage).start()
        rows = EntryRows(stage, self.connection, partition, entries)
        done_to = self.task.source_range.batch_from  # behind an entry: other records may lie between two
        for placed in entries:
            try:
                with failing_as_a_step(stage, f"entry {placed.offset} of {stage.merge_topic}-{partition}"):
                    made = list(self._entry(placed, rows, chain))
            except StepFailed as failed:
                self.failure, self.failed_at = failed, done_to
                if self._state is not None:
                    self._state.drop_entry()
                return
            yield from made
            yield from self._changes(placed, partition)
            done_to = placed.offset + 1

    def _entry(self, placed: PlacedEntry, rows: EntryRows, chain: RunningChain) -> Iterator[pa.RecordBatch]:
        entry = Entry(placed.offset, placed.entry.tick_ms, self._state)
        pieces = chain.process(rows.of(placed, entry), entry)
        yield from self._written(pieces, entry, placed.offset)

    def _changes(self, placed: PlacedEntry, partition: int) -> Iterator[pa.RecordBatch]:
        """What the entry changes of the state, piece by piece: a snapshot is all of it, and may be larger than memory.

        Nothing of it can fail any more, for keys and values were bounded when they were set, to what a batch takes.
        """
        if self._state is not None:
            for changed in self._state.end_entry(placed.offset):
                batch = changelog_batch(self.stage, partition, changed.keys, changed.values)
                yield batch

    def committed(self) -> CommittedState:
        end = self.task.source_range.batch_end if self.failure is None else self.failed_at
        return self.kept.committed(end)


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: to the sink each costs as much as some thousand rows, and to its readers."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        fits = (
            bool(waiting)
            and batch.schema == waiting[0].schema
            and rows + batch.num_rows <= JOINED_ROWS_MAX
            and size_bytes + batch.nbytes <= JOINED_BYTES_MAX
        )
        if waiting and not fits:
            yield _one_of(waiting)
            waiting, rows, size_bytes = [], 0, 0
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
    if waiting:
        yield _one_of(waiting)


def _one_of(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


@contextmanager
def failing_as_a_step(stage: Stage, position: str) -> Iterator[None]:
    """Whatever the steps' rows come to grief at is a step's failure; what the log says goes through."""
    try:
        yield
    except SemelError:
        raise
    except Exception as error:
        raise StepFailed(stage.name, position, error) from error


def written_by(stage: Stage) -> str:
    """What the bytes of a replay depend on beside the plan: the rules of the semel that wrote them."""
    codec = f"codec {CODEC_VERSION}, pieces of {PIECE_OFFSETS} offsets"
    return f"{codec}; {rules(stage.partition_count)}" if stage.has_state else codec


def chain_of(stage: Stage) -> Chain:
    """The stage's steps as they run."""
    inputs = list(enumerate(stage.inputs))
    return Chain(
        stage.steps,
        frozenset(number for number, read in inputs if read.deletes),
        frozenset(
            number
            for number, read in inputs
            if read.is_internal and not read.is_table and not read.has_tombstones
        ),
        frozenset(number for number, read in inputs if read.tombstones is Tombstones.UNKEYED),
    )
