"""Rows of one value of the partition column lie in files of their own, in hive's folders: ``column=value``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

FOLDER_BYTES_MAX: Final = 255  # file systems take no longer name
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Part:
    """One value of the column."""

    column: str
    value: str | None  # as Delta's log has it

    @property
    def folder(self) -> str:
        """Relative to the table; what a file system could take amiss is escaped, as readers of hive's expect."""
        return f"{quote(self.column, safe='')}={NULL_FOLDER if self.value is None else quote(self.value, safe='')}"


def unfit(column: str, text: str | None) -> str | None:
    """Why no folder can have the rows of this text; ``None``: one can.

    That of null is no other text's, escaped or not: pyarrow and Polars take the escaped one for null as well, and an
    OPTIMIZE of delta-rs puts the rows of both into one file, so that nulls become that text.
    """
    if text == NULL_FOLDER:
        return f"{text} is the name that the folder of null has, and would be read as null"
    size_bytes = len(Part(column, text).folder)
    if size_bytes > FOLDER_BYTES_MAX:
        return (
            f"the name of its folder would have {size_bytes} bytes, and a name has {FOLDER_BYTES_MAX} at most"
        )
    return None


def parts(rows: pa.Table, column: str | None) -> Iterator[tuple[Part | None, pa.Table]]:
    """The rows of each value, in their order, without the column: its value is the folder's."""
    if column is None:
        yield None, rows
        return
    by, rest = rows.column(column), rows.drop_columns([column])
    values = pc.unique(by).to_pylist()
    for value in values:
        part = Part(column, _text(value))
        if len(values) == 1:
            yield part, rest
        else:
            yield (
                part,
                rest.filter(pc.is_null(by) if value is None else pc.equal(by, pa.scalar(value, by.type))),
            )


def _text(value: Any) -> str | None:
    """An empty text is null to Delta, and to hive's folders."""
    if value is None or value == "":
        return None
    return value.isoformat() if isinstance(value, date) else str(value)
