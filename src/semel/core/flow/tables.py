"""Rows to columns and back, by a schema.

A row is of the schema's row type, or any object or dictionary that has its columns. What it has not is null, and what
it has beside them is left out, just as when it is written as JSON and read by the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from semel.core.flow.columns import NotOfSchema, column_of, in_family, shown, values_of
from semel.core.flow.schema import Field, Schema

_NO_ROWS: Final = (type(None), str, bytes, int, float, list, tuple, set, frozenset)  # no object as JSON


def table_of(schema: Schema, rows: Sequence[Any], *, is_settled: bool = False) -> pa.Table:
    """The rows as columns. :class:`NotOfSchema` names the first value that is not of its column's kind.

    ``is_settled``: the rows were decoded by this schema.
    """
    return _table(
        schema, lambda field: column_of(field.kind, _values_in(field.name, rows), is_settled=is_settled)
    )


def _values_in(name: str, rows: Sequence[Any]) -> list[Any]:
    try:
        if rows and isinstance(rows[0], dict):
            return [row[name] for row in rows]
        return list(map(attrgetter(name), rows))
    except (AttributeError, KeyError, TypeError):
        return [_value_in(name, row, index) for index, row in enumerate(rows)]


def _value_in(name: str, row: Any, index: int) -> Any:
    if isinstance(row, dict):
        return row.get(name)
    if isinstance(row, _NO_ROWS):
        raise NotOfSchema(f"{shown(row)} is no row: it has no columns", index=index)
    return getattr(row, name, None)


def conform(schema: Schema, table: pa.Table) -> pa.Table:
    """The schema's columns of ``table``, in its own types and in one piece each, or :class:`NotOfSchema`."""

    def column(field: Field) -> pa.Array:
        found = table.schema.get_all_field_indices(field.name)
        if len(found) > 1:
            raise NotOfSchema("the table has it twice")
        return (
            in_family(field.kind, table.column(found[0]))
            if found
            else pa.nulls(table.num_rows, field.kind.arrow)
        )

    return _table(schema, column)


def rows_of_table(schema: Schema, table: pa.Table) -> list[Any]:
    """The table's rows, of ``schema.row_type``, or :class:`NotOfSchema`."""
    columns = []
    for field, column in zip(schema, conform(schema, table).columns, strict=True):
        try:
            columns.append(values_of(field.kind, column.chunk(0)))
        except NotOfSchema as error:
            raise NotOfSchema(error.why, column=field.name) from None
    return list(map(schema.row_type, *columns))


def _table(schema: Schema, column: Callable[[Field], pa.Array]) -> pa.Table:
    arrays = []
    for field in schema:
        try:
            arrays.append(column(field))
        except NotOfSchema as error:
            raise NotOfSchema(error.why, index=error.index, column=field.name) from None
    return pa.Table.from_arrays(arrays, schema=schema.arrow)
