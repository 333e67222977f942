"""A landing job is killed while it lands, and so is the server under it; at times a second copy is started beside it.

Even rounds land in a Delta table, odd ones in Parquet files with a manifest; both with small commits, and with
compaction. The law: in the end the table is the topic, row for row and offset for offset, as librdkafka reads it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

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


def land_round(dice: random.Random, *, table_format: TableFormat) -> RoundResult:
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
        stop = threading.Event()
        writer = threading.Thread(target=_write, args=(log.bootstrap, dice.random(), stop), name="writer")
        writer.start()
        try:
            for _ in range(dice.randint(*LIVES)):
                kills += _life(dice, log, table, table_format, found, told)
        finally:
            stop.set()
            writer.join()
        last = [
            sys.executable,
            "-m",
            "semel.cli",
            "land",
            TOPIC,
            "--to",
            str(table),
            "--quiet",
            "--until-end",
        ]
        last += ["--format", table_format.value, "--bootstrap", log.bootstrap]
        done = subprocess.run(last, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)
        if done.returncode != 0:
            found.append(f"the last copy ended with {done.returncode}: {done.stderr}")
        landed = _landed(table, table_format)
        stored = read_back(log.bootstrap, TOPIC, PARTITIONS)
        rows = sum(map(len, stored.values()))
        found += breaches(
            landed, expected={number: [row for _, row in its] for number, its in stored.items()}
        )
        found += [
            f"partition {number}: the table's offsets are not the topic's"
            for number, its in stored.items()
            if landed[number] != its
        ]
    return RoundResult(rows, kills, tuple(found), f"{table_format.value}: {', '.join(told)}")


def _life(
    dice: random.Random,
    log: semel.LocalLog,
    table: Path,
    table_format: TableFormat,
    found: list[str],
    told: list[str],
) -> int:
    """How many kills it ended with."""
    how = dice.choice(["copy", "copy", "server", "second copy"])
    told.append(how)
    copy = Copy(log.bootstrap, table, table_format, dice)
    copy.wait_for_commits(table, table_format)
    time.sleep(dice.uniform(*LIFE_S))
    if how == "second copy":
        second = Copy(log.bootstrap, table, table_format, dice)
        code, said = copy.ended()
        if code != 1 or "was taken over by" not in said:
            found.append(f"the older of two copies ended with {code}: {said}")
        time.sleep(dice.uniform(0, 0.5))
        second.kill()
        return 1
    if how == "server":
        log.crash()
        log.restart()
        time.sleep(dice.uniform(*LIFE_S))
        if copy.process.poll() is not None:
            found.append(f"a copy did not outlive the server: {copy.ended()[1]}")
    copy.kill()
    return 2 if how == "server" else 1


def _write(bootstrap: str, seed: float, stop: threading.Event) -> None:
    writer = SemelWriter(bootstrap, random.Random(seed))
    row = 0
    while not stop.is_set():
        for _ in range(ROWS_AT_ONCE):
            writer.send(row)
            row += 1
        stop.wait(0.02)
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
