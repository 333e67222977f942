"""What a table has to be able to do, whatever its files' list is kept in."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from semel.core.land.partitioning import Part
from semel.errors import JobTakenOver
from semel.land.formats import OWN_FOLDERS

TAKE_OVER_TRIES: Final = 100  # each is lost to another copy that starts at the same moment


@dataclass(frozen=True, slots=True)
class NewFile:
    """A closed and synced Parquet file that is no part of the table yet; ``path`` is relative to it."""

    path: str
    rows: int
    size_bytes: int
    part: Part | None
    stats: str  # as Delta has it


class Target(Protocol):
    """A table that a job lands in. One commit is everything: files, marks, and that this copy still holds the job."""

    folder: Path
    job: str

    @property
    def partition_by(self) -> str | None:
        """The column that files are told apart by."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as of the last look at the table."""

    def mark(self, name: str) -> int | None:
        """A mark, as of the last look at the table."""

    def take_over(self) -> int:
        """Raise the job's epoch, and read the table behind that. Older copies can commit no more."""

    def evolve(self, wanted: pa.Schema) -> bool:
        """Add the columns that are new; whether there were any. ``ConfigError`` for any other difference."""

    def commit(self, files: Sequence[NewFile], marks: Mapping[str, int]) -> None:
        """Add the files and set the marks, together. :class:`JobTakenOver`: neither, for another copy is there."""

    def check_held(self) -> None:
        """:class:`JobTakenOver` if another copy has taken the job over since."""

    def compact(self) -> int:
        """Make large files of small ones; how many were replaced. ``StorageError``: none, the table is as it was."""

    def garbage(self) -> list[str]:
        """Files in its folder, relative to it, that copies of this job left and that can never be of the table."""


def owner() -> str:
    """This process, for whoever it is shut out by, or shuts out."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def taken_over(folder: Path, job: str, who: str) -> JobTakenOver:
    """The error of the older copy."""
    return JobTakenOver(
        f"job {job!r} of {folder} was taken over by {who}: this copy stops. What it has committed stays, once; what it "
        f"had not committed did not come into the table, and the other copy lands it. Two jobs on one table want "
        f"names of their own (--job)"
    )


def parquet_names(folder: Path) -> Iterator[str]:
    """Every Parquet file under the table's folder that is not hidden."""
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in OWN_FOLDERS.values()]
        for name in names:
            if name.endswith(".parquet"):
                yield str((Path(root) / name).relative_to(folder))


def sync_folder(folder: Path) -> None:
    """Make names in it outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """And what a file holds."""
    sync_folder(path)
