"""``semel land`` beside a query of Spark's over its Kafka connector, into Parquet."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.dataset as ds
from tests.peers.parts import Missing, find_spark_connector_jars

from bench.results import Section
from bench.sections import Bench
from bench.sections.flows import KEYS, SPEED, TIMEOUT_S, WARM_UP_S_MAX, fill
from bench.sections.spark import PARTITIONS
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import semel
from bench.worker import Worker, worker
from semel.land import dataset

TOPIC = "rows"
CONNECTOR = "Spark's connector, Parquet"
PARQUET, DELTA = "semel land, Parquet", "semel land, Delta"
SIDES = {CONNECTOR: "kafka", PARQUET: "parquet", DELTA: "delta"}
WORKS = {"raw values": "raw", "JSON in columns": "json"}


@dataclass(frozen=True, slots=True)
class Side:
    """A contender, and where its tables lie."""

    hand: Worker
    kind: str
    folder: Path

    def attempt(self, work: str, rows: int) -> Attempt:
        """Land the topic once, look whether all of it is there, and make room."""

        def land(name: str) -> float:
            table = self.folder / f"{work}-{name}"
            figure = float(self.hand.ask(TIMEOUT_S, work=work, topic=TOPIC, table=str(table), rows=rows))
            landed = self._rows(table)
            if landed != rows:
                raise RuntimeError(f"{self.hand.name}: {landed} rows of {rows} are in the table")
            for made in self.folder.glob(f"{table.name}*"):
                shutil.rmtree(made)
            return figure

        return land

    def _rows(self, table: Path) -> int:
        its = dataset(table) if self.kind == "parquet" else ds.dataset(str(table), format="parquet")
        return int(its.count_rows())


def land(bench: Bench) -> Section:
    plan = bench.plan
    bench = replace(bench, plan=replace(plan, warm_up_s=min(plan.warm_up_s, WARM_UP_S_MAX)))
    jars = find_spark_connector_jars()
    if isinstance(jars, Missing):
        raise SystemExit(f"no benchmark without Spark's Kafka connector: {jars.why}")
    settings = {"spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))}
    with ExitStack() as stack:
        server = stack.enter_context(semel(bench.folder / "semel", durable=False, alone=False))
        fill(server, TOPIC, plan.flow_rows, KEYS)
        sides = {}
        for name, kind in SIDES.items():
            folder = bench.folder / kind
            folder.mkdir()
            command = [sys.executable, "-m", "bench.land_job", kind, server.bootstrap, json.dumps(settings)]
            hand = stack.enter_context(worker(name, command, folder / "log"))
            sides[name] = Side(hand, kind, folder)
        rows = [
            take_turns(
                bench,
                Work(name, SPEED, {who: side.attempt(work, plan.flow_rows) for who, side in sides.items()}),
            )
            for name, work in WORKS.items()
        ]
    return Section(
        "Landing a topic, beside Spark's Kafka connector",
        f"Into a new table, from one semel server on the same cores. {plan.flow_rows:,} rows of JSON, some 80 B each, "
        f"in {PARTITIONS} partitions; a commit, or a micro-batch, a million. Spark has `local[2]` and its Parquet "
        "sink, whose figures are over its micro-batches without the query's start; `semel land` is one process, mostly "
        "on one core, syncs its files before it commits, and its figures are from start to end. All are exactly once, "
        "each for its own readers.",
        tuple(rows),
        CONNECTOR,
        (PARQUET, DELTA),
    )
