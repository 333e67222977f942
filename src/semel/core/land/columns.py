"""The columns of a landed table: those of the value, then those of the record, which begin with an underscore.

``_topic``, ``_partition``, ``_offset``, ``_timestamp`` and ``_key`` are the record's. ``_value`` has its bytes: of
every row where values are landed raw, else only of those that do not fit, beside ``_error``, which says why.
``headers``, named as in Spark's source, is there where it is asked for. ``_day`` is there where the table is
partitioned by it: the day of ``_timestamp`` in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.land.partitioning import unfit
from semel.errors import ConfigError
from semel.record.columnar import HEADERS_TYPE

TOPIC: Final = "_topic"
DAY: Final = "_day"
OFFSET: Final = "_offset"
VALUE: Final = "_value"
ERROR: Final = "_error"
HEADERS: Final = "headers"
NEARLY_UNIQUE: Final = frozenset({OFFSET, "_key", VALUE})  # no dictionary makes them smaller
_RECORD: Final = {
    TOPIC: ("topic", pa.string()),
    "_partition": ("partition", pa.int32()),
    OFFSET: ("offset", pa.int64()),
    "_timestamp": ("timestamp", pa.timestamp("us", "UTC")),
    "_key": ("key", pa.binary()),
}
_FIRST: Final = pa.scalar(datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"))
_END: Final = pa.scalar(datetime(9999, 12, 31, tzinfo=UTC), pa.timestamp("us", "UTC"))


def landed_schema(
    value: pa.Schema | None, partition_by: str | None, *, with_headers: bool = False
) -> pa.Schema:
    """The table's; ``value`` is ``None`` where values are landed raw."""
    fields = [] if value is None else list(value)
    fields += [pa.field(name, type_) for name, (_, type_) in _RECORD.items()]
    fields += [pa.field(VALUE, pa.binary())] + ([pa.field(ERROR, pa.string())] if value is not None else [])
    if with_headers:
        fields.append(pa.field(HEADERS, HEADERS_TYPE))
    if partition_by == DAY:
        fields.append(pa.field(DAY, pa.date32()))
    _check_names(fields)
    schema = pa.schema(fields)
    if partition_by is not None:
        check_partition_column(schema, partition_by)
    return schema


def _check_names(fields: Sequence[pa.Field]) -> None:
    """Spark does not tell ``A`` from ``a``."""
    there: dict[str, str] = {}
    for name in [field.name for field in fields]:
        first = there.get(name.casefold())
        if first is None:
            there[name.casefold()] = name
            continue
        if name in (*_RECORD, VALUE, ERROR, HEADERS, DAY):
            why = f"has a column {first!r}, and the table has {name!r} of the record"
        elif first == name:
            why = f"has the column {name!r} twice"
        else:
            why = f"has the columns {first!r} and {name!r}, which Spark takes for one, for only their case differs"
        raise ConfigError(f"the schema {why}: give it another name. Nothing was landed")


def check_partition_column(schema: pa.Schema, name: str) -> None:
    """:class:`ConfigError` for a column that files cannot be told apart by."""
    if name not in schema.names:
        raise ConfigError(
            f"--partition-by {name}: there is no such column; take day, or one of {', '.join(schema.names)}"
        )
    type_ = schema.field(name).type
    if not (pa.types.is_string(type_) or pa.types.is_integer(type_) or pa.types.is_date(type_)):
        raise ConfigError(
            f"--partition-by {name}: it is {type_}; a text, a whole number or a date names a folder"
        )
    why = unfit(name, None)  # each column may be null, and no number or date is longer
    if why is not None:
        raise ConfigError(
            f"--partition-by {name}: {why}. Nothing was landed; take another column, or a shorter name"
        )


def landed_rows(
    records: pa.Table, values: pa.Table | None, bad: Sequence[tuple[int, str]], schema: pa.Schema
) -> pa.Table:
    """Rows of ``schema`` in the order of ``records``; ``values`` has the good ones', ``bad`` the others by index.

    ``records`` has headers where ``schema`` has them.
    """
    columns = {name: records.column(source) for name, (source, _) in _RECORD.items()}
    if values is None:
        columns[VALUE] = records.column("value")
    else:
        columns |= _of_values(records, values, bad)
    if HEADERS in records.column_names:
        columns[HEADERS] = records.column(HEADERS)
    if DAY in schema.names:
        columns[DAY] = _days(columns["_timestamp"])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _days(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Null where a producer's clock said a year that no date has."""
    within = pc.and_(pc.greater_equal(times, _FIRST), pc.less(times, _END))
    return pc.if_else(within, times, pa.scalar(None, times.type)).cast(pa.date32())


def _of_values(
    records: pa.Table, values: pa.Table, bad: Sequence[tuple[int, str]]
) -> dict[str, pa.ChunkedArray]:
    count = records.num_rows
    if not bad:
        empty = {VALUE: pa.nulls(count, pa.binary()), ERROR: pa.nulls(count, pa.string())}
        return {name: values.column(name) for name in values.column_names} | empty
    is_bad = np.zeros(count, bool)
    is_bad[[index for index, _ in bad]] = True
    place = np.cumsum(~is_bad) - 1
    take = pa.array(place, mask=is_bad)
    errors = np.full(count, None, object)
    for index, why in bad:
        errors[index] = why
    columns = {name: values.column(name).take(take) for name in values.column_names}
    kept = pc.if_else(
        pa.array(is_bad), records.column("value").combine_chunks(), pa.scalar(None, pa.binary())
    )
    return columns | {VALUE: kept, ERROR: pa.array(errors, pa.string())}


def additions(there: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """The columns that the table lacks; :class:`ConfigError` for any other difference. Nothing was changed."""
    for field in wanted:
        if field.name in there.names and there.field(field.name).type != field.type:
            raise ConfigError(
                f"column {field.name!r} of the table is {there.field(field.name).type}, and the schema says "
                f"{field.type}: a table only grows by new columns. Take another name for it, or another table"
            )
    required = [field.name for field in there if not field.nullable]
    if required:
        raise ConfigError(
            f"the table wants values in {', '.join(required)}, and a row may lack any: make the columns nullable"
        )
    missing = [name for name in there.names if name not in wanted.names]
    if missing == [HEADERS] and there.field(HEADERS).type == HEADERS_TYPE:
        raise ConfigError("the table has the records' headers: say --headers, or take another table")
    if missing:
        raise ConfigError(
            f"the table has columns that the schema lacks ({', '.join(missing)}): a table only grows by new columns. "
            f"Name them too (rows may leave them null), or take another table"
        )
    return [field for field in wanted if field.name not in there.names]
