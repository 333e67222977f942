"""An audit of two topics beside DuckDB alone, which makes the same comparison over the same rows as Parquet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.results import Row, Section
from bench.sections import Bench
from semel.audit.read import bounds_of, read_pieces
from semel.client.blocking import Cluster
from semel.client.producer import Producer
from semel.local import LocalLog

DUCKDB, SEMEL = "DuckDB over Parquet", "semel audit"
TOPICS = ("in", "out")
_PARTITIONS = 4
_KEYS = 5_000
_TABLE_ROWS = 500_000
_COLUMNS = ["partition", "offset", "key", "value"]


def audit(bench: Bench) -> Section:
    """Each contender in a process of its own, one after the other, who begins alternating."""
    rows = bench.plan.audit_rows
    speed: dict[str, list[float]] = defaultdict(list)
    memory: dict[str, list[float]] = defaultdict(list)
    with LocalLog(bench.folder / "log", durability="page-cache") as log:
        _fill(log.bootstrap, rows)
        _as_parquet(log.bootstrap, bench.folder)
        asked = {DUCKDB: ("duckdb", str(bench.folder)), SEMEL: ("semel", log.bootstrap)}
        for number in range(bench.plan.rounds):
            for name in list(asked) if number % 2 == 0 else reversed(list(asked)):
                os.sync()
                found = _run(*asked[name])
                shutil.rmtree(bench.folder / "duckdb", ignore_errors=True)
                speed[name].append(rows / found["took_s"] / 1e6)
                memory[name].append(found["memory_mb"])
                bench.tell(f"{name}: {found['took_s']:.1f} s, {found['memory_mb']:.0f} MB")
    works = (
        Row(f"{rows / 1e6:.0f} M rows of 100 bytes against as many", "M rows/s", dict(speed)),
        Row("memory at most", "MB", dict(memory), less_is_better=True),
    )
    return Section(
        "An audit beside DuckDB alone",
        "Two topics with the same rows, in 5,000 keys; each row once, and in order per key. DuckDB has the same rows "
        "in Parquet files, its own threads and a folder to spill to, and compares them by key and value in the same "
        "steps; the audit reads them from a server, checks them and their producers' sequences, and names them by "
        "128 bits. A process for each round, its start included. Rows are those of one side.",
        works,
        DUCKDB,
        (SEMEL,),
    )


def _run(who: str, where: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.audit_job", who, where], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{who}: {done.stderr[-2000:]}{done.stdout}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _fill(bootstrap: str, rows: int) -> None:
    with Cluster(bootstrap) as cluster, Producer(bootstrap) as producer:
        cluster.create_topics(dict.fromkeys(TOPICS, _PARTITIONS))
        for first in range(0, rows, _TABLE_ROWS):
            numbers = np.arange(first, min(first + _TABLE_ROWS, rows))
            text = np.char.add(
                np.char.add('{"id":', numbers.astype("U")), ',"carrier":"UA","from":"EWR","to":"IAH"'
            )
            value = np.char.add(np.char.add(text, ',"tailnum":"N14228","delay":'), (numbers % 90).astype("U"))
            key = np.char.add("k", (numbers % _KEYS).astype("U"))
            table = pa.table({"key": pa.array(key), "value": pa.array(np.char.add(value, "}"))})
            for topic in TOPICS:
                producer.send_table(topic, table).result()


def _as_parquet(bootstrap: str, folder: Path) -> None:
    with Cluster(bootstrap) as cluster:
        for topic in TOPICS:
            writer = None
            for piece in read_pieces(cluster, *bounds_of(cluster, topic)):
                for _, table in piece.tables():
                    chosen = table.select(_COLUMNS)
                    writer = writer or pq.ParquetWriter(folder / f"{topic}.parquet", chosen.schema)
                    writer.write_table(chosen)
            if writer is not None:
                writer.close()
