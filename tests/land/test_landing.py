"""Landing from end to end: once, killed at each step, two at once; what is lost is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.table import TableOptimizer
from tests.land.landed import DELTA, PARQUET, land, offsets, produce, read, run_child, start_child
from tests.thinning import every

from semel.client.blocking import Cluster
from semel.core.land.manifest import DataFile
from semel.errors import ConfigError, DataLoss, JobTakenOver, StorageError, UnknownTopic
from semel.land import files_of, read_manifest
from semel.land.delta import DeltaTarget
from semel.land.formats import TableFormat, ValueFormat
from semel.land.parquet import ParquetTarget
from semel.land.target import sync_file
from semel.local import LocalLog
from semel.types import TopicPartition

JSON = ValueFormat.JSON


def numbers(first: int, end: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(first, end)]


def test_rows_are_landed_once(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    produce(cluster, topic, 0, numbers(0, 100), key=b"k", timestamp_ms=1_700_000_000_000)
    produce(cluster, topic, 1, [None])
    assert land(log.bootstrap, table, table_format, topic, rows=30).rows == 101
    assert land(log.bootstrap, table, table_format, topic).rows == 0
    produce(cluster, topic, 1, [b"x"])
    assert land(log.bootstrap, table, table_format, topic).rows == 1
    rows = read(table, table_format).sort_by([("_partition", "ascending"), ("_offset", "ascending")])
    assert offsets(rows) == {(topic, 0): list(range(100)), (topic, 1): [0, 1]}
    assert rows.column("_value").to_pylist() == [*numbers(0, 100), None, b"x"]
    assert rows.column_names == ["_topic", "_partition", "_offset", "_timestamp", "_key", "_value"]
    first = rows.slice(0, 1).to_pylist()[0]
    assert (first["_key"], first["_timestamp"].timestamp()) == (b"k", 1_700_000_000)


@pytest.mark.slow
def test_a_kill_in_front_of_the_commit_neither_loses_nor_doubles(
    log: LocalLog, cluster: Cluster, topic: str, table: Path
) -> None:
    produce(cluster, topic, 0, numbers(0, 60))
    code, said = run_child(log.bootstrap, table, DELTA.value, topic, "kill", 3)
    assert code == -signal.SIGKILL, said
    produce(cluster, topic, 0, numbers(60, 90))
    land(log.bootstrap, table, DELTA, topic)
    assert offsets(read(table, DELTA)) == {(topic, 0): list(range(90))}


@pytest.mark.thorough
@pytest.mark.timeout(400)  # a process for each step
def test_a_kill_at_any_step_neither_loses_nor_doubles(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    step, code, rows, seen = 1, -signal.SIGKILL, 0, set()
    while code == -signal.SIGKILL:
        for partition in (0, 1):
            produce(cluster, topic, partition, numbers(rows, rows + 60))
        rows += 60
        arguments = log.bootstrap, table, table_format.value, topic, "kill", step
        code, said = run_child(*arguments)
        assert code in (0, -signal.SIGKILL), said
        if step > 2:
            found = offsets(read(table, table_format))
            assert all(its == list(range(len(its))) for its in found.values()), f"after a kill at step {step}"
            seen.add(sum(map(len, found.values())))
        step += 1
    assert step > 8 and len(seen) > 3  # it was killed at every step of a run, and between commits
    land(log.bootstrap, table, table_format, topic)
    assert offsets(read(table, table_format)) == {(topic, p): list(range(rows)) for p in (0, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("behind", every(4, ["fenced", "written", "closed", "committed"], first=1))
def test_the_older_of_two_copies_is_refused_and_told_who_is_there(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, behind: str
) -> None:
    produce(cluster, topic, 0, numbers(0, 120))
    older = start_child(log.bootstrap, table, table_format.value, topic, "pause", behind)
    assert older.stdout is not None
    assert older.stdout.readline() == f"{behind}\n"
    land(log.bootstrap, table, table_format, topic)  # which takes it over
    produce(cluster, topic, 1, numbers(0, 10))  # so that the older one has something to commit in any case
    _, said = older.communicate("go on\n", timeout=60)
    assert older.returncode == 1
    assert said.startswith("JobTakenOver: ") and f"process {os.getpid()} on " in said, said
    land(log.bootstrap, table, table_format, topic)
    assert offsets(read(table, table_format)) == {(topic, 0): list(range(120)), (topic, 1): list(range(10))}


def test_a_copy_whose_files_are_cleared_while_it_compacts_is_told_who_is_there(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(cluster, topic, 0, numbers(0, 10))
    land(log.bootstrap, table, PARQUET, topic)
    produce(cluster, topic, 0, numbers(10, 20))
    real = ParquetTarget._merged
    newer: list[int] = []

    def overtaken(self: ParquetTarget, group: Sequence[DataFile], name: str) -> DataFile:
        monkeypatch.setattr(ParquetTarget, "_merged", real)
        monkeypatch.setattr("semel.land.parquet.sync_file", clearing)
        return real(self, group, name)

    def clearing(path: Path) -> None:  # behind the writing of the merged file
        monkeypatch.setattr("semel.land.parquet.sync_file", sync_file)
        newer.append(land(log.bootstrap, table, PARQUET, topic).rows)
        sync_file(path)

    monkeypatch.setattr(ParquetTarget, "_merged", overtaken)
    with pytest.raises(JobTakenOver):
        land(log.bootstrap, table, PARQUET, topic, compact_every=1)
    assert newer == [0]
    assert offsets(read(table, PARQUET)) == {(topic, 0): list(range(20))}


@pytest.mark.parametrize("sleeps", ["in front of it", "in its midst"])
def test_a_copy_that_sleeps_over_its_compaction_doubles_nothing(
    log: LocalLog,
    cluster: Cluster,
    topic: str,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    sleeps: str,
) -> None:
    """A newer one lands and compacts meanwhile. delta-rs commits an OPTIMIZE of files that another one has replaced."""
    for first in (0, 10, 20):
        produce(cluster, topic, 0, numbers(first, first + 10))
        land(log.bootstrap, table, DELTA, topic)
    place, name = (DeltaTarget, "compact") if sleeps == "in front of it" else (TableOptimizer, "compact")
    real = getattr(place, name)
    newer: list[int] = []

    def asleep(*arguments: Any, **settings: Any) -> Any:
        monkeypatch.setattr(place, name, real)
        produce(cluster, topic, 0, numbers(40, 50))
        newer.append(land(log.bootstrap, table, DELTA, topic, compact_every=1).rows)
        return real(*arguments, **settings)

    monkeypatch.setattr(place, name, asleep)
    produce(cluster, topic, 0, numbers(30, 40))
    with pytest.raises(JobTakenOver):
        land(log.bootstrap, table, DELTA, topic, compact_every=1)
    assert newer == [10]
    assert offsets(read(table, DELTA)) == {(topic, 0): list(range(50))}
    produce(cluster, topic, 0, numbers(50, 60))
    land(log.bootstrap, table, DELTA, topic, compact_every=1)
    assert len(DeltaTable(table).file_uris()) == 1, "the next one compacts"
    assert offsets(read(table, DELTA)) == {(topic, 0): list(range(60))}


def test_what_was_never_committed_is_cleared_by_the_next_start(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    produce(cluster, topic, 0, numbers(0, 100))
    land(log.bootstrap, table, table_format, topic)
    committed = set(table.rglob("*.parquet"))
    produce(cluster, topic, 0, numbers(0, 100))
    stranger = table / "semel-other-1-9.parquet"
    stranger.write_bytes(b"of another job")

    def fail(step: str) -> None:
        if step == "closed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        land(log.bootstrap, table, table_format, topic, on_step=fail)
    (garbage,) = set(table.rglob("*.parquet")) - committed - {stranger}
    land(log.bootstrap, table, table_format, topic)
    assert not garbage.exists() and stranger.exists()
    assert offsets(read(table, table_format)) == {(topic, 0): list(range(200))}


def test_who_is_refused_shuts_nobody_out(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    """Other columns than the table's are told before the job is taken over."""
    produce(cluster, topic, 0, [b'{"n": 1}'])
    refused: list[str] = []

    def meanwhile(step: str) -> None:
        if step == "cleared" and not refused:
            with pytest.raises(ConfigError) as told:
                land(log.bootstrap, table, table_format, topic, value_format=JSON, schema="n string")
            refused.append(str(told.value))

    done = land(
        log.bootstrap, table, table_format, topic, value_format=JSON, schema="n long", on_step=meanwhile
    )
    assert done.rows == 1 and "n" in refused[0]
    assert read(table, table_format).column("n").to_pylist() == [1]


def test_two_jobs_fill_one_table(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    cluster.create_topics({f"{topic}b": 1})
    produce(cluster, topic, 0, numbers(0, 50))
    produce(cluster, f"{topic}b", 0, numbers(0, 50))
    failed: list[BaseException] = []

    def run(name: str, its: str) -> None:
        try:
            land(log.bootstrap, table, table_format, its, name=name, rows=1)
        except BaseException as error:
            failed.append(error)

    land(log.bootstrap, table, table_format, topic, name="a")
    threads = [
        threading.Thread(target=run, args=arguments) for arguments in (("a", topic), ("b", f"{topic}b"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert offsets(read(table, table_format)) == {
        (topic, 0): list(range(50)),
        (f"{topic}b", 0): list(range(50)),
    }


def test_aborted_rows_are_not_landed(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    grant = cluster.init_producer_id()
    identity = {"producer_id": grant.producer_id, "producer_epoch": grant.producer_epoch, "base_sequence": 0}
    produce(cluster, topic, 0, numbers(0, 5), **identity)
    marker = cluster.write_fence({(grant.producer_id, grant.producer_epoch + 1): [TopicPartition(topic, 0)]})
    assert set(marker.values()) == {0}
    produce(cluster, topic, 0, numbers(5, 8))
    assert land(log.bootstrap, table, table_format, topic).rows == 8
    assert offsets(read(table, table_format)) == {(topic, 0): [0, 1, 2, 3, 4, 6, 7, 8]}  # 5 is the marker


# --- values, columns, partitions ------------------------------------------------------------------------


def test_a_value_that_does_not_fit_is_a_row_with_its_error(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    produce(cluster, topic, 0, [b'{"user":"ann","n":1}', b"no json", None, b'{"user":"bob","n":"x"}', b"{}"])
    done = land(log.bootstrap, table, table_format, topic, value_format=JSON, schema="user string, n long")
    assert (done.rows, done.bad_rows) == (5, 3)
    rows = read(table, table_format).select(["user", "n", "_value", "_error", "_offset"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("ann", 1, None, None, 0),
        (None, None, b"no json", "it is no JSON", 1),
        (None, None, None, "the value is null", 2),
        (None, None, b'{"user":"bob","n":"x"}', "column 'n' is no bigint", 3),
        (None, None, None, None, 4),
    ]


def test_a_schema_grows_by_columns_and_in_no_other_way(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    def run(schema: str) -> None:
        produce(cluster, topic, 0, [b'{"user":"ann","n":1}'])
        land(log.bootstrap, table, table_format, topic, value_format=JSON, schema=schema, compact_every=1)

    run("user string")
    run("user string, n long")
    rows = read(table, table_format).sort_by("_offset")
    assert rows.column("n").to_pylist() == [None, 1]
    with pytest.raises(ConfigError, match="column 'n' of the table is int64, and the schema says string"):
        run("user string, n string")
    with pytest.raises(ConfigError, match=r"columns that the schema lacks \(n\)"):
        run("user string")
    run("n long, user string")
    assert read(table, table_format).num_rows == 5


@pytest.mark.parametrize("by", ["day", "user"])
def test_rows_are_parted_by_day_or_by_a_column(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, by: str
) -> None:
    users = ["ann", "a b/c=d%é", None, "", "2024"]
    values: list[bytes | None] = [json.dumps({"user": user}).encode() for user in users]
    for day in (1, 0):  # the second is late
        produce(cluster, topic, 0, values, timestamp_ms=86_400_000 * day + 5)
    settings = {"value_format": JSON, "schema": "user string", "partition_by": by}
    land(log.bootstrap, table, table_format, topic, **settings)
    land(log.bootstrap, table, table_format, topic, **settings)
    rows = read(table, table_format).sort_by("_offset")
    landed = [user or None for user in users] if by == "user" else users
    assert rows.column("user").to_pylist() == landed * 2
    if by == "day":
        assert rows.column("_day").to_pylist() == [date(1970, 1, 2)] * 5 + [date(1970, 1, 1)] * 5
    assert {path.parent.name for path in table.rglob("*.parquet")} == (
        {"_day=1970-01-02", "_day=1970-01-01"}
        if by == "day"
        else {"user=ann", "user=a%20b%2Fc%3Dd%25%C3%A9", "user=2024", "user=__HIVE_DEFAULT_PARTITION__"}
    )
    with pytest.raises(ConfigError, match="is partitioned by"):
        land(log.bootstrap, table, table_format, topic, value_format=JSON, schema="user string")


@pytest.mark.parametrize("by", ["user", "_error"])
def test_a_text_that_is_too_long_for_a_folder_is_a_row_with_its_error(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, by: str
) -> None:
    users = ["ann", "x" * 250, "x" * 251, "é" * 41, "é" * 42]  # "user=" and 250 bytes are a name of 255
    values: list[bytes | None] = [json.dumps({"user": user}).encode() for user in users]
    settings = {"value_format": JSON, "schema": "user string", "partition_by": by, "compact_every": 1}
    for _ in range(2):
        produce(cluster, topic, 0, values)
        done = land(log.bootstrap, table, table_format, topic, **settings)
        assert (done.rows, done.bad_rows) == (5, 2 if by == "user" else 0)
    rows = read(table, table_format).sort_by("_offset")
    if by == "_error":
        assert rows.column("user").to_pylist() == users * 2
        return
    assert rows.column("user").to_pylist() == ["ann", "x" * 250, None, "é" * 41, None] * 2
    assert rows.column("_value").to_pylist() == [None, None, values[2], None, values[4]] * 2
    says = "column 'user' cannot part rows: the name of its folder would have {} bytes, and a name has 255 at most"
    assert rows.column("_error").to_pylist() == [None, None, says.format(256), None, says.format(257)] * 2
    count = len(DeltaTable(table).file_uris()) if table_format is DELTA else len(files_of(table))
    assert count == 4  # compaction makes names of that length, too


def test_the_name_of_nulls_folder_as_a_text_is_a_row_with_its_error(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    """An OPTIMIZE of delta-rs made that text of the nulls, too, where both were there."""
    users = ["ann", "__HIVE_DEFAULT_PARTITION__", None, ""]
    values: list[bytes | None] = [json.dumps({"user": user}).encode() for user in users]
    settings = {"value_format": JSON, "schema": "user string", "partition_by": "user", "compact_every": 1}
    for _ in range(2):
        produce(cluster, topic, 0, values)
        assert land(log.bootstrap, table, table_format, topic, **settings).bad_rows == 1
    rows = read(table, table_format).sort_by("_offset")
    assert rows.column("user").to_pylist() == ["ann", None, None, None] * 2
    assert rows.column("_value").to_pylist() == [None, values[1], None, None] * 2
    assert [error is None for error in rows.column("_error").to_pylist()] == [True, False, True, True] * 2
    count = len(DeltaTable(table).file_uris()) if table_format is DELTA else len(files_of(table))
    assert count == 2


def test_a_table_that_cannot_be_compacted_is_landed_in_and_told(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    """delta-rs finds no file of a folder with a "~" in its name."""
    settings = {"value_format": JSON, "schema": "user string", "partition_by": "user", "compact_every": 1}
    for _ in range(2):
        produce(cluster, topic, 0, [b'{"user": "~ann"}'] * 3)
        done = land(log.bootstrap, table, table_format, topic, **settings)
    assert offsets(read(table, table_format)) == {(topic, 0): list(range(6))}
    if table_format is DELTA:
        assert (done.files_compacted, done.compactions_failed) == (0, 1)
        assert "its small files were not made larger ones" in (done.why_not_compacted or "")
    else:
        assert (done.files_compacted, done.compactions_failed, done.why_not_compacted) == (2, 0, None)


def test_errors_that_rows_are_parted_by_are_cut_to_the_name_of_a_folder(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    name = "é" * 100
    produce(cluster, topic, 0, [json.dumps({name: "x"}).encode(), json.dumps({name: 1}).encode()])
    settings = {"value_format": JSON, "schema": f"`{name}` long", "partition_by": "_error"}
    assert land(log.bootstrap, table, table_format, topic, **settings).rows == 2
    errors = read(table, table_format).sort_by("_offset").column("_error").to_pylist()
    assert errors[0].startswith("column 'éé") and errors[0].endswith("é...") and errors[1] is None


def test_a_topic_whose_name_is_too_long_for_a_folder_is_refused_before_its_job_is_taken_over(
    log: LocalLog, topic: str, table: Path, table_format: TableFormat
) -> None:
    land(log.bootstrap, table, table_format, topic, partition_by="_topic")
    before = {path: path.read_bytes() for path in table.rglob("*.json")}
    with pytest.raises(ConfigError, match="cannot part rows of topic 'ttt"):
        land(log.bootstrap, table, table_format, topic, "t" * 249, partition_by="_topic")
    assert {path: path.read_bytes() for path in table.rglob("*.json")} == before


def test_many_values_of_the_column_take_a_bounded_number_of_open_files(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    for _ in range(2):
        produce(cluster, topic, 0, [b'{"n":%d}' % number for number in range(150)])
    land(log.bootstrap, table, table_format, topic, value_format=JSON, schema="n int", partition_by="n")
    assert offsets(read(table, table_format)) == {(topic, 0): list(range(300))}


# --- compaction -----------------------------------------------------------------------------------------


def test_small_files_become_one_and_positions_stay(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    for turn in range(4):
        produce(cluster, topic, 0, numbers(turn * 10, turn * 10 + 10))
        land(log.bootstrap, table, table_format, topic, compact_every=1)
    count = len(DeltaTable(table).file_uris()) if table_format is DELTA else len(files_of(table))
    assert count == 1
    rows = read(table, table_format).sort_by("_offset")
    assert rows.column("_value").to_pylist() == numbers(0, 40)
    assert land(log.bootstrap, table, table_format, topic).rows == 0


@pytest.mark.thorough
def test_a_table_outlives_many_commits_and_what_is_removed_of_them(
    log: LocalLog, cluster: Cluster, topic: str, table: Path
) -> None:
    for turn in range(30):
        produce(cluster, topic, 0, numbers(turn, turn + 1))
        land(log.bootstrap, table, PARQUET, topic)
    assert len(list((table / "_semel").iterdir())) == 16
    assert read_manifest(table).rows == 30
    assert offsets(read(table, PARQUET)) == {(topic, 0): list(range(30))}


def test_positions_outlive_a_checkpoint_of_deltas_log(
    log: LocalLog, cluster: Cluster, topic: str, table: Path
) -> None:
    produce(cluster, topic, 0, numbers(0, 10))
    land(log.bootstrap, table, DELTA, topic)
    DeltaTable(table).create_checkpoint()
    for path in sorted((table / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()  # as a clean-up of the log does, in the end
    assert land(log.bootstrap, table, DELTA, topic).rows == 0
    produce(cluster, topic, 0, numbers(0, 10))
    assert land(log.bootstrap, table, DELTA, topic).rows == 10
    assert offsets(read(table, DELTA)) == {(topic, 0): list(range(20))}


# --- what the log has forgotten -------------------------------------------------------------------------


def test_rows_that_were_trimmed_before_they_were_landed_are_told(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    produce(cluster, topic, 0, numbers(0, 10))
    land(log.bootstrap, table, table_format, topic)
    produce(cluster, topic, 0, numbers(10, 20))
    cluster.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(DataLoss, match=r"offsets 10 to 14 .* --accept-loss goes on"):
        land(log.bootstrap, table, table_format, topic)
    losses: list[DataLoss] = []
    land(log.bootstrap, table, table_format, topic, accept_loss=True, on_loss=losses.append)
    assert [(loss.lost_from, loss.lost_to_end) for loss in losses] == [(10, 15)]
    assert offsets(read(table, table_format)) == {(topic, 0): [*range(10), *range(15, 20)]}
    assert land(log.bootstrap, table, table_format, topic).rows == 0


@pytest.mark.parametrize("accept_loss", [False, True])
def test_rows_that_go_while_they_are_read_are_told_behind_what_was_read(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, accept_loss: bool
) -> None:
    for _ in range(50):  # some fetches' worth
        produce(cluster, topic, 0, [bytes(900_000)])
    losses: list[DataLoss] = []

    def trim(step: str) -> None:
        if step == "written":
            cluster.delete_records({TopicPartition(topic, 0): 49})

    settings = {"on_step": trim, "on_loss": losses.append, "accept_loss": accept_loss}
    if accept_loss:
        land(log.bootstrap, table, table_format, topic, **settings)
    else:
        with pytest.raises(DataLoss) as error:
            land(log.bootstrap, table, table_format, topic, **settings)
        losses.append(error.value)
    (loss,) = losses
    assert 0 < loss.lost_from < loss.lost_to_end == 49
    left = [49] if accept_loss else []
    assert offsets(read(table, table_format)) == {(topic, 0): [*range(loss.lost_from), *left]}


@pytest.mark.parametrize("more", every(4, [[], [10], [30], [3] * 10]))
def test_a_log_that_was_put_back_from_an_older_copy_is_told(
    tmp_path: Path, table: Path, table_format: TableFormat, more: list[int]
) -> None:
    """Also where it has grown beyond what was landed, in batches of any size."""
    with LocalLog(tmp_path / "log") as log, Cluster(log.bootstrap) as cluster:
        cluster.create_topics({"t": 1})
        produce(cluster, "t", 0, numbers(0, 10))
        log.stop()
        shutil.copytree(log.data_dir, tmp_path / "saved")
        log.restart()
        produce(cluster, "t", 0, numbers(10, 20))
        land(log.bootstrap, table, table_format, "t")
        log.stop()
        shutil.rmtree(log.data_dir)
        shutil.copytree(tmp_path / "saved", log.data_dir)
        log.restart()
        for count in more:
            produce(cluster, "t", 0, [b"other"] * count)
        with pytest.raises(DataLoss, match="it has lost its end"):
            land(log.bootstrap, table, table_format, "t")
        assert offsets(read(table, table_format)) == {("t", 0): list(range(20))}
        losses: list[DataLoss] = []
        left = land(log.bootstrap, table, table_format, "t", accept_loss=True, on_loss=losses.append).rows
        assert left == max(0, sum(more) - 10)
        assert len(losses) == 1
        produce(cluster, "t", 0, numbers(0, 10))
        assert land(log.bootstrap, table, table_format, "t").rows == 10


@pytest.mark.parametrize("rows", [3, 10, 20])
def test_a_topic_that_was_made_anew_is_told(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat, rows: int
) -> None:
    produce(cluster, topic, 0, numbers(0, 10))
    land(log.bootstrap, table, table_format, topic)
    cluster.delete_topics([topic])
    cluster.create_topics({topic: 2})
    produce(cluster, topic, 0, numbers(100, 100 + rows))
    with pytest.raises(DataLoss, match=r"all offsets from 10 on .* made anew, and the table has rows of"):
        land(log.bootstrap, table, table_format, topic)
    assert land(log.bootstrap, table, table_format, topic, accept_loss=True).rows == rows
    assert land(log.bootstrap, table, table_format, topic).rows == 0


def test_a_partition_that_is_new_is_followed_from_its_beginning(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    produce(cluster, topic, 0, numbers(0, 10))
    land(log.bootstrap, table, table_format, topic, from_latest=True)
    cluster.add_partitions({topic: 3})
    produce(cluster, topic, 2, numbers(0, 10))
    assert land(log.bootstrap, table, table_format, topic, from_latest=True).rows == 10
    assert offsets(read(table, table_format)) == {(topic, 2): list(range(10))}


def test_a_job_told_to_begin_at_the_end_remembers_where_that_was(
    log: LocalLog, cluster: Cluster, topic: str, table: Path, table_format: TableFormat
) -> None:
    produce(cluster, topic, 0, numbers(0, 10))
    assert land(log.bootstrap, table, table_format, topic, from_latest=True).rows == 0
    produce(cluster, topic, 0, numbers(10, 15))
    assert land(log.bootstrap, table, table_format, topic, from_latest=True).rows == 5


def test_a_topic_that_is_not_there_is_told_before_a_table_is_made(log: LocalLog, table: Path) -> None:
    with pytest.raises(UnknownTopic, match="semel topic list"):
        land(log.bootstrap, table, DELTA, "nosuch")
    assert not table.exists()


# --- tables of others -----------------------------------------------------------------------------------


def test_a_table_that_would_forget_positions_is_refused(log: LocalLog, topic: str, table: Path) -> None:
    land(log.bootstrap, table, DELTA, topic)
    DeltaTable(table).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 1 days"}, raise_if_not_exists=False
    )
    with pytest.raises(ConfigError, match="it forgets up to where it was landed"):
        land(log.bootstrap, table, DELTA, topic)


def test_a_folder_is_a_table_of_one_format(
    log: LocalLog, topic: str, table: Path, table_format: TableFormat
) -> None:
    land(log.bootstrap, table, table_format, topic)
    other = PARQUET if table_format is DELTA else DELTA
    with pytest.raises(ConfigError, match=f"is a table of --format {table_format.value}"):
        land(log.bootstrap, table, other, topic)


def test_a_delta_log_that_cannot_be_read_is_told(log: LocalLog, topic: str, table: Path) -> None:
    land(log.bootstrap, table, DELTA, topic)
    (table / "_delta_log" / f"{1:020}.json").write_text("{")
    with pytest.raises(StorageError, match="the table cannot be read"):
        land(log.bootstrap, table, DELTA, topic)


def test_an_idle_copy_notices_that_it_was_taken_over(
    log: LocalLog, topic: str, table: Path, table_format: TableFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.land.run.HELD_MS", 0)
    ended: list[BaseException] = []
    fenced = threading.Event()

    def follow() -> None:
        try:
            land(
                log.bootstrap, table, table_format, topic, until_end=False, on_step=lambda step: fenced.set()
            )
        except JobTakenOver as error:
            ended.append(error)

    older = threading.Thread(target=follow)
    older.start()
    assert fenced.wait(30)
    land(log.bootstrap, table, table_format, topic)
    older.join(30)
    assert len(ended) == 1
