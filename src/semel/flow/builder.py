"""The verbs of the language: each takes a value and gives a new one, and is judged where it is written.

Nothing here reads, writes or starts anything. A value may be used any number of times: steps that are equal, with all
that is in front of them, are one stage of the flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload

from semel.core.flow.fold_table import FoldTable
from semel.core.flow.folds import Fold
from semel.core.flow.functions import takes_tables
from semel.core.flow.lineage import Dedupe
from semel.core.flow.ready import Count, Last, Max, Min, Sum
from semel.core.flow.schema import Schema
from semel.core.flow.steps import Filter, FlatMap, Map
from semel.errors import ConfigError
from semel.flow import checks, nodes
from semel.flow.branching import branch_steps
from semel.flow.calls import Call
from semel.flow.frame_steps import Apply, Select, Where
from semel.flow.functions import folded_rows_schema, returned_rows_schema, returned_schema, version_of
from semel.flow.nodes import Columns
from semel.flow.tree import Form, MergeNode, NamedNode, Node, OutputNode, RowShape, SourceNode, TableNode
from semel.flow.value import Flow
from semel.flow.window_shape import WindowShape
from semel.flow.windowed import Windowed, windowed

Duration = str | timedelta  # "10 minutes"

S = TypeVar("S", bound="Stream")


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows on their way, in the order of each partition of their topic. Every verb gives a new value."""

    node: Node

    @property
    def schema(self) -> Schema | None:
        """The columns, where they are known."""
        return self.node.shape.schema

    # --- Spark's expressions and DataFrames ---------------------------------------------------------------

    def where(self: S, condition: str) -> S:
        """The rows for which a condition in Spark's SQL is true, as they came; null is not true.

        Of a source with ``record=True`` it sees the record, too: ``_record.key``, ``_record.timestamp`` and
        ``_record.headers``, as the columns of Spark's Kafka source are.
        """
        call = Call.here("where", condition)
        checks.refuse_no_text(call, condition, "a condition", "Functions of Python go to filter()")
        checks.refuse_misspelled(
            call, condition, call.schema_of(self.node.shape, "a condition"), self.node.shape
        )
        return type(self)(nodes.stateless(self.node, call, (Where(condition.strip()),), self.node.shape))

    def select(self: S, *columns: str, schema: Columns | None = None) -> S:
        """Columns, or expressions of Spark's SQL: ``"user"``, ``"length(url) AS n"``; the key stays.

        Without ``schema`` all of them have to be columns, under their own name or another (``"url AS page"``); with it,
        it says the name and the type of each, in their order.
        """
        call = Call.here("select", *columns, schema=schema)
        known = call.schema_of(self.node.shape, "a selection")
        if not columns:
            raise call.refuse("nothing is selected", 'Name the columns, as in select("user", "url")')
        for column in columns:
            checks.refuse_no_text(
                call, column, "a column or an expression", "Functions of Python go to map()"
            )
            checks.refuse_misspelled(call, column, known, self.node.shape)
        made, kept = checks.selected(call, known, columns, schema)
        shape = self.node.shape
        holds_key = shape.is_key_in_columns and all(field.name in kept for field in shape.key or ())
        shape = replace(shape, schema=made, is_key_in_columns=holds_key)
        return type(self)(nodes.stateless(self.node, call, (Select(columns, made),), shape))

    def apply(self, function: Callable[[Any], Any], *, schema: Columns | None = None) -> Stream:
        """A function from DataFrame to DataFrame that does not shuffle; the rows that it makes have no key.

        ``schema`` says the columns that it makes; without it they are those that it is given. A shuffle, and a
        union of the rows with themselves, are refused when the flow starts, and nothing is written.
        """
        call = Call.here("apply", function, schema=schema)
        call.function(function, "a DataFrame", 1)
        known = call.schema_of(self.node.shape, "a DataFrame")
        made = known if schema is None else call.declared(schema, "the columns that it makes")
        name = str(getattr(function, "__name__", type(function).__name__))
        shape = RowShape(Form.COLUMNS, made, has_record_key=False)
        return Stream(
            nodes.stateless(self.node, call, (Apply(function, name, version_of(function), made),), shape)
        )

    # --- Python -------------------------------------------------------------------------------------------

    def map(self: S, function: Callable[..., Any], *, schema: Columns | None = None) -> S:
        """One row for each row; the key stays.

        The function gets a row with its columns as attributes (or a record's value as bytes, where the source has no
        columns) and returns a dict, a dataclass or a Struct. Its columns are said by ``schema``, or by the annotation
        of what it returns. A function of two parameters gets the row's :class:`~semel.flow.Record`, too: its key, time
        and headers, where the source has ``record=True``. One whose parameter is a ``pyarrow.Table`` gets many rows and
        returns as many.
        """
        call = Call.here("map", function, schema=schema)
        takes_record = call.row_function(function, self.node.shape)
        declared = nodes.declared(call, schema) or returned_schema(function)
        return type(self)(
            nodes.made(
                self.node,
                call,
                Map.of(function, declared, version=version_of(function), takes_record=takes_record),
            )
        )

    def filter(self: S, function: Callable[..., Any]) -> S:
        """The rows for which the function, of a row, or of a row and its record (:meth:`map`), is true, as they came.

        Their key and their bytes stay; time and headers do where the source has ``record=True``.
        """
        call = Call.here("filter", function)
        takes_record = call.row_function(function, self.node.shape)
        spec = Filter.of(function, version=version_of(function), takes_record=takes_record)
        if spec.is_columnar:
            call.schema_of(self.node.shape, "a function of Arrow tables")
        return type(self)(nodes.stateless(self.node, call, (spec,), self.node.shape))

    def flat_map(self: S, function: Callable[..., Any], *, schema: Columns | None = None) -> S:
        """Any number of rows for each row: a list, a tuple, an iterator, one row, or ``None``; the key stays.

        The columns of each are said by ``schema``, or by an annotation: ``-> list[Word]``, ``-> Iterator[Word]``. The
        function is of a row, or of a row and its record, as in :meth:`map`.
        """
        call = Call.here("flat_map", function, schema=schema)
        takes_record = call.row_function(function, self.node.shape)
        declared = nodes.declared(call, schema) or returned_rows_schema(function)
        return type(self)(
            nodes.made(
                self.node,
                call,
                FlatMap.of(function, declared, version=version_of(function), takes_record=takes_record),
            )
        )

    # --- keys, names, outputs -------------------------------------------------------------------------------

    def key_by(self, *columns: str, partitions: int | None = None) -> Keyed:
        """Rows whose ``columns`` are equal come to lie in one partition, in the order of each of their writers.

        They go through a topic of the flow's own, with ``partitions`` partitions. It is left out where the rows are
        keyed by these columns already and ``partitions`` is not given. A null among the columns makes a bad record.
        """
        call = Call.here("key_by", *columns, partitions=partitions)
        return Keyed(nodes.key_by(self.node, call, columns, partitions))

    def named(self: S, name: str) -> S:
        """The stages made of the steps behind this one are named after ``name``: their sink ids and their topics."""
        call = Call.here("named", name)
        why = checks.name_error(name)
        if why is not None:
            raise call.refuse(why, checks.NAME_ADVICE)
        shape = self.node.shape
        return type(self)(NamedNode(text=call.text, site=call.site, shape=shape, parent=self.node, name=name))

    def to(self, topic: str) -> Flow:
        """Write the rows to a topic as JSON objects, under the key that they have, at the time of writing.

        Rows that carry their record (``source(..., record=True)``) are written with its time and headers.

        The flow is named after the topic (dots become dashes, and then a number follows that tells it from others).
        Name it otherwise with ``.named(...)`` behind this.
        """
        call = Call.here("to", topic)
        checks.refuse_topic(call, topic)
        shape = self.node.shape
        node = OutputNode(text=call.text, site=call.site, shape=shape, parent=self.node, topic=topic)
        return Flow.of_topic(topic, node)

    # --- several streams ------------------------------------------------------------------------------------

    def branch(self: S, *conditions: str | Callable[..., Any]) -> tuple[S, ...]:
        """A stream for each condition, and a last one with the rest; a row goes where the first condition is true.

        Conditions are as in :meth:`where`, or as in :meth:`filter`. Null is not true.
        """
        call = Call.here("branch", *conditions)
        parts = branch_steps(call, self.node.shape, conditions)
        return tuple(
            type(self)(nodes.stateless(self.node, call, steps, self.node.shape, part=number))
            for number, steps in enumerate(parts, start=1)
        )

    def merge(self, *others: Stream) -> Stream:
        """The rows of all these streams. Columns that one lacks are null in its rows.

        Where a stage with state reads them, or where they are written, the order in which they meet is recorded, and
        is the same in every replay. Streams with one key stay keyed by it.
        """
        call = Call.here("merge", *others)
        if not others:
            raise call.refuse("there is no other stream", "Hand over the streams to merge with")
        for other in others:
            nodes.refuse_no(call, Stream, other, "Merge streams; a table is joined")
        merged = tuple(stream.node for stream in (self, *others))
        if len({id(node) for node in merged}) < len(merged):
            raise call.refuse(
                "a stream is merged with itself, which would give each row twice",
                "If that is meant, write it as flat_map(lambda row: [row, row])",
            )
        shape = checks.merged_shape(call, [node.shape for node in merged])
        node = MergeNode(text=call.text, site=call.site, shape=shape, merged=merged)
        return Stream(node) if shape.key is None else Keyed(node)

    def as_table(self, *key: str) -> Table:
        """The last row of each key, to be joined.

        Rows that are not keyed by ``key`` go through a topic of the flow's first. A record without a value deletes its
        key's row, through that topic, too. It wants a source that is declared with this ``key=``, and no step in
        between that makes rows or their key anew: else nothing says whose row it is, and it is a bad record.
        """
        call = Call.here("as_table", *key)
        node = nodes.key_by(self.node, call, key, None)
        return Table(TableNode(text=call.text, site=call.site, shape=node.shape, parent=node))

    def join(self, table: Table, how: Literal["inner", "left"] = "inner", *, repair: bool = False) -> Keyed:
        """Each row with the table's row of its key, as of the recorded order: their columns together.

        Rows that are keyed otherwise are keyed by the table's key first. ``how="left"`` keeps a row for whose key the
        table has none. A change of the table emits nothing, unless ``repair``: then rows that met no row, or an older
        one, are emitted once more as they are with the new one.
        """
        call = Call.here("join", table, how=None if how == "inner" else how, repair=repair)
        advice = 'A table is the last row of each key: other.as_table("column"). Rows of two streams: merge()'
        nodes.refuse_no(call, Table, table, advice)
        checks.choice(call, "how", how, ("inner", "left"))
        return Keyed(nodes.join(self.node, call, table.node, how, repair))

    # --- steps with state -----------------------------------------------------------------------------------

    def fold(
        self,
        function: Callable[[Any, Any], Any],
        init: Any = None,
        *,
        schema: Columns | None = None,
        state: Columns | None = None,
    ) -> Keyed:
        """``function(state, row)`` for each row, in the recorded order, gives ``(state, rows)``.

        Each key has a state of its own, which begins as ``init``; ``None`` deletes it. ``rows`` is a list, an iterator,
        one row or ``None``. The state is what msgspec can write, read back as the type by which the function's first
        parameter is annotated. The columns of ``rows`` are said by ``schema``, or by the annotation of what the
        function returns: ``-> tuple[Visit, list[Row]]``.

        A function whose parameters are ``pyarrow.Table`` is called once for each entry of the merge log, with the
        states of its keys and its rows, and returns both as tables; ``state`` and ``schema`` say their columns. All
        have the record's key in front, as ``_key``.
        """
        call = Call.here("fold", function, init=init, schema=schema, state=state)
        call.function(function, "a state and a row", 2)
        checks.refuse_unkeyed(call, self.node.shape)
        if takes_tables(function):
            return self._fold_tables(call, function, init, schema, state)
        if state is not None:
            raise call.refuse(
                "the state of a fold of rows is whatever its function returns",
                "Leave state= out, and annotate the function's first parameter",
            )
        declared = nodes.declared(call, schema) or folded_rows_schema(function)
        spec = Fold.of(function, init, declared, version=version_of(function))
        checks.refuse_other_beginning(call, spec)
        shape = checks.made_shape(call, self.node.shape, declared, is_columnar=False)
        return Keyed(nodes.stateful(self.node, call, spec, "fold", shape))

    def _fold_tables(
        self,
        call: Call,
        function: Callable[[Any, Any], Any],
        init: Any,
        schema: Columns | None,
        state: Columns | None,
    ) -> Keyed:
        rows = call.schema_of(self.node.shape, "a function of Arrow tables")
        if init is not None:
            raise call.refuse(
                "the state of a fold of tables begins as a table without rows", "Leave init out"
            )
        if schema is None or state is None:
            raise call.refuse(
                f"the columns of {'its rows' if schema is None else 'its state'} are not declared",
                'Say both: schema="name type, ...", state="name type, ..."',
            )
        made = call.declared(schema, "the columns of its rows")
        held = call.declared(state, "the columns of its state")
        try:
            spec = FoldTable.of(function, rows, held, made, version=version_of(function))
        except ConfigError as error:
            raise call.refuse(str(error), "Name the column otherwise") from None
        shape = checks.made_shape(call, self.node.shape, made, is_columnar=True)
        return Keyed(nodes.stateful(self.node, call, spec, "fold", shape))

    def count(self, column: str = "count") -> Keyed:
        """How many rows of the key there were: its columns and ``column`` (bigint), once an entry of the merge log."""
        call = Call.here("count", *([column] if column != "count" else []))
        key = checks.refuse_unkeyed(call, self.node.shape)
        return self._total(call, Count(key, column=column), "count")

    def sum(self, of: str, column: str = "") -> Keyed:
        """The sum of a column of numbers, as bigint or double, named ``sum_<of>`` where ``column`` does not say it."""
        call = Call.here("sum", of, *([column] if column else []))
        key = checks.refuse_unkeyed(call, self.node.shape)
        checks.number_column(call, call.schema_of(self.node.shape, "a sum"), of)
        return self._total(call, Sum(key, of=of, column=column), f"sum-{of}")

    def min(self, of: str, column: str = "") -> Keyed:
        """The least value of a column, named ``min_<of>`` where ``column`` does not say it."""
        call = Call.here("min", of, *([column] if column else []))
        key = checks.refuse_unkeyed(call, self.node.shape)
        call.field_of(call.schema_of(self.node.shape, "a least value"), of)
        return self._total(call, Min(key, of=of, column=column), f"min-{of}")

    def max(self, of: str, column: str = "") -> Keyed:
        """The greatest value of a column, named ``max_<of>`` where ``column`` does not say it."""
        call = Call.here("max", of, *([column] if column else []))
        key = checks.refuse_unkeyed(call, self.node.shape)
        call.field_of(call.schema_of(self.node.shape, "a greatest value"), of)
        return self._total(call, Max(key, of=of, column=column), f"max-{of}")

    def last(self) -> Keyed:
        """The last row of the key: one row for each key of an entry of the merge log."""
        call = Call.here("last")
        key = checks.refuse_unkeyed(call, self.node.shape)
        call.schema_of(self.node.shape, "a last row")
        return self._total(call, Last(key), "last")

    # --- windows ------------------------------------------------------------------------------------------

    def tumbling(
        self, length: Duration, *, on: str, lateness: Duration = "0 s", idle: Duration | None = None
    ) -> Windowed[Keyed]:
        """Windows of ``length`` (``"10 minutes"``), one behind another, over the timestamp ``on``: ``.count()``, …

        A row at the border of two windows is of the later one: a window has its beginning, and not its end. A window is
        told once, when the rows' own time has come to its end and ``lateness`` behind that. A row that
        comes later goes to the flow's topic for late rows.

        Without rows that time stands still, and windows stay open. With ``idle`` it goes on where a partition has had
        no row for so long, and nothing was on its way there: by as much time as went by, which is recorded. Nothing is
        recorded any more once all windows are closed.
        """
        call = Call.here(
            "tumbling", length, on=on, lateness=None if lateness == "0 s" else lateness, idle=idle
        )
        length_ms = checks.duration_ms(call, length, "the length")
        lateness_ms, idle_ms = checks.lateness_ms(call, lateness), checks.idle_ms(call, idle)
        return windowed(
            self.node, call, WindowShape(on, lateness_ms, length_ms=length_ms, idle_ms=idle_ms), Keyed
        )

    def sessions(
        self, *, gap: Duration, on: str, lateness: Duration = "0 s", idle: Duration | None = None
    ) -> Windowed[Keyed]:
        """Windows that last as long as rows of their key come, by the timestamp ``on``, and end ``gap`` after the last.

        A row exactly ``gap`` after the last one is of the same session, as in Spark, Kafka Streams and Flink, as long
        as the session is open: it is closed once the rows' own time has come to its end. Otherwise as :meth:`tumbling`.
        """
        call = Call.here(
            "sessions", gap=gap, on=on, lateness=None if lateness == "0 s" else lateness, idle=idle
        )
        gap_ms = checks.duration_ms(call, gap, "the gap")
        lateness_ms, idle_ms = checks.lateness_ms(call, lateness), checks.idle_ms(call, idle)
        return windowed(self.node, call, WindowShape(on, lateness_ms, gap_ms=gap_ms, idle_ms=idle_ms), Keyed)

    def _total(self, call: Call, spec: Any, label: str) -> Keyed:
        try:
            schema = spec.output_schema(self.node.shape.schema)
        except (ConfigError, ValueError) as error:
            raise call.refuse(str(error), "Name the new column otherwise") from None
        shape = replace(self.node.shape, form=Form.COLUMNS, schema=schema, is_key_in_columns=True)
        return Keyed(nodes.stateful(self.node, call, spec, label, shape))


@dataclass(frozen=True, eq=False)
class Keyed(Stream):
    """Rows of which all with one key are in one partition: what steps with state ask for."""


@dataclass(frozen=True, eq=False)
class Table:
    """The last row of each key. It is joined, and nothing else."""

    node: TableNode

    @property
    def schema(self) -> Schema | None:
        """The columns, where they are known."""
        return self.node.shape.schema

    if not TYPE_CHECKING:  # to a type checker a table has these verbs not at all

        def __getattr__(self, verb: str) -> NoReturn:
            if verb.startswith("_") or not hasattr(Stream, verb):
                raise AttributeError(f"a Table has no attribute {verb!r}")
            raise Call.here(verb, "...").refuse(
                "a table is joined, and has no other steps", f"Put .{verb}(...) in front of .as_table(...)"
            )


@overload
def source(
    topic: str,
    json: Columns | None = None,
    *,
    key: None = None,
    dedupe: Literal["lineage"] | None = None,
    copied: bool = False,
    record: bool = False,
) -> Stream: ...


@overload
def source(
    topic: str,
    json: Columns | None = None,
    *,
    key: str | tuple[str, ...],
    dedupe: Literal["lineage"] | None = None,
    copied: bool = False,
    record: bool = False,
) -> Keyed: ...


def source(
    topic: str,
    json: Columns | None = None,
    *,
    key: str | tuple[str, ...] | None = None,
    dedupe: Literal["lineage"] | None = None,
    copied: bool = False,
    record: bool = False,
) -> Stream:
    """A topic that others write.

    ``json`` says the columns of its values, JSON objects: ``"user string, at timestamp"``, or a class with annotations.
    What a value has beyond them is not read, and what it lacks is null; a value that does not fit is a bad record.
    Without ``json`` rows are the values' bytes.

    ``key`` says that the record's key is that of these columns: no topic is needed to key the rows by them. The first
    row that it does not hold for, or that does not lie in its key's partition, stops the flow.

    ``dedupe="lineage"``: its writers may have doubled rows, and put the position of the row that each came of in a
    header. Each is taken once, where every writer is idempotent or has one request in flight. A row without the header
    is a bad record.

    ``copied`` reads a compacted topic through a copy, for what compaction takes away is missing in a replay.

    ``record=True``: rows carry the time and the headers of their record. Steps that look at one row at a time see
    both, and the key (:meth:`Stream.map`, :meth:`Stream.where`), and their rows are written with both, also behind
    ``key_by``; those of a step with state, and of ``apply``, are not. Without it rows are written with the time of
    writing and no headers, also those that a step only passes on.
    """
    call = Call.here("source", topic, json=json, key=key, dedupe=dedupe, copied=copied, record=record)
    checks.refuse_topic(call, topic)
    schema = nodes.declared(call, json, what="the columns")
    shape = RowShape(Form.RAW if schema is None else Form.COLUMNS, schema, has_record=record)
    if key is not None:
        names = (key,) if isinstance(key, str) else tuple(key)
        fields = call.fields_of(shape, names, "a key")
        shape = replace(shape, key=fields, is_key_in_columns=True)
    if dedupe is not None:
        checks.choice(call, "dedupe", dedupe, ("lineage",))
    if dedupe is not None and copied:
        raise call.refuse(
            "rows that compaction has taken away cannot be told from rows that were doubled",
            "Leave copied= out, and dedupe a topic that is not compacted",
        )
    checks.refuse_record_column(call, shape)
    node: Node = SourceNode(
        text=call.text,
        site=call.site,
        shape=shape,
        topic=topic,
        is_copied=copied,
        is_doubled=dedupe is not None,
    )
    if dedupe is not None:
        node = nodes.stateful(node, call, Dedupe(), "once", shape)
    return Stream(node) if shape.key is None else Keyed(node)
