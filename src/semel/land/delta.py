"""A Delta table, by delta-rs: no JVM.

A commit is one ``add`` for each file and one ``txn`` for each mark. delta-rs holds it against every commit since this
copy last read the table, and refuses it where one of those has set a mark of the same name: that is the fence.
Commits of others, as a VACUUM or another job, go in between; a change of the columns does not.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from semel.core.land.columns import additions
from semel.core.land.marks import epoch_mark, files_mark, was_never_committed
from semel.errors import ConfigError, StorageError
from semel.land.target import (
    TAKE_OVER_TRIES,
    NewFile,
    owner,
    parquet_names,
    sync_file,
    sync_folder,
    taken_over,
)
from semel.wording import one_line

_HISTORY: Final = 100  # commits that are looked through for who holds a job
_LOCK: Final = ".semel-compact.lock"  # hidden: neither readers nor a VACUUM look at it
_FORGETS: Final = "delta.setTransactionRetentionDuration"
# Features whose rows are more than what a file has; the table's own writers know them, this one does not.
_NOT_PLAIN: Final = ("delta.columnMapping.mode", "delta.constraints.", "delta.enableRowTracking")


class DeltaTarget:
    """One table and one job."""

    def __init__(self, folder: Path, job: str, schema: pa.Schema, partition_by: str | None) -> None:
        self.folder, self.job, self.partition_by = folder, job, partition_by
        self._table = _open(folder) or _create(folder, schema, partition_by)
        self._epoch = 0
        self._synced = -1
        self._check()

    def mark(self, name: str) -> int | None:
        return self._table.transaction_version(name)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema())

    def take_over(self) -> int:
        for _ in range(TAKE_OVER_TRIES):
            self._look()
            self._epoch = (self.mark(epoch_mark(self.job)) or 0) + 1
            try:
                self._commit((), {})
            except DeltaError as failed:
                before = self._table.version()
                self._look()
                if self._table.version() == before:  # nobody was in the way
                    raise self._failed("begin", failed) from failed
                continue  # another copy has committed; or the answer was lost, and this one shuts itself out
            self._look()
            if self.mark(epoch_mark(self.job)) == self._epoch:
                return self._epoch
        raise taken_over(self.folder, self.job, self._holder())

    def evolve(self, wanted: pa.Schema) -> bool:
        new = additions(self.schema, wanted)
        if new:
            fields = [Field.from_arrow(field) for field in new]
            try:
                self._table.alter.add_columns(fields, commit_properties=self._properties({}))
            except DeltaError as failed:
                self.check_held()
                raise self._failed("add columns", failed) from failed
            self._look()
        return bool(new)

    def commit(self, files: Sequence[NewFile], marks: Mapping[str, int]) -> None:
        try:
            self._commit(files, marks)
        except DeltaError as failed:
            self.check_held()
            if all(self.mark(name) == number for name, number in marks.items()):
                return  # only the answer was lost: nobody else sets them while this copy holds the job
            raise self._failed("commit", failed) from failed
        self.check_held()

    def check_held(self) -> None:
        self._look()
        if self.mark(epoch_mark(self.job)) != self._epoch:
            raise taken_over(self.folder, self.job, self._holder())

    def compact(self) -> int:
        # delta-rs holds an OPTIMIZE against no other one: two of the same files would double their rows. So there is
        # one at a time, of what is in the table then.
        with self._alone() as is_alone:
            if not is_alone:
                return 0  # another copy or job compacts: there will be another turn
            self.check_held()
            try:
                told = self._table.optimize.compact(commit_properties=self._properties({}))
            except CommitFailedError:
                self.check_held()
                return 0  # somebody else compacts, or deletes
            except DeltaError as failed:
                self.check_held()
                raise StorageError(
                    f"{self.folder}: its small files were not made larger ones: {one_line(failed)}. The table is as "
                    f"it was, with all its rows"
                ) from failed
        self.check_held()
        return int(told["numFilesRemoved"])

    def garbage(self) -> list[str]:
        committed = self.mark(files_mark(self.job)) or 0
        actions = pa.table(self._table.get_add_actions())
        listed = {Path(path).name for path in actions.column("path").to_pylist()}
        return [
            name
            for name in parquet_names(self.folder)
            if was_never_committed(Path(name).name, self.job, self._epoch, committed)
            and Path(name).name not in listed
        ]

    # -- inside ----------------------------------------------------------------------------------------------

    def _commit(self, files: Sequence[NewFile], marks: Mapping[str, int]) -> None:
        now_ms = time.time_ns() // 1_000_000
        actions = [
            AddAction(
                file.path,
                file.size_bytes,
                {} if file.part is None else {file.part.column: file.part.value},
                now_ms,
                True,
                file.stats,
            )
            for file in files
        ]
        self._table.create_write_transaction(
            list(actions),
            "append",
            self._table.schema(),
            self.partition_by,
            commit_properties=self._properties(marks),
        )

    def _properties(self, marks: Mapping[str, int]) -> CommitProperties:
        set_marks = {**marks, epoch_mark(self.job): self._epoch}
        return CommitProperties(
            custom_metadata={epoch_mark(self.job): {"owner": owner(), "epoch": self._epoch}},
            app_transactions=[Transaction(name, number) for name, number in set_marks.items()],
        )

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether no other process compacts the table until this ends; the lock goes with its holder."""
        with (self.folder / _LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # somebody has it; or it cannot be had there, and then nothing is compacted
                yield False
            else:
                yield True

    def _look(self) -> None:
        """Read what was committed since, and have it outlive a power cut, for whoever reads it goes on from it."""
        try:
            self._table.update_incremental()
        except DeltaError as failed:
            raise _unreadable(self.folder, failed) from failed
        newest = self._table.version()
        log = self.folder / "_delta_log"
        for version in range(max(self._synced + 1, newest - _HISTORY), newest + 1):
            path = log / f"{version:020}.json"
            if path.exists():
                sync_file(path)
        if newest > self._synced:
            sync_folder(log)
        self._synced = newest

    def _holder(self) -> str:
        for commit in self._table.history(_HISTORY):
            told: Any = commit.get(epoch_mark(self.job))
            if isinstance(told, dict) and told.get("epoch") == self.mark(epoch_mark(self.job)):
                return f"{told.get('owner')} (epoch {told['epoch']}; this is {self._epoch}, {owner()})"
        return "another copy"

    def _failed(self, what: str, failed: DeltaError) -> StorageError:
        return StorageError(
            f"{self.folder}: could not {what}: {one_line(failed)}. Nothing of it came into the table; "
            f"run it again: it goes on behind the last commit"
        )

    def _check(self) -> None:
        configuration = self._table.metadata().configuration
        there = list(self._table.metadata().partition_columns)
        if there != ([] if self.partition_by is None else [self.partition_by]):
            raise ConfigError(
                f"{self.folder} is partitioned by {', '.join(there) or 'nothing'}: say the same with "
                f"--partition-by, or take another table"
            )
        if _FORGETS in configuration:
            raise ConfigError(
                f"{self.folder} has {_FORGETS}, so it forgets up to where it was landed: take the property away first"
            )
        for name in configuration:
            if name.startswith(_NOT_PLAIN) and configuration[name] not in ("none", "false"):
                raise ConfigError(
                    f"{self.folder} has {name}, which files written by semel land would not honour: land into a "
                    f"table without it"
                )


def _open(folder: Path) -> DeltaTable | None:
    try:
        return DeltaTable(folder)
    except TableNotFoundError:
        return None
    except DeltaError as failed:
        raise _unreadable(folder, failed) from failed


def _create(folder: Path, schema: pa.Schema, partition_by: str | None) -> DeltaTable:
    try:
        return DeltaTable.create(folder, Schema.from_arrow(schema), "error", partition_by)
    except DeltaError as failed:
        table = _open(folder)
        if table is None:
            raise _unreadable(folder, failed) from failed
        return table  # another copy was first


def _unreadable(folder: Path, failed: DeltaError) -> StorageError:
    return StorageError(
        f"{folder}: the table cannot be read: {one_line(failed)}. What was committed stays; what was "
        f"not is landed when it is run again"
    )
