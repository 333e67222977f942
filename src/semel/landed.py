"""How a table of Parquet files is read: what the newest manifest lists, and nothing else that lies in its folder.

It is beside who lands such tables (:mod:`semel.land`), for who audits them reads them as well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from semel.core.land.manifest import FOLDER, Manifest, from_text, manifest_name, numbers_of
from semel.errors import StorageError

_TRIES: Final = 100  # each lost to a landing that went on by as many commits as manifests are kept


def read_manifest(table: str | os.PathLike[str]) -> Manifest:
    """The newest manifest: one whole commit, whatever is landed meanwhile. :class:`StorageError` if there is none."""
    folder = Path(table) / FOLDER
    for _ in range(_TRIES):
        try:
            numbers = numbers_of(path.name for path in folder.iterdir())
        except FileNotFoundError:
            numbers = []
        if not numbers:
            break
        path = folder / manifest_name(numbers[-1])
        try:
            return from_text(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            continue  # it was removed since: there are newer ones
    raise StorageError(f"{table} has no manifest in {FOLDER}/: semel land has not committed anything there")


def files_of(table: str | os.PathLike[str]) -> list[Path]:
    """The table's Parquet files, in the order of their commits.

    The partition column is in the names of their folders. A reader that guesses its type from them takes a text for a
    number: docs/land.md has the settings of Spark, Polars and DuckDB.
    """
    return [Path(table) / file.path for file in read_manifest(table).files]


def dataset(table: str | os.PathLike[str]) -> Any:
    """The table as a dataset of pyarrow, with the manifest's columns and the folders' partition column."""
    manifest = read_manifest(table)
    by = manifest.partition_by
    partitioning = (
        None if by is None else ds.partitioning(pa.schema([manifest.schema.field(by)]), flavor="hive")
    )
    return ds.dataset(
        [str(Path(table) / file.path) for file in manifest.files],
        schema=manifest.schema,
        format="parquet",
        partitioning=partitioning,
        partition_base_dir=str(table),
    )
