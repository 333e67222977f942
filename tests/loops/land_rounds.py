"""A landing job is killed while it lands, and so is the server under it; at times a second copy is started beside it.

Even rounds land in a Delta table, odd ones in Parquet files with a manifest; both with small commits, and with
compaction. The law: in the end the table is the topic, row for row and offset for offset, as librdkafka reads it; of
two copies the older one is refused, and names the newer one. In some rounds the log's folder is put back from an older
copy of it: that is told, nothing is landed until it is accepted, and no row is ever there twice.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from deltalake import DeltaTable, Schema
from tests.loops.rounds import RoundResult, breaches, create_topic, read_back
from tests.loops.server_rounds import SemelWriter

import semel
from semel.core.land.columns import landed_schema
from semel.land import dataset
from semel.land.formats import TableFormat

TOPIC = "rows"
PARTITIONS = 2
LIVES = (2, 4)
LIFE_S = (0.1, 1.5)  # once it has begun to land
BEGIN_TIMEOUT_S = 60.0
END_TIMEOUT_S = 120.0
ROWS_AT_ONCE = 100
LOST = "it has lost its end"


class Copy:
    """``semel land`` in a process of its own."""

    def __init__(self, bootstrap: str, table: Path, table_format: TableFormat, dice: random.Random) -> None:
        arguments = [
            *("land", TOPIC, "--to", str(table), "--format", table_format.value, "--bootstrap", bootstrap),
            *(
                "--commit-rows",
                str(dice.choice([100, 500, 2_000])),
                "--commit-every",
                "200 ms",
                "--compact",
                "4",
            ),
            "--quiet",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "semel.cli", *arguments], stderr=subprocess.PIPE, text=True
        )

    def wait_for_commits(self, table: Path, table_format: TableFormat) -> None:
        """Until it has committed something, so that a kill meets work, or until it has ended."""
        before = _commits(table, table_format)
        deadline_s = time.monotonic() + BEGIN_TIMEOUT_S
        while _commits(table, table_format) == before and self.process.poll() is None:
            assert time.monotonic() < deadline_s, "a copy did not begin"
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ended(self) -> tuple[int | None, str]:
        """Its exit code, once it has ended by itself, and what it said."""
        try:
            _, said = self.process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return None, "it went on"
        return self.process.returncode, said


def land_round(dice: random.Random, *, table_format: TableFormat, is_put_back: bool = False) -> RoundResult:
    """One table: lives of a job that end by kill -9, or by a second copy; then what is left is landed."""
    found: list[str] = []
    told: list[str] = []
    kills = 0
    with tempfile.TemporaryDirectory() as folder, semel.LocalLog(Path(folder) / "log") as log:
        create_topic(log.bootstrap, TOPIC, PARTITIONS)
        table = Path(folder) / "table"
        if table_format is TableFormat.DELTA:  # checkpoints of its log come often, so that kills meet them
            configuration = {"delta.checkpointInterval": "5"}
            schema = Schema.from_arrow(landed_schema(None, None))
            DeltaTable.create(table, schema, configuration=configuration)
        job = _Job(log, table, table_format, dice, found, told)
        with _Rows(log.bootstrap, dice.random()) as rows:
            for _ in range(1 if is_put_back else dice.randint(*LIVES)):
                kills += _life(job)
            if is_put_back:
                kills += _put_back(job, rows)
                count = sum(map(len, _landed(table, table_format).values()))
                return RoundResult(count, kills, tuple(found), f"{table_format.value}: {', '.join(told)}")
        job.land_rest()
        landed = _landed(table, table_format)
        stored = read_back(log.bootstrap, TOPIC, PARTITIONS)
        count = sum(map(len, stored.values()))
        found += breaches(
            landed, expected={number: [row for _, row in its] for number, its in stored.items()}
        )
        found += [
            f"partition {number}: the table's offsets are not the topic's"
            for number, its in stored.items()
            if landed[number] != its
        ]
    return RoundResult(count, kills, tuple(found), f"{table_format.value}: {', '.join(told)}")


@dataclass(frozen=True, slots=True)
class _Job:
    """What the lives of a round share."""

    log: semel.LocalLog
    table: Path
    table_format: TableFormat
    dice: random.Random
    found: list[str]
    told: list[str]

    def start(self) -> Copy:
        return Copy(self.log.bootstrap, self.table, self.table_format, self.dice)

    def await_commits(self, copy: Copy) -> None:
        copy.wait_for_commits(self.table, self.table_format)

    def landed(self) -> dict[int, list[tuple[int, int]]]:
        return _landed(self.table, self.table_format)

    def sleep(self) -> None:
        time.sleep(self.dice.uniform(*LIFE_S))

    def land_rest(self, *options: str, code: int = 0, says: str = "") -> None:
        """What is there now is landed by a copy that ends with ``code``, and says so."""
        command = [sys.executable, "-m", "semel.cli", "land", TOPIC, "--to", str(self.table), "--quiet"]
        command += ["--until-end", "--format", self.table_format.value, "--bootstrap", self.log.bootstrap]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False
        )
        if done.returncode != code or says not in done.stderr:
            self.found.append(f"the last copy ended with {done.returncode}: {done.stderr}")


def _life(job: _Job) -> int:
    """How many kills it ended with."""
    how = job.dice.choice(["copy", "server", "second copy", "second copy while the first sleeps"])
    job.told.append(how)
    copy = job.start()
    job.await_commits(copy)
    job.sleep()
    if how.startswith("second copy"):
        sleeps = how != "second copy"
        if sleeps:
            copy.process.send_signal(signal.SIGSTOP)
        second = job.start()
        if sleeps:
            job.await_commits(second)
            job.sleep()
            copy.process.send_signal(signal.SIGCONT)
        code, said = copy.ended()
        if code != 1 or f"was taken over by process {second.process.pid} on " not in said:
            job.found.append(f"the older of two copies ended with {code}: {said}")
        time.sleep(job.dice.uniform(0, 0.5))
        second.kill()
        return 1
    if how == "server":
        job.log.crash()
        job.log.restart()
        job.sleep()
        if copy.process.poll() is not None:
            job.found.append(f"a copy did not outlive the server: {copy.ended()[1]}")
    copy.kill()
    return 2 if how == "server" else 1


def _put_back(job: _Job, rows: _Rows) -> int:
    """The log's folder is put back from a copy that lacks rows which are landed; how many kills that took.

    Under a copy that goes on, or with rows that come before the next one starts, which may be as many as were lost.
    """
    log, older = job.log, job.log.data_dir.with_name("older")
    rows.rest()
    log.crash()
    shutil.copytree(log.data_dir, older)
    log.restart()
    kept = {number: len(its) for number, its in read_back(log.bootstrap, TOPIC, PARTITIONS).items()}
    rows.come()
    copy = job.start()
    deadline_s = time.monotonic() + BEGIN_TIMEOUT_S
    while not any(len(its) > kept[number] for number, its in job.landed().items()):
        assert time.monotonic() < deadline_s and copy.process.poll() is None, "nothing new was landed"
        time.sleep(0.05)
    job.sleep()
    rows.rest()
    gave = read_back(log.bootstrap, TOPIC, PARTITIONS)
    goes_on = job.dice.random() < 0.5
    job.told.append("put back under a copy" if goes_on else "put back")
    if not goes_on:
        copy.kill()
    log.crash()
    shutil.rmtree(log.data_dir)
    shutil.copytree(older, log.data_dir)
    log.restart()
    if goes_on:
        code, said = copy.ended()
        if code != 1 or LOST not in said:
            job.found.append(f"a copy whose log was put back ended with {code}: {said}")
    else:
        rows.come()
        job.sleep()
        rows.rest()
    before = job.landed()
    job.land_rest(code=1, says=LOST)
    job.found.extend(
        f"partition {number}: what is landed is not what the log gave, once"
        for number, its in job.landed().items()
        if its != before[number] or its != gave[number][: len(its)]
    )
    job.land_rest("--accept-loss")
    ends = {number: len(its) for number, its in read_back(log.bootstrap, TOPIC, PARTITIONS).items()}
    rows.come()
    job.sleep()
    rows.rest()
    job.land_rest()
    left = read_back(log.bootstrap, TOPIC, PARTITIONS)
    for number, its in job.landed().items():
        goes_on_at = min(len(before[number]), ends[number])
        expected = [*before[number], *left[number][goes_on_at:]]
        if sorted(its) != sorted(expected):
            job.found.append(f"partition {number}: {len(its)} rows are landed, and not {len(expected)}")
    return 2 if goes_on else 3


class _Rows:
    """Rows that come all the time, but where they rest; their numbers go on."""

    def __init__(self, bootstrap: str, seed: float) -> None:
        self._bootstrap, self._dice = bootstrap, random.Random(seed)
        self._row = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.come()
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()

    def come(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._write, name="writer")
        self._thread.start()

    def rest(self) -> None:
        """Returns when all are stored."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self) -> None:
        writer = SemelWriter(self._bootstrap, self._dice)
        while not self._stop.is_set():
            for _ in range(ROWS_AT_ONCE):
                writer.send(self._row)
                self._row += 1
            self._stop.wait(0.02)
        writer.finish()


def _commits(table: Path, table_format: TableFormat) -> int:
    """The newest commit's number, by names alone: nothing of what lands is used."""
    log = table / ("_delta_log" if table_format is TableFormat.DELTA else "_semel")
    pattern = "*.json" if table_format is TableFormat.DELTA else "manifest-*.json"
    numbers = [path.stem.removeprefix("manifest-") for path in log.glob(pattern)]
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


def _landed(table: Path, table_format: TableFormat) -> dict[int, list[tuple[int, int]]]:
    """Every (offset, row) of every partition, in offset order."""
    its = (
        DeltaTable(table).to_pyarrow_table()
        if table_format is TableFormat.DELTA
        else dataset(table).to_table()
    )
    rows: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(PARTITIONS)}
    columns = (its.column(name).to_pylist() for name in ("_partition", "_offset", "_value"))
    for partition, offset, value in zip(*columns, strict=True):
        rows[partition].append((offset, int(value)))
    return {partition: sorted(entries) for partition, entries in rows.items()}
