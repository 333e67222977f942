"""A folder of Parquet files with a manifest, for readers that know no Delta.

A commit makes the next manifest: written aside, synced, and linked to its name, which fails where the name is taken.
So of two copies that commit at once one is refused, whichever it is; it reads the manifest that was made, and goes on
behind it only if that one's epoch of the job is its own (another job on the same table has marks of its own).
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from semel.core.land.columns import additions
from semel.core.land.manifest import (
    FOLDER,
    KEPT,
    DataFile,
    Manifest,
    is_newest,
    manifest_name,
    numbers_of,
    to_text,
)
from semel.core.land.marks import epoch_mark, epoch_of, merged_name
from semel.core.land.merging import merges
from semel.errors import ConfigError, StorageError
from semel.land.files import parquet_writer
from semel.land.target import (
    TAKE_OVER_TRIES,
    NewFile,
    owner,
    parquet_names,
    sync_file,
    sync_folder,
    taken_over,
)
from semel.landed import read_manifest

_COMMIT_TRIES: Final = 1_000  # each is lost to a commit of another job
_ASIDE_MS_MAX: Final = 3_600_000  # a manifest in the making that is older was left by a kill
_MERGE_ROWS: Final = 100_000  # in memory at a time


class ParquetTarget:
    """One table and one job."""

    def __init__(self, folder: Path, job: str, schema: pa.Schema, partition_by: str | None) -> None:
        self.folder, self.job, self.partition_by = folder, job, partition_by
        self._manifests = folder / FOLDER
        self._epoch = self._commits = 0
        self._token = uuid.uuid4().hex
        self._table = self._open_or_create(schema)
        if self._table.partition_by != partition_by:
            raise ConfigError(
                f"{folder} is partitioned by {self._table.partition_by or 'nothing'}: say the same with "
                f"--partition-by, or take another table"
            )

    def mark(self, name: str) -> int | None:
        return self._table.marks.get(name)

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def take_over(self) -> int:
        self._clear_asides()
        name = epoch_mark(self.job)
        for _ in range(TAKE_OVER_TRIES):
            self._table = read_manifest(self.folder)
            epoch = (self.mark(name) or 0) + 1
            fence = self._next(self._table, marks={name: epoch}, owners={self.job: owner()})
            if self._make(fence):
                self._epoch = epoch
                return epoch
        raise taken_over(self.folder, self.job, self._holder())

    def evolve(self, wanted: pa.Schema) -> bool:
        def grown(table: Manifest) -> Manifest | None:
            new = additions(table.schema, wanted)
            return self._next(table, schema=pa.schema([*table.schema, *new])) if new else None

        return self._commit(grown)

    def commit(self, files: Sequence[NewFile], marks: Mapping[str, int]) -> None:
        added = [
            DataFile(file.path, file.rows, file.size_bytes, None if file.part is None else file.part.value)
            for file in files
        ]
        self._commit(lambda table: self._next(table, add=added, marks=marks))

    def check_held(self) -> None:
        self._table = read_manifest(self.folder)
        if self.mark(epoch_mark(self.job)) != self._epoch:
            raise taken_over(self.folder, self.job, self._holder())

    def compact(self) -> int:
        count = 0
        for number, group in enumerate(merges(self._table.files)):
            name = merged_name(self.job, self._epoch, self._table.number, number)
            merged = self._merged(group, name)
            gone = {file.path for file in group}

            def swap(table: Manifest, gone: set[str] = gone, merged: DataFile = merged) -> Manifest | None:
                there = {file.path for file in table.files}
                return self._next(table, add=[merged], remove=gone) if gone <= there else None

            if self._commit(swap):
                count += len(group)
            else:  # another job's compaction took one of them
                (self.folder / merged.path).unlink()
        return count

    def garbage(self) -> list[str]:
        listed = {*self._table.replaced, *(file.path for file in self._table.files)}
        return [
            name
            for name in parquet_names(self.folder)
            if name not in listed and (epoch_of(Path(name).name, self.job) or self._epoch) < self._epoch
        ]

    # -- inside ----------------------------------------------------------------------------------------------

    def _open_or_create(self, schema: pa.Schema) -> Manifest:
        self._manifests.mkdir(parents=True, exist_ok=True)
        if not numbers_of(_names(self._manifests)):
            self._make(Manifest(0, schema, self.partition_by))  # or another copy was first
        return read_manifest(self.folder)

    def _next(self, table: Manifest, **changes: Any) -> Manifest:
        self._commits += 1
        return table.next(**changes, last={self.job: f"{self._token}/{self._commits}"}, now_ms=_now_ms())

    def _commit(self, change: Callable[[Manifest], Manifest | None]) -> bool:
        """Make the next manifest of the newest one, if this copy holds the job and there is something to change."""
        for _ in range(_COMMIT_TRIES):
            wanted = change(self._table)
            if wanted is None:
                return False
            over = self._table.over(_now_ms())
            if self._make(wanted):
                for path in over:
                    (self.folder / path).unlink(missing_ok=True)
                return True
            self.check_held()  # a commit of another job is no reason to stop
        raise StorageError(
            f"{self.folder}: {_COMMIT_TRIES:,} commits were each overtaken by another job's. Nothing of the last one "
            f"came into the table; run it again: it goes on behind the last commit"
        )

    def _make(self, manifest: Manifest) -> bool:
        """Whether it is the table now. It is durable before anybody can read it."""
        aside = self._manifests / f".{uuid.uuid4().hex}.tmp"
        path = self._manifests / manifest_name(manifest.number)
        try:
            aside.write_text(to_text(manifest), encoding="utf-8")
            sync_file(aside)
            os.link(aside, path)
        except FileExistsError:
            return False
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(self._manifests)
        names = _names(self._manifests)
        if not is_newest(manifest.number, names):
            newest = read_manifest(self.folder)
            if manifest.last.get(self.job) != newest.last.get(self.job):
                path.unlink(missing_ok=True)  # its number was removed long ago, or this copy is overtaken
                return False
            manifest = newest  # another job has gone on from it already
        for number in numbers_of(names)[:-KEPT]:
            (self._manifests / manifest_name(number)).unlink(missing_ok=True)
        self._table = manifest
        return True

    def _clear_asides(self) -> None:
        for path in self._manifests.glob(".*.tmp"):
            with suppress(FileNotFoundError):  # its maker is done with it
                if _now_ms() - path.stat().st_mtime_ns // 1_000_000 > _ASIDE_MS_MAX:
                    path.unlink()

    def _holder(self) -> str:
        who = self._table.owners.get(self.job, "another copy")
        return f"{who} (epoch {self.mark(epoch_mark(self.job))}; this is {self._epoch}, {owner()})"

    def _merged(self, group: Sequence[DataFile], name: str) -> DataFile:
        by = self.partition_by
        schema = (
            self._table.schema
            if by is None
            else self._table.schema.remove(self._table.schema.get_field_index(by))
        )
        path = self.folder / Path(group[0].path).parent / name
        with parquet_writer(path, schema) as writer:
            for file in group:
                source = pq.ParquetFile(self.folder / file.path)
                for batch in source.iter_batches(_MERGE_ROWS):
                    writer.write_table(_grown(pa.Table.from_batches([batch]), schema))
        sync_file(path)
        sync_folder(path.parent)
        return DataFile(
            str(path.relative_to(self.folder)),
            sum(file.rows for file in group),
            path.stat().st_size,
            group[0].value,
        )


def _grown(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With the columns that the table got since: null."""
    columns = [
        rows.column(field.name) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
