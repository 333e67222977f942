"""What a job may be told to write, and to read values as."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TableFormat(StrEnum):
    """What the table's list of files is kept in."""

    DELTA = "delta"
    PARQUET = "parquet"


# What a folder has that is such a table.
OWN_FOLDERS: Final = {TableFormat.DELTA: "_delta_log", TableFormat.PARQUET: "_semel"}


class ValueFormat(StrEnum):
    """What values are read as."""

    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
