"""A frame stage: steps of Spark's between the source and the sink, with semel's own reader and writer of rows.

Rows are decoded before Spark sees them and encoded behind it, by the one codec of all flows. A record that cannot be
decoded does not go through the steps: the source's ``read()`` lays it aside, and the sink of the same task writes it
to the flow's ``bad`` topic behind the rows of its range. The record's key rides in a column of its own, which the
steps keep; ``apply`` loses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from semel.core.flow.chain import read
from semel.core.flow.pieces import Entry, Piece
from semel.core.flow.schema import Schema
from semel.core.sink.ranges import SourceRange
from semel.errors import ConfigError, FlowError, SemelError
from semel.flow.by_value import by_value, shipped
from semel.flow.frame_steps import Apply, Select, Where
from semel.flow.plan import Stage
from semel.flow.rows_in import cut_in_rows, piece_of, with_output_key
from semel.flow.rows_out import BAD_BEHIND_STEPS, main_batch, side_batches
from semel.flow.stage_ranges import StageTask, source_options
from semel.flow.task import failing_as_a_step, refuse_large
from semel.spark.notes import TaskIdentity, laid_aside, lay_aside
from semel.spark.options import Connection
from semel.spark.stream_ranges import tables
from semel.spark.worker_heap import freeze_heap
from semel.types import TopicPartition

KEY_COLUMN: Final = "__semel_key"
ASIDE_ROWS: Final = 4096
_NOTHING: Final = "Nothing was read or written"
VALUE_COLUMN: Final = "value"  # of a source without a schema, and of a stage's output


def columns_read(stage: Stage) -> str:
    """What Spark sees of a stage's input, as its DDL; nothing of it where the stage runs in the sink's task."""
    schema = stage.inputs[0].schema
    columns = f"{VALUE_COLUMN} binary" if schema is None else schema.ddl
    return f"{columns}, `{KEY_COLUMN}` binary"


def rows_read(stage: Stage, connection: Connection, task: StageTask) -> Iterator[pa.RecordBatch]:
    """In the task of the source: the rows of its range, decoded."""
    for table in tables(source_options(stage, connection), task.planned):
        entry = Entry()
        yield from decoded(stage, task.source_range.source, table, entry)
        _lay_aside(stage, task.source_range, entry)
    freeze_heap()


def decoded(stage: Stage, source: TopicPartition, table: pa.Table, entry: Entry) -> Iterator[pa.RecordBatch]:
    """Records as Spark sees them; what cannot be decoded is in ``entry``."""
    given = stage.inputs[0]
    if given.schema is None:
        piece = piece_of(given, 0, table, source)
        yield pa.record_batch({KEY_COLUMN: piece.keys, VALUE_COLUMN: piece.raw})
        return
    for part in cut_in_rows(table):
        for each in read(piece_of(given, 0, part, source), entry, as_columns=True):
            yield from _with_key(each).to_batches()


def _with_key(piece: Piece) -> pa.Table:
    keys = pa.nulls(len(piece), pa.binary()) if piece.keys is None else piece.keys
    return piece.as_table().append_column(KEY_COLUMN, keys)


def frame_of(stage: Stage, frame: Any) -> Any:
    """The stage's steps over Spark's frame. ``FlowError``: Spark cannot make sense of one, with what it says."""
    for spec in stage.steps:
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
        kept = [f"`{KEY_COLUMN}`"] if KEY_COLUMN in frame.columns else []
        return frame.selectExpr(*spec.columns, *kept)
    if isinstance(spec, Apply):
        with by_value([spec.function]):
            return spec.function(frame.drop(KEY_COLUMN))
    return _in_python(spec, frame, site)


def _in_short(error: Exception) -> str:
    """Spark tells the plan behind the first line."""
    text = str(error).split(" SQLSTATE:")[0].split("\n")[0].rstrip(".; ")
    return text if text.startswith("[") else f"{type(error).__name__}: {text}"


def _in_python(spec: Any, frame: Any, site: str) -> Any:
    """A step of Python's in the middle of Spark's: the same step as elsewhere, on Arrow batches."""
    given = _schema_of(frame)
    made = spec.output_schema(given)
    has_key = KEY_COLUMN in frame.columns
    sent = shipped(spec, [spec], site)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = sent.value.start()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            keys = table.column(KEY_COLUMN).combine_chunks() if has_key else None
            entry = Entry()
            for piece in step.process([Piece(keys, given, table=table.select(given.names))], entry):
                yield from (_with_key(piece) if has_key else piece.as_table()).to_batches()

    return frame.mapInArrow(run, f"{made.ddl}, `{KEY_COLUMN}` binary" if has_key else made.ddl)


def _schema_of(frame: Any) -> Schema:
    from semel.core.flow.schema import parse_schema

    fields = [field for field in frame.schema.fields if field.name != KEY_COLUMN]
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
    for batch in batches:
        table = pa.Table.from_batches([batch])
        with failing_as_a_step(stage, f"a row of {source_range.source}"):
            made = [refuse_large(each, record_bytes_max) for each in records_of(stage, table)]
        yield from made
    yield from _recut(laid_aside(task))


def records_of(stage: Stage, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """What the sink is handed of Spark's rows."""
    schema = stage.output.schema
    keys = table.column(KEY_COLUMN).combine_chunks() if KEY_COLUMN in table.column_names else None
    if schema is None:
        piece = Piece(keys, None, raw=table.column(VALUE_COLUMN).combine_chunks())
    else:
        piece = Piece(keys, schema, table=table.select(schema.names).cast(schema.arrow))
    entry = Entry()
    piece = with_output_key(stage, piece, entry)
    if len(piece):
        yield main_batch(stage.output.topic, piece)
    yield from side_batches(stage, entry, 0, BAD_BEHIND_STEPS)


def trying_records(stage: Stage, frame: Any, record_bytes_max: int) -> Any:
    """The frame's rows as records that go nowhere: fails at what :func:`encoded` would fail at."""
    sent = shipped(replace(stage, steps=()))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for each in records_of(sent.value, pa.Table.from_batches([batch])):
                refuse_large(each, record_bytes_max)
        yield from ()

    return frame.mapInArrow(run, f"{VALUE_COLUMN} binary")


def _recut(laid: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """In batches of a fixed size: they were laid aside as fetches came, which are others at another attempt."""
    tables = [pa.ipc.open_stream(pa.BufferReader(piece)).read_all() for piece in laid]
    if tables:
        whole = pa.concat_tables(tables).combine_chunks()
        yield from whole.to_batches(max_chunksize=ASIDE_ROWS)


def _lay_aside(stage: Stage, source_range: SourceRange, entry: Entry) -> None:
    for batch in side_batches(stage, entry, source_range.batch_from):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        lay_aside(sink.getvalue().to_pybytes())
