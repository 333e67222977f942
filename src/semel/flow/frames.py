"""A frame stage: steps of Spark's between the source and the sink, with semel's own reader and writer of rows.

Rows are decoded before Spark sees them and encoded behind it, by the one codec of all flows. A record that cannot be
decoded does not go through the steps: the source's ``read()`` lays it aside, and the sink of the same task writes it
to the flow's ``bad`` topic behind the rows of its range. The record's key rides in a column of its own, which the
steps keep; ``apply`` loses it.

Nor do tombstones that a table further down is to have: what would Spark's expressions make of them? The sink puts them
between the rows that Spark gives, by the offsets of both, which then ride in another column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa

from semel.core.flow.chain import read
from semel.core.flow.pieces import Entry, Origin, Piece
from semel.core.flow.schema import Schema
from semel.core.flow.steps import KeyBy
from semel.core.sink.ranges import SourceRange
from semel.errors import ConfigError, FlowError, SemelError
from semel.flow.by_value import by_value, shipped
from semel.flow.frame_steps import Apply, Select, Where
from semel.flow.plan import Stage, Tombstones
from semel.flow.rows_in import cut_in_rows, piece_of, proven, with_output_key
from semel.flow.rows_out import BAD_BEHIND_STEPS, main_batch, side_batches
from semel.flow.stage_ranges import StageTask, plain_tables
from semel.flow.task import failing_as_a_step, refuse_large
from semel.spark.notes import LaidAside, TaskIdentity, lay_aside
from semel.spark.options import Connection
from semel.spark.worker_heap import freeze_heap
from semel.types import TopicPartition

KEY_COLUMN: Final = "__semel_key"
OFFSET_COLUMN: Final = "__semel_offset"  # where tombstones have to find their place among the rows
_OWN_COLUMNS: Final = (KEY_COLUMN, OFFSET_COLUMN)
_BAD_ASIDE: Final = "bad"
_TOMBSTONES_ASIDE: Final = "tombstones"
ASIDE_ROWS: Final = 4096
_NOTHING: Final = "Nothing was read or written"
VALUE_COLUMN: Final = "value"  # of a source without a schema, and of a stage's output


def columns_read(stage: Stage) -> str:
    """What Spark sees of a stage's input, as its DDL; nothing of it where the stage runs in the sink's task."""
    schema = stage.inputs[0].schema
    columns = f"{VALUE_COLUMN} binary" if schema is None else schema.ddl
    return f"{columns}, {_own_columns(_has_tombstones(stage))}"


def _own_columns(has_offset: bool) -> str:
    return f"`{KEY_COLUMN}` binary{f', `{OFFSET_COLUMN}` bigint' if has_offset else ''}"


def _has_tombstones(stage: Stage) -> bool:
    return stage.inputs[0].tombstones is Tombstones.PASSED


def rows_read(stage: Stage, connection: Connection, task: StageTask) -> Iterator[pa.RecordBatch]:
    """In the task of the source: the rows of its range, decoded."""
    for table in plain_tables(stage, connection, task.planned):
        entry = Entry()
        for piece in decoded(stage, task.source_range.source, table, entry):
            if piece.is_tombstones:
                _lay_aside(tombstones_of(stage, piece, entry), _TOMBSTONES_ASIDE)
            else:
                yield from as_spark_sees(stage, piece).to_batches()
        for batch in side_batches(stage, entry, task.source_range.batch_from):
            _lay_aside(batch, _BAD_ASIDE)
    freeze_heap()


def decoded(stage: Stage, source: TopicPartition, table: pa.Table, entry: Entry) -> Iterator[Piece]:
    """Records as Spark sees them, and tombstones that it does not see; what cannot be decoded is in ``entry``.

    A key that the stage is to make of the columns that it reads is made here: Spark would lose whose is null.
    """
    given = stage.inputs[0]
    if given.schema is None:
        yield piece_of(given, 0, table, source)
        return
    is_unkeyed = given.tombstones is Tombstones.UNKEYED
    keys = [step.start() for step in steps_of_source(stage)]
    for part in cut_in_rows(table):
        for each in proven(given, piece_of(given, 0, part, source), entry, as_columns=True):
            pieces = read(each, entry, as_columns=True, is_table=given.deletes, is_unkeyed=is_unkeyed)
            for step in keys:
                pieces = step.process(pieces, entry)
            yield from pieces


def steps_of_source(stage: Stage) -> tuple[Any, ...]:
    """Those in front of Spark's that the source itself does."""
    return tuple(takewhile(_is_key, stage.steps))


def _is_key(step: Any) -> bool:
    return isinstance(step, KeyBy)


def as_spark_sees(stage: Stage, piece: Piece) -> pa.Table:
    """The rows of a piece that was decoded."""
    if stage.inputs[0].schema is None:
        return pa.table({VALUE_COLUMN: piece.raw, KEY_COLUMN: piece.keys})
    return _with_own_columns(piece, _has_tombstones(stage))


def _with_own_columns(piece: Piece, has_offset: bool) -> pa.Table:
    keys = pa.nulls(len(piece), pa.binary()) if piece.keys is None else piece.keys
    table = piece.as_table().append_column(KEY_COLUMN, keys)
    if not has_offset:
        return table
    assert piece.origin is not None, "a step gives rows of those that it was given"
    return table.append_column(OFFSET_COLUMN, pa.array(piece.origin.offsets))


def tombstones_of(stage: Stage, piece: Piece, entry: Entry) -> pa.RecordBatch:
    """Those of a piece as records of the stage's output, with their offsets; what has no key is in ``entry``."""
    piece = with_output_key(stage, piece, entry)
    assert piece.origin is not None, "they were read"
    batch = main_batch(stage.output.topic, piece)
    return batch.append_column(OFFSET_COLUMN, pa.array(piece.origin.offsets))


def frame_of(stage: Stage, frame: Any) -> Any:
    """The stage's steps over Spark's frame. ``FlowError``: Spark cannot make sense of one, with what it says."""
    for spec in stage.steps[len(steps_of_source(stage)) :]:
        try:
            frame = _behind(spec, frame, stage.site)
        except SemelError:
            raise
        except Exception as error:
            raise FlowError(
                spec.name, stage.site, f"Spark cannot run it: {_in_short(error)}", _NOTHING
            ) from error
    if stage.output.schema is not None:
        _check_columns(stage, frame)
    return frame


def _behind(spec: Any, frame: Any, site: str) -> Any:
    if isinstance(spec, Where):
        return frame.where(spec.condition)
    if isinstance(spec, Select):
        kept = [f"`{name}`" for name in _OWN_COLUMNS if name in frame.columns]
        return frame.selectExpr(*spec.columns, *kept)
    if isinstance(spec, Apply):
        with by_value([spec.function]):
            return spec.function(frame.drop(*_OWN_COLUMNS))
    return _in_python(spec, frame, site)


def _in_short(error: Exception) -> str:
    """Spark tells the plan behind the first line."""
    text = str(error).split(" SQLSTATE:")[0].split("\n")[0].rstrip(".; ")
    return text if text.startswith("[") else f"{type(error).__name__}: {text}"


def _in_python(spec: Any, frame: Any, site: str) -> Any:
    """A step of Python's in the middle of Spark's: the same step as elsewhere, on Arrow batches."""
    given = _schema_of(frame)
    made = spec.output_schema(given)
    has_key, has_offset = (name in frame.columns for name in _OWN_COLUMNS)
    sent = shipped(spec, [spec], site)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = sent.value.start()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            keys = table.column(KEY_COLUMN).combine_chunks() if has_key else None
            origin = Origin("", 0, np.asarray(table.column(OFFSET_COLUMN))) if has_offset else None
            entry = Entry()
            given_piece = Piece(keys, given, table=table.select(given.names), origin=origin)
            for piece in step.process([given_piece], entry):
                yield from (
                    _with_own_columns(piece, has_offset) if has_key else piece.as_table()
                ).to_batches()
            assert not entry.side, "a key, which some rows have not, is made before Spark sees them"

    return frame.mapInArrow(run, f"{made.ddl}, {_own_columns(has_offset)}" if has_key else made.ddl)


def _schema_of(frame: Any) -> Schema:
    from semel.core.flow.schema import parse_schema

    fields = [field for field in frame.schema.fields if field.name not in _OWN_COLUMNS]
    return parse_schema(", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields))


def _check_columns(stage: Stage, frame: Any) -> None:
    declared = stage.output.schema
    assert declared is not None
    found = _schema_of(frame)
    if found != declared:
        raise ConfigError(
            f"stage {stage.name!r} of flow {stage.flow!r} was planned to give the columns {declared.ddl}, and Spark "
            f"finds {found.ddl}. Nothing was written. Declare what the step gives"
        )


def encoded(
    stage: Stage,
    source_range: SourceRange,
    batches: Iterator[pa.RecordBatch],
    task: TaskIdentity,
    record_bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """In the task of the sink: Spark's rows as records, and behind them what was laid aside."""
    between = Between()
    gone = LaidAside(task, _TOMBSTONES_ASIDE)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        between.add(_tables(gone))
        with failing_as_a_step(stage, f"a row of {source_range.source}"):
            records = records_of(stage, table, source_range.source, between)
            made = [refuse_large(each, record_bytes_max) for each in records]
        yield from made
    between.add(_tables(gone))
    yield from between.rest()
    yield from _recut(list(_tables(LaidAside(task, _BAD_ASIDE))))


class Between:
    """Tombstones that Spark has not seen, until the rows come that they stand between."""

    def __init__(self) -> None:
        self._waiting: list[pa.Table] = []

    def add(self, tombstones: Iterable[pa.Table]) -> None:
        """As :func:`tombstones_of` has them, in their order."""
        self._waiting += tombstones

    def among(self, batch: pa.RecordBatch, origin: Origin | None) -> pa.RecordBatch:
        """Records, which came of ``origin``, with all tombstones in front of the last one."""
        if not self._waiting or origin is None:
            return batch
        waiting = pa.concat_tables(self._waiting)
        count = int(np.searchsorted(np.asarray(waiting.column(OFFSET_COLUMN)), origin.offsets[-1]))
        self._waiting = [waiting.slice(count)]
        with_offsets = pa.Table.from_batches([batch.append_column(OFFSET_COLUMN, pa.array(origin.offsets))])
        both = pa.concat_tables([waiting.slice(0, count), with_offsets.select(waiting.column_names)])
        order = np.argsort(np.asarray(both.column(OFFSET_COLUMN)), kind="stable")
        return _one_batch(both.take(pa.array(order)))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Those behind all rows."""
        waiting, self._waiting = self._waiting, []
        yield from (_one_batch(each) for each in waiting if each.num_rows)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.drop_columns(OFFSET_COLUMN).combine_chunks().to_batches()
    return batch


def records_of(
    stage: Stage, table: pa.Table, source: TopicPartition, between: Between
) -> Iterator[pa.RecordBatch]:
    """What the sink is handed of Spark's rows, which came of ``source``, and of the tombstones between them."""
    schema = stage.output.schema
    keys, offsets = (
        table.column(name).combine_chunks() if name in table.column_names else None for name in _OWN_COLUMNS
    )
    if schema is None:
        piece = Piece(keys, None, raw=table.column(VALUE_COLUMN).combine_chunks())
    else:
        piece = Piece(keys, schema, table=table.select(schema.names).cast(schema.arrow))
    if offsets is not None:
        piece.origin = Origin(source.topic, source.partition, np.asarray(offsets))
    entry = Entry()
    piece = with_output_key(stage, piece, entry)
    if len(piece):
        yield between.among(main_batch(stage.output.topic, piece), piece.origin)
    yield from side_batches(stage, entry, 0, BAD_BEHIND_STEPS)


def trying_records(stage: Stage, frame: Any, record_bytes_max: int) -> Any:
    """The frame's rows as records that go nowhere: fails at what :func:`encoded` would fail at."""
    sent, nowhere = shipped(replace(stage, steps=())), TopicPartition("", 0)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for each in records_of(sent.value, pa.Table.from_batches([batch]), nowhere, Between()):
                refuse_large(each, record_bytes_max)
        yield from ()

    return frame.mapInArrow(run, f"{VALUE_COLUMN} binary")


def _tables(laid: LaidAside) -> Iterator[pa.Table]:
    for piece in laid.more():
        yield pa.ipc.open_stream(pa.BufferReader(piece)).read_all()


def _recut(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """In batches of a fixed size: they were laid aside as fetches came, which are others at another attempt."""
    if tables:
        whole = pa.concat_tables(tables).combine_chunks()
        yield from whole.to_batches(max_chunksize=ASIDE_ROWS)


def _lay_aside(batch: pa.RecordBatch, kind: str) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    lay_aside(sink.getvalue().to_pybytes(), kind)
