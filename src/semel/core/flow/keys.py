"""The keys of rows, by one column or several.

One column of text is its UTF-8; another one its JSON text; several are a JSON array; null in any is no key. Equal
values have equal keys: times are in UTC, and a number is of its column's kind (``1`` in a double is ``1.0``, and -0.0
is 0.0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.columns import ENCODER, NotOfSchema, json_texts, of_seconds, settled
from semel.core.flow.schema import Field, Kind, Schema
from semel.core.flow.tables import conform, table_of

_FLOATS: Final = (Kind.DOUBLE, Kind.FLOAT)


def keys_of_table(schema: Schema, columns: Sequence[str], table: pa.Table) -> pa.Array:
    """Each row's key by these columns, binary; null where one of them is.

    One column of text is its UTF-8; another one its JSON text; several are a JSON array.
    """
    keyed = schema.select(columns)
    arrays = [column.chunk(0) for column in conform(keyed, table).columns]
    if _is_text(keyed.fields):
        return arrays[0].cast(pa.binary())
    texts = [_key_texts(field, array) for field, array in zip(keyed, arrays, strict=True)]
    if len(texts) == 1:
        return texts[0].cast(pa.binary())
    commas = [part for text in texts for part in (",", text)][1:]
    return pc.binary_join_element_wise("[", *commas, "]", "").cast(pa.binary())


def _key_texts(field: Field, column: pa.Array) -> pa.Array:
    if field.kind in _FLOATS:
        column = pc.add(column, pa.scalar(0.0, column.type))
    try:
        return json_texts(field.kind, column)
    except NotOfSchema as error:
        raise NotOfSchema(error.why, index=error.index, column=field.name) from None


def _is_text(fields: Sequence[Field]) -> bool:
    return len(fields) == 1 and fields[0].kind is Kind.STRING


def keys_of_rows(schema: Schema, columns: Sequence[str], rows: Sequence[Any]) -> pa.Array:
    """The same of rows."""
    return keys_of_table(schema, columns, table_of(schema.select(columns), rows))


def key_bytes(fields: Sequence[Field], values: Sequence[Any]) -> bytes | None:
    """One key, of a value for each field."""
    exact = [settled(field.kind, value) for field, value in zip(fields, values, strict=True)]
    if None in exact:
        return None
    for place, (field, value) in enumerate(zip(fields, exact, strict=True)):
        if field.kind in _FLOATS:
            if not math.isfinite(value):
                raise NotOfSchema(f"{value} cannot be written as JSON", column=field.name)
            exact[place] = value + 0.0
    if _is_text(fields):
        text: str = exact[0]
        return text.encode()
    return ENCODER.encode(exact if len(exact) > 1 else exact[0])


def read_key(fields: Sequence[Field], key: bytes | None) -> tuple[Any, ...] | None:
    """A value for each field; ``None`` for no key, and for one that is not of them."""
    if key is None:
        return None
    try:
        if _is_text(fields):
            return (key.decode(),)
        decoded = _key_decoder(tuple(fields)).decode(key)
        values = decoded if len(fields) > 1 else (decoded,)
        return tuple(
            of_seconds(value)
            if field.kind is Kind.TIMESTAMP and type(value) is int
            else settled(field.kind, value)
            for field, value in zip(fields, values, strict=True)
        )
    except (msgspec.DecodeError, UnicodeDecodeError, NotOfSchema):
        return None


@lru_cache(maxsize=256)
def _key_decoder(fields: tuple[Field, ...]) -> Any:
    types = [field.kind.json for field in fields]
    return msgspec.json.Decoder(tuple[*types] if len(types) > 1 else types[0])  # type: ignore[valid-type]
