"""What a row of a table has to hold of its record: the columns that ``semel land`` would have given it.

A record is made into columns as land does it: by its reader of values, and by its rules for what does not fit. Then
both sides' columns are compared by one text for each row. Which columns can be compared depends on the table: the
others are named, with the reason.

A table may have got a column later than its first rows. In files that were written before, the column is not there;
once such files are compacted, their rows have nulls in it, as rows would have that lost what they had. The first is
known and told. The second cannot be known, so it is counted and keeps the whole from being proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.audit.columns import lengths_of
from semel.core.flow.codec import decode_table
from semel.core.flow.schema import Field, Kind, Schema
from semel.core.land.columns import DAY, ERROR, HEADERS, OFFSET, TOPIC, VALUE, landed_rows
from semel.core.land.fitting import fitting
from semel.errors import ConfigError
from semel.record.columnar import HEADERS_TYPE
from semel.wording import counted

PARTITION: Final = "_partition"
KEY: Final = "_key"
TIMESTAMP: Final = "_timestamp"
PLACE: Final = (TOPIC, PARTITION, OFFSET)
_OF_RECORD: Final = {
    KEY: pa.binary(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    VALUE: pa.binary(),
    ERROR: pa.string(),
    HEADERS: HEADERS_TYPE,
    DAY: pa.date32(),
}
_SHOWN_CHARS_MAX: Final = 80
_SHOWN_COLUMNS_MAX: Final = 3
_NULL: Final = b"~"

Bad = Sequence[tuple[int, str]]


class ValueReader(Protocol):
    """A reader of values, as land has it."""

    @property
    def schema(self) -> pa.Schema | None: ...
    def read(self, values: pa.ChunkedArray) -> tuple[pa.Table | None, Bad]: ...


@dataclass(frozen=True)
class JsonReader:
    """JSON by the reader that flows and land have."""

    columns: Schema

    @property
    def schema(self) -> pa.Schema:
        return self.columns.arrow

    def read(self, values: pa.ChunkedArray) -> tuple[pa.Table, Bad]:
        return decode_table(self.columns, values)

    def without(self, names: frozenset[str]) -> JsonReader | None:
        """The reader of a table that did not have these columns yet; ``None``: it had no other."""
        left = tuple(each for each in self.columns if each.name not in names)
        return JsonReader(Schema(left)) if left else None


@dataclass(frozen=True, slots=True)
class Growth:
    """Where a table's columns begin, by column and the topic's partition."""

    lacking: Mapping[str, Mapping[int, int]] = field(
        default_factory=dict
    )  # last offset in files without the column
    first: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # first offset that is not null
    has_good_rows: bool = True  # without an error


@dataclass(slots=True)
class Contents:
    """The columns that are compared, and how they are made of a record; counts what cannot be judged."""

    columns: pa.Schema  # under their names in the table
    reader: ValueReader | None = None  # None: values are as they came
    raw: str = VALUE  # where the bytes of the value are
    partition_by: str | None = None
    growth: Growth = field(default_factory=Growth)
    not_compared: tuple[str, ...] = ()
    is_guess: bool = False  # that values are JSON
    good_values: int = 0
    bad_values: int = 0
    unjudged: dict[str, tuple[int, int, int]] = field(
        default_factory=dict
    )  # count, and partition and offset of one

    @property
    def is_refuted(self) -> bool:
        """No value of the topic is JSON, and the table has rows of them: they were landed from something else."""
        return self.is_guess and self.growth.has_good_rows and bool(self.bad_values) and not self.good_values

    def without_values(self) -> Contents:
        """The same for a table whose values cannot be read."""
        own = own_columns(self.columns)
        why = f"what values hold ({', '.join(own)}): no value of the topic is JSON; say --value avro and --schema FILE"
        left = [each for each in self.columns if each.name not in (*own, VALUE, ERROR)]
        return Contents(pa.schema(left), not_compared=(why, *self.not_compared))

    def of_records(self, partition: int, records: pa.RecordBatch) -> pa.Table:
        """What rows of these records have to hold; they are in the order of their offsets."""
        offsets = np.asarray(records.column("offset"))
        ends = sorted({of.get(partition, -1) for of in self.growth.lacking.values()})
        cuts = [0, *(int(np.searchsorted(offsets, end, "right")) for end in ends), len(offsets)]
        parts = [records.slice(begin, end - begin) for begin, end in pairwise(cuts) if end > begin]
        return pa.concat_tables([self._made(partition, part) for part in parts or [records]])

    def of_rows(self, rows: pa.RecordBatch) -> pa.Table:
        """What rows of the table do hold."""
        columns = [plain(rows.column(each.name)).cast(each.type) for each in self.columns]
        return self._compared(pa.table(columns, schema=self.columns))

    def texts(self, rows: pa.Table) -> pa.Array:
        """One for each row, the same only for the same columns."""
        cells = [_framed(column) for column in rows.columns]
        return pc.binary_join_element_wise(*cells, b"").combine_chunks()

    def _made(self, partition: int, records: pa.RecordBatch) -> pa.Table:
        table = pa.Table.from_batches([records])
        last = records.column("offset")[-1].as_py() if records.num_rows else -1
        lacks = frozenset(name for name, of in self.growth.lacking.items() if last <= of.get(partition, -1))
        reader = self.reader
        if lacks and isinstance(reader, JsonReader):
            reader = reader.without(lacks)
        wanted = [each.with_name(VALUE) if each.name == self.raw else each for each in self.columns]
        kept = pa.schema([each for each in wanted if each.name not in lacks])
        values, bad = (None, ()) if reader is None else reader.read(table.column("value"))
        if values is not None:
            values, bad = fitting(values, bad, self.partition_by)
            self.good_values += table.num_rows - len(bad)
            self.bad_values += len(bad)
        rows = landed_rows(table, values, bad, kept)
        columns = [
            rows.column(each.name) if each.name in kept.names else pa.nulls(len(rows), each.type)
            for each in wanted
        ]
        made = self._compared(pa.table(columns, schema=self.columns))
        return self._judged(partition, table.column("offset"), made, lacks)

    def _judged(
        self, partition: int, offsets: pa.ChunkedArray, made: pa.Table, lacks: frozenset[str]
    ) -> pa.Table:
        """Without the values of columns in which the table has none up to there."""
        for name, of in self.growth.first.items():
            if name in lacks or name not in made.column_names:
                continue
            column = made.column(name)
            begins = of.get(partition)
            is_before = (
                pa.chunked_array([pa.repeat(True, len(made))]) if begins is None else pc.less(offsets, begins)
            )
            is_odd = pc.and_(is_before, pc.is_valid(column))
            count = pc.sum(is_odd).as_py()
            if not count:
                continue
            at = offsets.filter(is_odd)[0].as_py()
            before, *place = self.unjudged.get(name, (0, partition, at))
            self.unjudged[name] = (before + count, *place)
            column = pc.if_else(is_odd, pa.scalar(None, column.type), column)
            made = made.set_column(made.schema.get_field_index(name), made.schema.field(name), column)
        return made

    def _compared(self, rows: pa.Table) -> pa.Table:
        """Of an error only whether there is one, for its text may change; an empty text parts rows as null does."""
        if ERROR in rows.column_names:
            at = rows.schema.get_field_index(ERROR)
            rows = rows.set_column(at, ERROR, pc.is_valid(rows.column(ERROR)))
        by = self.partition_by
        if by in rows.column_names and pa.types.is_string(rows.schema.field(by).type):
            column = rows.column(by)
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            rows = rows.set_column(rows.schema.get_field_index(by), by, column)
        return rows

    def differences(self, source: pa.Table, output: pa.Table) -> str:
        """Which columns of an output row are not those of its input row."""
        found = [
            f"column {name!r} is {_cell(output, name)}, where the input has {_cell(source, name)}"
            for name in source.column_names
            if _framed(source.column(name)) != _framed(output.column(name))
        ]
        more = f"; {counted(len(found) - _SHOWN_COLUMNS_MAX, 'column')} more" * (
            len(found) > _SHOWN_COLUMNS_MAX
        )
        return "; ".join(found[:_SHOWN_COLUMNS_MAX]) + more

    def unprovable(self, topic: str, table: str) -> str | None:
        """What is neither right nor wrong of columns that the table may have got later."""
        if not self.unjudged:
            return None
        name, (count, partition, offset) = next(iter(self.unjudged.items()))
        others = ", ".join(map(repr, list(self.unjudged)[1:]))
        more = f", and so are others ({others})" if others else ""
        return (
            f"column {name!r} of {table} is null for {counted(count, 'row')} whose record has a value for it (as "
            f"{topic}-{partition}@{offset}), before the first row that has it{more}: the table got it later, or has "
            "lost what it had; --columns names those to compare"
        )

    def grown(self, table: str) -> list[str]:
        """The columns that some files of the table have not."""
        return [
            f"column {name!r} in files of {table} that were written before the table had it"
            for name in sorted(self.growth.lacking)
        ]


def of_two_tables(one: pa.Schema, other: pa.Schema, chosen: tuple[str, ...] | None) -> Contents:
    """The columns that two tables share."""
    shared, gaps = [], []
    for name in dict.fromkeys([*one.names, *other.names]):
        if name in PLACE or (chosen is not None and name not in chosen):
            continue
        if name not in one.names or name not in other.names:
            gaps.append(f"column {name!r}, which one of the tables has alone")
        elif _type(one.field(name).type) != _type(other.field(name).type):
            gaps.append(f"column {name!r}, which is {one.field(name).type} and {other.field(name).type}")
        else:
            shared.append(pa.field(name, _type(one.field(name).type)))
    return Contents(pa.schema(shared), not_compared=tuple(gaps))


def own_columns(schema: pa.Schema) -> list[str]:
    """Those of the value: what is the record's begins with an underscore."""
    return [
        each.name
        for each in schema
        if each.name not in (*PLACE, *_OF_RECORD) or (each.name == HEADERS and each.type != HEADERS_TYPE)
    ]


@dataclass(frozen=True, slots=True)
class TableShape:
    """What has to be known of a table to say what can be compared."""

    schema: pa.Schema
    raw: str | None  # the column with the bytes of each value, where they were landed as they are
    partition_by: str | None
    guessed: frozenset[str] = frozenset()  # columns of folders' names, whose types are a guess


def of_table(shape: TableShape, reader: ValueReader | None, chosen: tuple[str, ...] | None) -> Contents:
    """What can be compared of a table with a topic's records. ``chosen``: only these columns."""
    names = shape.schema.names
    if chosen is not None and (unknown := [each for each in chosen if each not in names]):
        raise ConfigError(f"--columns {','.join(unknown)}: the table has {', '.join(names)}")
    own = [] if shape.raw is not None else own_columns(shape.schema)
    gaps: list[str] = []
    is_guess = reader is None and shape.raw is None and (ERROR in names or bool(set(chosen or ()) & set(own)))
    if is_guess:
        reader, why = _json_of(shape, own)
        if reader is None:
            gaps.append(f"what values hold ({', '.join(own)}): {why}")
    elif reader is None and own:
        gaps.append(
            f"what values hold ({', '.join(own)}): nothing says how the columns were made of them; --value json reads "
            "them as semel land does"
        )
    is_landed = {*PLACE, TIMESTAMP, KEY, VALUE} <= set(names)
    compared: list[pa.Field] = []
    for name in names:
        if name in PLACE:
            continue
        expected = _expected(name, shape, reader, is_landed=is_landed)
        there = _type(shape.schema.field(name).type)
        if chosen is not None and name not in chosen:
            gaps.append(f"column {name!r}, which --columns leaves out")
        elif expected is None and name not in own:
            gaps.append(f"column {name!r}, which semel land has not filled")
        elif expected is None and reader is not None:
            gaps.append(f"column {name!r}, which the schema of the values has not")
        elif expected is not None and expected != there:
            gaps.append(f"column {name!r}: it is {there}, and of a record it is {expected}")
        elif expected is not None:
            compared.append(pa.field(name, expected))
    if reader is not None and shape.raw is None:
        gaps.append("fields of the values that the table has no column for")
    if shape.raw is not None and HEADERS not in names:
        gaps.append("headers, which the table has no column for")
    return Contents(
        pa.schema(compared),
        None if shape.raw is not None else reader,
        shape.raw or VALUE,
        shape.partition_by,
        not_compared=tuple(gaps),
        is_guess=is_guess and reader is not None,
    )


def json_reader(shape: TableShape) -> JsonReader:
    """The reader of JSON that makes the columns of the table; :class:`ConfigError` where none can."""
    reader, why = _json_of(shape, own_columns(shape.schema))
    if reader is None:
        raise ConfigError(f"--value json: the columns of the table are no JSON's: {why}")
    return reader


def _expected(
    name: str, shape: TableShape, reader: ValueReader | None, *, is_landed: bool
) -> pa.DataType | None:
    """The type that a record's column has; ``None``: it has none of this name."""
    if name == shape.raw:
        return pa.binary()
    if name in (VALUE, ERROR):
        return None if reader is None or shape.raw is not None else _OF_RECORD[name]
    if name == KEY or (is_landed and name in _OF_RECORD):
        return _OF_RECORD[name]
    schema = None if reader is None else reader.schema
    return schema.field(name).type if schema is not None and name in schema.names else None


def _json_of(shape: TableShape, own: list[str]) -> tuple[JsonReader | None, str]:
    """The reader of JSON that makes the columns of the table, or why there is none."""
    kinds = {kind.arrow: kind for kind in Kind}
    fields = []
    for name in own:
        found = _type(shape.schema.field(name).type)
        if name in shape.guessed:
            return None, f"{name!r} is in the names of folders alone, and its type is a guess"
        if found not in kinds:
            return None, f"{name!r} is {found}, which no JSON is read as; say --value avro and --schema FILE"
        fields.append(Field(name, kinds[found]))
    try:
        return JsonReader(Schema(tuple(fields))), ""
    except ConfigError as error:
        return None, str(error)


def _type(found: pa.DataType) -> pa.DataType:
    """One of the types that say the same."""
    if pa.types.is_dictionary(found):
        return _type(found.value_type)
    if pa.types.is_large_string(found) or pa.types.is_string_view(found):
        return pa.string()
    if pa.types.is_large_binary(found) or pa.types.is_binary_view(found):
        return pa.binary()
    if pa.types.is_timestamp(found) and found.tz is not None:
        return pa.timestamp(found.unit, "UTC")
    return found


def plain(column: Any) -> Any:
    """The column without a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _framed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each cell behind its length, so that cells in a row are read in one way only; null has none."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_decimal(kind) or pa.types.is_time(kind):
        cells = pa.array([None if x is None else repr(x).encode() for x in column.to_pylist()], pa.binary())
        column = pa.chunked_array([cells])
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.string()).cast(pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(lengths_of(column), column, b":"), _NULL)


def _cell(row: pa.Table, name: str) -> str:
    if name == ERROR:
        return "set" if row.column(name)[0].as_py() else "null"  # only that is compared
    try:
        value = row.column(name)[0].as_py()
    except (ValueError, OverflowError):  # a time that Python has none for
        value = row.column(name)[0].cast(pa.int64()).as_py()
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"
