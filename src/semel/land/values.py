"""How values become columns: not at all (raw), from JSON by a flow's own reader, or from Avro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa

from semel.core.flow.codec import decode_table
from semel.core.flow.schema import Schema
from semel.core.land.hints import with_hint

Bad = Sequence[tuple[int, str]]  # by index, with why


class Values(Protocol):
    """A reader of values."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns that it makes; ``None``: the value stays as it is."""

    def read(self, values: pa.ChunkedArray) -> tuple[pa.Table | None, Bad]:
        """The good ones in their order, and the others."""


class RawValues:
    """Bytes as they are."""

    schema: Final = None

    def read(self, values: pa.ChunkedArray) -> tuple[None, Bad]:
        return None, ()


class JsonValues:
    """JSON objects, judged as in flows."""

    def __init__(self, schema: Schema) -> None:
        self.schema: pa.Schema | None = schema.arrow
        self._schema = schema

    def read(self, values: pa.ChunkedArray) -> tuple[pa.Table, Bad]:
        rows, bad = decode_table(self._schema, values)
        return rows, [(index, with_hint(why, values[index].as_py(), self._schema)) for index, why in bad]
