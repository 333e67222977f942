"""A frame stage: steps of Spark's between the source and the sink, with semel's own reader and writer of rows.

Rows are decoded before Spark sees them and encoded behind it, by the one codec of all flows. A record that cannot be
decoded does not go through the steps: the source's ``read()`` lays it aside, and the sink of the same task writes it
to the flow's ``bad`` topic behind the rows of its range. The record's key rides in a column of its own, which the
steps keep, and so do its time and headers, of a source with ``record=True``; ``apply`` loses them.

Nor do tombstones that a table further down is to have: what would Spark's expressions make of them? The sink puts them
between the rows that Spark gives, by the offsets of both, which then ride in another column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby, takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa

from semel.core.flow.chain import Chain, read
from semel.core.flow.pieces import HEADERS_TYPE, TIME_TYPE, Entry, Origin, Piece
from semel.core.flow.schema import Schema
from semel.core.flow.steps import KeyBy
from semel.core.sink.ranges import SourceRange
from semel.errors import ConfigError, FlowError
from semel.flow.by_value import by_value, shipped
from semel.flow.frame_steps import RECORD_COLUMN, Apply, FrameStep, Select, Where, is_frame_step
from semel.flow.plan import Input, Stage, Tombstones
from semel.flow.rows_in import cut_at_offsets, cut_in_rows, piece_of, proven, with_output_key
from semel.flow.rows_out import BAD_BEHIND_STEPS, output_batch, side_batches
from semel.flow.stage_ranges import StageTask, plain_tables
from semel.flow.task import failing_as_a_step
from semel.flow.unreadable import readable
from semel.spark.notes import LaidAside, TaskIdentity, lay_aside
from semel.spark.options import Connection
from semel.spark.worker_heap import freeze_heap
from semel.types import TopicPartition

KEY_COLUMN: Final = "__semel_key"
OFFSET_COLUMN: Final = "__semel_offset"  # where tombstones have to find their place among the rows
_RECORD_TYPE: Final = pa.struct(
    [pa.field("key", pa.binary()), pa.field("timestamp", TIME_TYPE), pa.field("headers", HEADERS_TYPE)]
)
_DDL: Final = {
    KEY_COLUMN: "binary",
    OFFSET_COLUMN: "bigint",
    RECORD_COLUMN: "struct<key: binary, timestamp: timestamp, headers: array<struct<key: string, value: binary>>>",
}
_OWN_COLUMNS: Final = tuple(_DDL)
_BAD_ASIDE: Final = "bad"
_TOMBSTONES_ASIDE: Final = "tombstones"
_NUMBER: Final = "offset"  # of a row that is laid aside: by such a column rows are cut
_NOWHERE: Final = TopicPartition("", 0)
_NOTHING: Final = "Nothing was read or written"
VALUE_COLUMN: Final = "value"  # of a source without a schema, and of a stage's output


def columns_read(stage: Stage) -> str:
    """What Spark sees of a stage's input, as its DDL; nothing of it where the stage runs in the sink's task."""
    schema = stage.inputs[0].schema
    columns = f"{VALUE_COLUMN} binary" if schema is None else schema.ddl
    return f"{columns}, {_own_ddl(_own_columns(stage))}"


def _own_columns(stage: Stage) -> tuple[str, ...]:
    """What rides with the rows of a stage."""
    given = stage.inputs[0]
    has = {KEY_COLUMN: True, OFFSET_COLUMN: _has_tombstones(stage), RECORD_COLUMN: given.has_record}
    return tuple(name for name in _OWN_COLUMNS if has[name])


def _own_ddl(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}` {_DDL[name]}" for name in names)


def _has_tombstones(stage: Stage) -> bool:
    return stage.inputs[0].tombstones is Tombstones.PASSED


def rows_read(stage: Stage, connection: Connection, task: StageTask) -> Iterator[pa.RecordBatch]:
    """In the task of the source: the rows of its range, decoded."""
    for table in plain_tables(stage, connection, task.planned):
        entry = Entry()
        for piece in decoded(stage, task.source_range.source, table, entry):
            if piece.is_tombstones:
                with failing_as_a_step(stage, f"{piece.place(0)} or behind it"):
                    batch = tombstones_of(stage, piece, entry)
                if batch.num_rows:
                    _lay_aside(batch, _TOMBSTONES_ASIDE)
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
        yield readable(piece_of(given, 0, table, source), table, entry)
        return
    is_unkeyed = given.tombstones is Tombstones.UNKEYED
    keys = [step.start() for step in steps_of_source(stage)]
    for piece in _apart(given, source, table, entry):
        for each in proven(given, piece, entry, as_columns=True):
            pieces = read(each, entry, as_columns=True, is_table=given.deletes, is_unkeyed=is_unkeyed)
            for step in keys:
                pieces = step.process(pieces, entry)
            yield from pieces


def _apart(given: Input, source: TopicPartition, table: pa.Table, entry: Entry) -> Iterator[Piece]:
    """Of each part of the records its tombstones, wherever they lie among the rows, and then its rows.

    Each in one piece: their offsets say how they lie, and a piece for each run of them would cost as much as a fetch.
    """
    for part in cut_in_rows(table):
        piece = readable(piece_of(given, 0, part, source), part, entry)
        if not given.deletes or piece.raw is None or not piece.raw.null_count:
            yield piece
            continue
        is_null = np.asarray(piece.raw.is_null())
        yield from (piece.take(places) for places in map(np.flatnonzero, (is_null, ~is_null)) if len(places))


def steps_of_source(stage: Stage) -> tuple[Any, ...]:
    """Those in front of Spark's that the source itself does."""
    return tuple(takewhile(_is_key, stage.steps))


def _is_key(step: Any) -> bool:
    return isinstance(step, KeyBy)


def as_spark_sees(stage: Stage, piece: Piece) -> pa.Table:
    """The rows of a piece that was decoded."""
    return _with_own_columns(piece, _own_columns(stage))


def _with_own_columns(piece: Piece, names: Iterable[str]) -> pa.Table:
    table = _table_of(piece)
    for name in names:
        table = table.append_column(name, _own_column(piece, name))
    return table


def _own_column(piece: Piece, name: str) -> pa.Array:
    keys = pa.nulls(len(piece), pa.binary()) if piece.keys is None else piece.keys
    if name == KEY_COLUMN:
        return keys
    if name == OFFSET_COLUMN:
        assert piece.origin is not None, "a step gives rows of those that it was given"
        return pa.array(piece.origin.offsets)
    return pa.StructArray.from_arrays([keys, piece.timestamps, piece.headers], fields=list(_RECORD_TYPE))


def tombstones_of(stage: Stage, piece: Piece, entry: Entry) -> pa.RecordBatch:
    """Those of a piece as records of the stage's output, with their offsets; what has no key is in ``entry``."""
    piece, batch = output_batch(stage, with_output_key(stage, piece, entry), entry)
    assert piece.origin is not None, "they were read"
    return batch.append_column(OFFSET_COLUMN, pa.array(piece.origin.offsets))


def frame_of(stage: Stage, frame: Any) -> Any:
    """The stage's steps over Spark's frame. ``FlowError``: Spark cannot make sense of one, with what it says."""
    is_raw = stage.inputs[0].schema is None
    for specs in _together(stage.steps[len(steps_of_source(stage)) :]):
        try:
            if is_frame_step(specs[0]):
                frame = _behind(specs[0], frame)
            else:
                frame = _in_python(specs, frame, None if is_raw else _schema_of(frame), stage.site)
        except FlowError:
            raise
        except Exception as error:
            raise FlowError(
                specs[0].name, stage.site, f"Spark cannot run it: {_in_short(error)}", _NOTHING
            ) from error
        is_raw = False  # Spark's steps look at columns, which a step of Python's has made by then
    if stage.output.schema is not None:
        _check_columns(stage, frame)
    return frame


def refuse_read_twice(stage: Stage, spark: Any) -> None:
    """``FlowError`` where Spark would read a range in several tasks: no sink writes what they make of it.

    That is found by then, too, and rows are stored that no run could decide any more.
    """
    made_by = [step.name for step in stage.steps if isinstance(step, Apply)]
    if not made_by:
        return
    reads = spark.sparkContext.accumulator(0)

    def no_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reads.add(1)
        return iter(())

    # Spark does not know that they are none: else it would leave out what makes nothing of nothing.
    once = spark.range(0, 1, 1, 1).mapInArrow(no_rows, columns_read(stage))
    with suppress(Exception):  # what else is wrong with it stops the flow in its own words
        frame_of(stage, once).write.format("noop").mode("overwrite").save()
    if reads.value > 1:
        why = f"it has Spark read its rows {reads.value} times, as a union with themselves does"
        advice = f"{_NOTHING}. Let each row take all ways in one go, as with explode() or flat_map()"
        raise FlowError(" and ".join(made_by), stage.site, why, advice)


def _together(steps: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Each of Spark's alone, and Python's that follow on each other: their rows do not go through Spark in between."""
    for is_sparks, group in groupby(steps, is_frame_step):
        specs = tuple(group)
        yield from zip(specs) if is_sparks else (specs,)


def _behind(spec: FrameStep, frame: Any) -> Any:
    if isinstance(spec, Where):
        return frame.where(spec.condition)
    if isinstance(spec, Select):
        kept = [f"`{name}`" for name in _OWN_COLUMNS if name in frame.columns]
        return frame.selectExpr(*spec.columns, *kept)
    with by_value([spec.function]):
        return spec.function(frame.drop(*_OWN_COLUMNS))


def _in_short(error: Exception) -> str:
    """Spark tells the plan behind the first line."""
    text = str(error).strip().split(" SQLSTATE:")[0].split("\n")[0].rstrip(".; ")
    return text if text.startswith("[") else f"{type(error).__name__}: {text}"


def _in_python(specs: tuple[Any, ...], frame: Any, given: Schema | None, site: str) -> Any:
    """Steps of Python's among Spark's: the same as elsewhere, on Arrow batches. ``given``: ``None`` of raw values."""
    made = given
    for spec in specs:
        made = spec.output_schema(made)
    columns = f"{VALUE_COLUMN} binary" if made is None else made.ddl
    own = tuple(name for name in _OWN_COLUMNS if name in frame.columns)
    sent = shipped(specs, specs, site)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        steps = Chain(sent.value).start()
        for batch in batches:
            entry = Entry()
            for piece in steps.process([_seen_by_spark(pa.Table.from_batches([batch]), given)], entry):
                yield from _with_own_columns(piece, own).to_batches()
            assert not entry.side, "a key, which some rows have not, is made before Spark sees them"

    return frame.mapInArrow(run, f"{columns}, {_own_ddl(own)}" if own else columns)


def _seen_by_spark(table: pa.Table, schema: Schema | None, source: TopicPartition = _NOWHERE) -> Piece:
    """Spark's rows, which came of ``source``; without a schema the values are as they were read, or are written."""
    keys, offsets, records = (
        table.column(name).combine_chunks() if name in table.column_names else None for name in _OWN_COLUMNS
    )
    keys = None if keys is None else keys.cast(pa.binary())  # a session may have large ones
    piece = Piece(
        keys,
        schema,
        origin=None if offsets is None else Origin(source.topic, source.partition, np.asarray(offsets)),
    )
    if records is not None:
        _, piece.timestamps, piece.headers = records.cast(_RECORD_TYPE).flatten()
    if schema is None:
        piece.raw = table.column(VALUE_COLUMN).combine_chunks()
    else:
        piece.table = table.select(schema.names).cast(schema.arrow)
    return piece


def _table_of(piece: Piece) -> pa.Table:
    """Its columns; of rows of no declared type, and of a source's that has none, the values alone."""
    return pa.table({VALUE_COLUMN: piece.values()}) if piece.schema is None else piece.as_table()


def _schema_of(frame: Any) -> Schema:
    from semel.core.flow.schema import parse_schema

    return parse_schema(", ".join(f"`{name}` {type_}" for name, type_ in _columns_of(frame)))


def _columns_of(frame: Any) -> list[tuple[str, str]]:
    """Names and Spark's words for their types."""
    own = [field for field in frame.schema.fields if field.name not in _OWN_COLUMNS]
    return [(field.name, field.dataType.simpleString()) for field in own]


def _check_columns(stage: Stage, frame: Any) -> None:
    declared = stage.output.schema
    assert declared is not None
    found = _columns_of(frame)
    if found != [(field.name, field.kind.value) for field in declared]:
        told = ", ".join(f"{name} {type_}" for name, type_ in found)
        raise ConfigError(
            f"stage {stage.name!r} of flow {stage.flow!r} was planned to give the columns {declared.ddl}, and Spark "
            f"finds {told}. Nothing was written. Declare what the step gives, or have it give what is declared"
        )


def encoded(
    stage: Stage,
    source_range: SourceRange,
    batches: Iterator[pa.RecordBatch],
    task: TaskIdentity,
) -> Iterator[pa.RecordBatch]:
    """In the task of the sink: Spark's rows as records, and behind them what was laid aside."""
    between = Between()
    gone = LaidAside(task, _TOMBSTONES_ASIDE)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        between.add(_tables(gone))
        with failing_as_a_step(stage, f"a row of {source_range.source}"):
            made = list(records_of(stage, table, source_range.source, between))
        yield from made
    yield from between.rest(_tables(gone))
    yield from recut(_tables(LaidAside(task, _BAD_ASIDE)))


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
        return _one_batch(both.take(pa.array(order)).drop_columns(OFFSET_COLUMN))

    def rest(self, more: Iterable[pa.Table] = ()) -> Iterator[pa.RecordBatch]:
        """Those behind all rows, and then ``more`` of them."""
        waiting, self._waiting = self._waiting, []
        return recut(table.drop_columns(OFFSET_COLUMN) for table in chain(waiting, more))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch


def records_of(
    stage: Stage, table: pa.Table, source: TopicPartition, between: Between
) -> Iterator[pa.RecordBatch]:
    """What the sink is handed of Spark's rows, which came of ``source``, and of the tombstones between them."""
    entry = Entry()
    seen = _seen_by_spark(table, stage.output.schema, source)
    piece = with_output_key(stage, seen, entry)
    if len(piece):
        piece, batch = output_batch(stage, piece, entry)
    if len(piece):
        yield between.among(batch, piece.origin)
    yield from side_batches(stage, entry, 0, BAD_BEHIND_STEPS)


def trying_records(stage: Stage, frame: Any) -> Any:
    """The frame's rows as records that go nowhere: fails at what :func:`encoded` would fail at."""
    sent = shipped(replace(stage, steps=()))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in records_of(sent.value, pa.Table.from_batches([batch]), _NOWHERE, Between()):
                pass
        yield from ()

    return frame.mapInArrow(run, f"{VALUE_COLUMN} binary")


def _tables(laid: LaidAside) -> Iterator[pa.Table]:
    for piece in laid.more():
        yield pa.ipc.open_stream(pa.BufferReader(piece)).read_all()


def recut(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that end where the rows say, few in memory at a time.

    They were laid aside as fetches came, which are others at another attempt; and the log takes a batch of rows that it
    has for what it is only where it ends at one that it knows.
    """
    for whole in cut_at_offsets(_numbered(tables)):
        yield _one_batch(whole.drop_columns(_NUMBER))


def _numbered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    begun = 0
    for table in tables:
        end = begun + table.num_rows
        yield table.append_column(_NUMBER, pa.array(np.arange(begun, end)))
        begun = end


def _lay_aside(batch: pa.RecordBatch, kind: str) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    lay_aside(sink.getvalue().to_pybytes(), kind)
