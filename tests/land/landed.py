"""Jobs for tests, in this process or in one of their own, and what came into the table, read back by others' code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from semel.client.blocking import Cluster
from semel.core.land.bounds import CommitBounds
from semel.errors import DataLoss, ErrorCode
from semel.land import dataset
from semel.land.formats import TableFormat
from semel.land.job import Job, run_job
from semel.land.run import LandPlan
from semel.land.told import Progress
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

DELTA, PARQUET = TableFormat.DELTA, TableFormat.PARQUET


def job(table: Path, table_format: TableFormat, *topics: str, **settings: Any) -> Job:
    """One that lands to the end; what is no setting of the plan is one of the job."""
    of_plan = {name: settings.pop(name) for name in list(settings) if name in LandPlan.__dataclass_fields__}
    if "rows" in settings:
        of_plan["bounds"] = CommitBounds(rows=settings.pop("rows"))
    plan = LandPlan(topics=topics, **{"until_end": True, **of_plan})
    return Job(
        name=settings.pop("name", "land"), table=table, plan=plan, table_format=table_format, **settings
    )


def land(
    bootstrap: str,
    table: Path,
    table_format: TableFormat,
    *topics: str,
    on_loss: Callable[[DataLoss], None] = lambda loss: None,
    on_step: Callable[[str], None] = lambda step: None,
    **settings: Any,
) -> Progress:
    """Land to the end, here."""
    with Cluster(bootstrap) as cluster:
        asked = job(table, table_format, *topics, **settings)
        return run_job(asked, cluster, on_loss=on_loss, on_step=on_step)[0]


def produce(
    cluster: Cluster, topic: str, partition: int, values: Sequence[bytes | None], **choices: Any
) -> None:
    """Write rows at once, all in one batch; ``key`` is that of each."""
    key, timestamp_ms = choices.pop("key", None), choices.pop("timestamp_ms", 1_000)
    source = TopicPartition(topic, partition)
    batch = encode_batch([Record(0, timestamp_ms, key, value) for value in values], **choices)
    assert cluster.produce({source: batch})[source].error_code is ErrorCode.NONE


def read(table: Path, table_format: TableFormat) -> pa.Table:
    """By delta-rs, or by the manifest."""
    if table_format is DELTA:
        return DeltaTable(table).to_pyarrow_table()
    return dataset(table).to_table()


def offsets(table: pa.Table) -> dict[tuple[str, int], list[int]]:
    """Of each partition, sorted: one that stands twice is there twice."""
    found: dict[tuple[str, int], list[int]] = {}
    columns = (table.column(name).to_pylist() for name in ("_topic", "_partition", "_offset"))
    for topic, partition, offset in zip(*columns, strict=True):
        found.setdefault((topic, partition), []).append(offset)
    return {key: sorted(its) for key, its in sorted(found.items())}


def start_child(*arguments: object) -> subprocess.Popen[str]:
    """``tests.land.mortal`` with these arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.land.mortal", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def run_child(*arguments: object) -> tuple[int, str]:
    """Its exit code, and what it said on stderr."""
    child = start_child(*arguments)
    _, said = child.communicate(timeout=60)
    return child.returncode, said
