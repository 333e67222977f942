"""Commits of a folder of Parquet files, one beside another: what two targets do to one table, step by step."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semel.core.land.manifest import KEPT, REPLACED_KEPT_MS, manifest_name
from semel.core.land.marks import epoch_mark, file_name, files_mark
from semel.errors import ConfigError, JobTakenOver, StorageError
from semel.land import dataset, files_of, parquet, read_manifest
from semel.land.parquet import ParquetTarget
from semel.land.target import NewFile

SCHEMA = pa.schema([("n", pa.int64())])


def target(table: Path, job: str = "j") -> ParquetTarget:
    found = ParquetTarget(table, job, SCHEMA, None)
    found.take_over()
    return found


def add(its: ParquetTarget, number: int) -> None:
    """A commit of one file with one row."""
    name = file_name(its.job, its.mark(epoch_mark(its.job)) or 0, number)
    pq.write_table(pa.table({"n": [number]}, schema=SCHEMA), its.folder / name)
    its.commit([NewFile(name, 1, 1, None, "{}")], {files_mark(its.job): number})


def rows(table: Path) -> list[int]:
    return list(dataset(table).to_table().column("n").to_pylist())


def test_a_number_that_was_removed_long_ago_is_no_way_back(table: Path) -> None:
    older = target(table)
    add(older, 1)
    newer = target(table)
    for number in range(2, KEPT + 10):
        add(newer, number)
    slept = table / "_semel" / manifest_name(older._table.number + 1)
    assert not slept.exists()  # the number that the older one takes for the next
    with pytest.raises(JobTakenOver):
        add(older, 99)
    assert not slept.exists()
    assert rows(table) == list(range(1, KEPT + 10))


def test_a_commit_that_another_job_went_on_from_at_once_is_known_for_made(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = target(table, "one"), target(table, "other")
    listed = parquet._names
    steps = iter([lambda: add(other, 1)])

    def names(folder: Path) -> list[str]:
        step = next(steps, None)  # between the link and the look at what is there
        if step is not None:
            step()
        return listed(folder)

    monkeypatch.setattr("semel.land.parquet._names", names)
    add(one, 2)
    assert sorted(rows(table)) == [1, 2]
    add(one, 3)
    assert sorted(rows(table)) == [1, 2, 3]


def test_a_file_that_was_replaced_stays_for_an_hour(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    its = target(table)
    add(its, 1)
    add(its, 2)
    small = files_of(table)
    assert its.compact() == 2
    assert rows(table) == [1, 2]
    assert all(path.exists() for path in small)
    later = max(read_manifest(table).replaced.values()) + REPLACED_KEPT_MS
    monkeypatch.setattr("semel.land.parquet._now_ms", lambda: later)
    add(its, 3)
    assert not any(path.exists() for path in small)
    assert rows(table) == [1, 2, 3]


def test_what_a_killed_compaction_left_is_cleared(table: Path) -> None:
    its = target(table)
    add(its, 1)
    left = table / f"semel-j-{its.mark(epoch_mark('j'))}-m3-0.parquet"
    left.write_bytes(b"")
    assert its.garbage() == []  # its own epoch: a copy at work
    assert target(table).garbage() == [left.name]


def test_a_manifest_that_a_kill_left_in_the_making_is_removed_in_time(table: Path) -> None:
    folder = target(table).folder / "_semel"
    old, new = folder / ".a.tmp", folder / ".b.tmp"
    for path in (old, new):
        path.write_text("{")
    os.utime(old, (0, 0))
    target(table)
    assert not old.exists() and new.exists()


def test_a_damaged_manifest_is_told(table: Path) -> None:
    number = target(table)._table.number
    (table / "_semel" / manifest_name(number)).write_text("{")
    with pytest.raises(StorageError, match="is no manifest"):
        rows(table)


def test_a_folder_without_a_manifest_is_no_table(table: Path) -> None:
    with pytest.raises(StorageError, match="has not committed anything there"):
        files_of(table)


def test_another_partition_column_is_refused(table: Path) -> None:
    target(table)
    with pytest.raises(ConfigError, match="is partitioned by nothing"):
        ParquetTarget(table, "j", SCHEMA, "n")
