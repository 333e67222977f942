"""A landing job as it is asked for: what to land, where to, and how; and its run, with signals and progress."""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from semel.client.blocking import Cluster
from semel.client.dead_letters import DeadLetters
from semel.core.flow.schema import parse_schema
from semel.core.land.columns import DAY, landed_schema
from semel.core.land.fitting import check_topics
from semel.core.land.marks import check_job
from semel.errors import ConfigError, DataLoss
from semel.land.formats import OWN_FOLDERS, TableFormat, ValueFormat
from semel.land.metrics import LandCollector
from semel.land.run import Landing, LandPlan
from semel.land.source import Source
from semel.land.target import Target
from semel.land.told import Progress
from semel.land.values import JsonValues, RawValues, Values
from semel.scrape import serve_collector
from semel.signals import stopped_by_signals
from semel.spark.process import SystemClock
from semel.wording import INSTALL_LAND

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a path has made one slash of two
_MISSING: Final = f"needs the extra land, which is not installed here: {INSTALL_LAND}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that a job is told. ``ConfigError`` before anything is read or made, where it makes no sense."""

    name: str
    table: Path
    plan: LandPlan
    table_format: TableFormat = TableFormat.DELTA
    value_format: ValueFormat = ValueFormat.RAW
    schema: str | None = None  # DDL for JSON, a file for Avro
    writers: Mapping[int, Path] = field(default_factory=dict)  # of framed Avro, by id
    partition_by: str | None = None  # a column, or "day"
    with_headers: bool = False
    metrics: str | None = None
    dead_letter_topic: str | None = None

    def __post_init__(self) -> None:
        check_job(self.name)
        if not self.plan.topics or len(set(self.plan.topics)) < len(self.plan.topics):
            raise ConfigError("name each topic to land once")
        if _ADDRESS.match(str(self.table)):
            raise ConfigError(
                f"--to {self.table}: a folder of this machine is wanted, or one that is mounted there"
            )
        check_format(self.value_format, self.schema, self.writers)
        if self.dead_letter_topic in self.plan.topics:
            raise ConfigError(f"--dead-letter {self.dead_letter_topic}: not a topic that is landed")
        check_topics(self.plan.topics, self.partition_column)

    @property
    def partition_column(self) -> str | None:
        """The column's name."""
        return DAY if self.partition_by == "day" else self.partition_by

    def values(self) -> Values:
        """The reader of values."""
        return value_reader(self.value_format, self.schema, self.writers)

    def target(self, schema: pa.Schema) -> Target:
        """The table, made where there is none."""
        for other, folder in OWN_FOLDERS.items():
            if other is not self.table_format and (self.table / folder).exists():
                raise ConfigError(
                    f"{self.table} is a table of --format {other.value}: go on with that, or take another folder"
                )
        if self.table_format is TableFormat.PARQUET:
            from semel.land.parquet import ParquetTarget

            return ParquetTarget(self.table, self.name, schema, self.partition_column)
        if importlib.util.find_spec("deltalake") is None:
            raise ConfigError(f"--format delta {_MISSING}")
        from semel.land.delta import DeltaTarget

        return DeltaTarget(self.table, self.name, schema, self.partition_column)


def check_format(value_format: ValueFormat, schema: str | None, writers: Mapping[int, Path]) -> None:
    """:class:`ConfigError` where these do not go together."""
    if (schema is None) != (value_format is ValueFormat.RAW):
        raise ConfigError(
            f"--value {value_format.value} "
            + ("takes no --schema" if schema else "needs a --schema: the columns' names and types")
        )
    if writers and value_format is not ValueFormat.AVRO:
        raise ConfigError("--writer-schema is for --value avro")


def value_reader(value_format: ValueFormat, schema: str | None, writers: Mapping[int, Path]) -> Values:
    """What makes columns of values: for who lands them, and for who holds a table against them."""
    check_format(value_format, schema, writers)
    if schema is None:
        return RawValues()
    if value_format is ValueFormat.JSON:
        return JsonValues(parse_schema(schema))
    if importlib.util.find_spec("fastavro") is None:
        raise ConfigError(f"--value avro {_MISSING}")
    from semel.land.avro import AvroValues

    return AvroValues(Path(schema), writers)


def run_job(
    job: Job,
    cluster: Cluster,
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_loss: Callable[[DataLoss], None] = lambda loss: None,
    on_step: Callable[[str], None] = lambda step: None,
    stop: threading.Event | None = None,
) -> tuple[Progress, bool]:
    """Land until SIGTERM, Ctrl-C or ``stop``, or to the end of what is there: the progress, and whether it was stopped.

    A signal ends it behind one more commit; a second one does not wait.
    """
    values = job.values()
    schema = landed_schema(values.schema, job.partition_column, with_headers=job.with_headers)
    stop = stop or threading.Event()
    clock = SystemClock()
    letters = (
        None if job.dead_letter_topic is None else DeadLetters(cluster.seed_addresses, job.dead_letter_topic)
    )
    source = Source(cluster, job.plan.topics, clock, with_headers=job.with_headers, letters=letters)
    source.look()  # a topic that is not there is told before a table is made
    landing = Landing(
        job.plan,
        job.target(schema),
        source,
        values,
        stop=stop,
        clock=clock,
        on_step=on_step,
        on_loss=on_loss,
        on_progress=on_progress,
    )
    with ExitStack() as stack:
        if letters is not None:
            stack.callback(letters.close)
        if job.metrics is not None:
            collector = LandCollector(str(job.table), job.name, landing.progress)
            stack.callback(serve_collector(job.metrics, collector))
        stack.enter_context(stopped_by_signals(stop.set))
        landing.run(schema)
    return landing.progress, stop.is_set()
