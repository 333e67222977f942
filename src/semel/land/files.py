"""The Parquet files of the next commit: one for each value of the partition column, written as rows come.

Bounded: at most ``OPEN_MAX`` files are open, the one that was least lately written to is closed for another; and at
most ``BUFFERED_BYTES_MAX`` of rows wait for a row group to be worth writing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from semel.core.land.columns import HEADERS, NEARLY_UNIQUE
from semel.core.land.partitioning import Part, parts
from semel.core.land.stats import FileStats
from semel.land.target import NewFile, sync_folder

OPEN_MAX: Final = 64
BUFFERED_BYTES_MAX: Final = 64 * 2**20
ROW_GROUP_ROWS: Final = 1_000_000
_HEADER_KEYS: Final = f"{HEADERS}.list.element.key"  # Parquet's name of that part
ROW_GROUP_BYTES: Final = 32 * 2**20  # of rows in memory


def parquet_writer(out: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """With dictionaries where they are of use."""
    return pq.ParquetWriter(
        out,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in NEARLY_UNIQUE] + [_HEADER_KEYS],
    )


class _OpenFile:
    """One file in the making."""

    def __init__(self, folder: Path, name: str, part: Part | None, schema: pa.Schema) -> None:
        self.part, self.rows, self.buffered_bytes = part, 0, 0
        self.path = folder / (part.folder if part else "") / name
        self._root = folder
        self._buffered: list[pa.Table] = []
        self._buffered_rows = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._out = self.path.open("xb")
        self._writer = parquet_writer(self._out, schema)
        self._stats = FileStats(schema)

    @property
    def size_bytes(self) -> int:
        return self._out.tell() + self.buffered_bytes

    def write(self, rows: pa.Table) -> None:
        self._buffered.append(rows)
        self._buffered_rows += rows.num_rows
        self.buffered_bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._buffered_rows >= ROW_GROUP_ROWS or self.buffered_bytes >= ROW_GROUP_BYTES:
            self.spill()

    def spill(self) -> None:
        """Write what waits as a row group."""
        if self._buffered:
            rows = pa.concat_tables(self._buffered)
            self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
            self._stats.add(rows)
        self._buffered, self._buffered_rows, self.buffered_bytes = [], 0, 0

    def close(self) -> NewFile:
        self.spill()
        self._writer.close()
        self._out.flush()
        os.fsync(self._out.fileno())
        size_bytes = os.fstat(self._out.fileno()).st_size  # its name may be gone: a newer copy clears
        self._out.close()
        sync_folder(self.path.parent)
        if self.path.parent != self._root:
            sync_folder(self._root)
        name = str(self.path.relative_to(self._root))
        return NewFile(name, self.rows, size_bytes, self.part, self._stats.text())

    def discard(self) -> None:
        self._buffered = []
        with suppress(OSError, pa.ArrowException):
            self._writer.close()  # before its file: it would write to that when it goes
        self._writer.is_open = False  # what could not be closed is not closed again when it goes
        with suppress(OSError):  # what could not be written is not wanted
            self._out.close()
        self.path.unlink(missing_ok=True)


class NewFiles:
    """What the next commit adds. ``next_name`` gives each file's name; no two are the same."""

    def __init__(
        self, folder: Path, schema: pa.Schema, partition_by: str | None, next_name: Callable[[], str]
    ) -> None:
        self.rows = 0
        self._folder, self._partition_by, self._next_name = folder, partition_by, next_name
        self._schema = schema if partition_by is None else schema.remove(schema.get_field_index(partition_by))
        self._open: dict[Part | None, _OpenFile] = {}  # the one written to last is the last
        self._closed: list[NewFile] = []

    @property
    def size_bytes(self) -> int:
        """About what they will take: rows that wait are counted as they are in memory."""
        return sum(file.size_bytes for file in self._open.values()) + sum(
            file.size_bytes for file in self._closed
        )

    def write(self, rows: pa.Table) -> None:
        """Take these rows."""
        for part, its in parts(rows, self._partition_by):
            file = self._open.pop(part, None)
            if file is None:
                if len(self._open) >= OPEN_MAX:
                    self._close(next(iter(self._open)))
                file = _OpenFile(self._folder, self._next_name(), part, self._schema)
            self._open[part] = file
            file.write(its)
            self.rows += its.num_rows
            while sum(each.buffered_bytes for each in self._open.values()) > BUFFERED_BYTES_MAX:
                max(self._open.values(), key=lambda each: each.buffered_bytes).spill()

    def close(self) -> list[NewFile]:
        """All of them, closed and synced: what they hold outlives a power cut."""
        for part in list(self._open):
            self._close(part)
        return self._closed

    def discard(self) -> None:
        """Remove those that were not closed: they are certainly in no commit."""
        for file in self._open.values():
            file.discard()
        self._open.clear()

    def _close(self, part: Part | None) -> None:
        self._closed.append(self._open[part].close())
        del self._open[part]  # only now: one that could not be closed is to be discarded
