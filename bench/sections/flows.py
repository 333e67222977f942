"""Flows beside the same queries over Spark's Kafka connector; a restore, a merge and a restart."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
from tests.peers.parts import Missing, find_spark_connector_jars

from bench.flow_queries import KEPT_OF_TEN, Asked, rows_of
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.spark import PARTITIONS
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import Server, semel
from bench.worker import Worker, worker
from semel import Consumer, Producer, TopicPartition

TIMEOUT_S = 300.0
THEIRS, OURS = "beside", "flow"
CONNECTOR, OF_SEMEL = "kafka", "semel"
SPEED = "M rows/s"
KEYS = 1_000
ROWS_AT_ONCE = 250_000
WARM_UP_S_MAX = 6.0  # Spark's drivers get warm at the works before, too
RESTART_ROWS = 10_000
ONE, OTHER, LARGE, RESTARTED = "rows-1", "rows-2", "rows-of-many-keys", "rows-restarted"


@dataclass(slots=True)
class Driver:
    """A Spark driver that does one side's works."""

    hand: Worker
    server: Server
    folder: Path

    def ask(self, job: str, asked: Asked, **more: object) -> float:
        return float(self.hand.ask(TIMEOUT_S, job=job, asked=asdict(asked), **more))

    @contextmanager
    def targets(self, name: str, count: int = 1) -> Iterator[list[str]]:
        """Topics to write; they are gone afterwards, and those that the flow has made for itself."""
        made = [f"{name}-{number}" for number in range(count)]
        for topic in made:
            self.server.create(topic, PARTITIONS)
        try:
            yield made
        finally:
            for topic in self.server.topics():
                if topic in made or topic.startswith(f"{name}."):
                    self.server.delete(topic)


def flows(bench: Bench) -> Section:
    plan = bench.plan
    bench = replace(bench, plan=replace(plan, warm_up_s=min(plan.warm_up_s, WARM_UP_S_MAX)))
    with ExitStack() as stack:
        server = stack.enter_context(semel(bench.folder / "semel", durable=False, alone=False))
        fill(server, ONE, plan.flow_rows, KEYS)
        fill(server, OTHER, plan.flow_rows, KEYS)
        rows = [*_beside_the_connector(bench, server), *_of_its_own(bench, server), _restart(bench, server)]
    return Section(
        "Flows, beside Spark's Kafka connector",
        f"`local[2]`, a driver for each side, and one server for both on the same cores: semel, which does not sync "
        f"here, as the connector's usual one does not. {plan.flow_rows:,} rows of JSON, some 80 B each, of {KEYS:,} "
        f"keys in {PARTITIONS} partitions, for both sides; the flow is exactly once, the query at least once. "
        f"`spark.sql.shuffle.partitions={PARTITIONS}`, for the default of 200 is slower. Figures are over the "
        "micro-batches to the end of the topic, those of a flow's stages one after the other, without the queries' "
        f"starts; contenders warm up for {bench.plan.warm_up_s:.0f} s. The query of the Python steps is Spark's own "
        "where and select. The typed fold is Python for each row, and the connector's side is "
        "`applyInPandasWithState` with whole columns. *Restore* builds a store anew from the changelog in one process, "
        "beside semel's source reading the same messages there; *merge* is two topics into one in a recorded order, "
        "beside a flow that writes each to one of its own. The last row is from the start of a driver, after kill -9, "
        "to a row of what had come meanwhile in the output of the running count.",
        tuple(rows),
        THEIRS,
        (OURS,),
    )


def _beside_the_connector(bench: Bench, server: Server) -> Iterator[Row]:
    works = {
        "stateless, steps of Spark's": ("spark steps", KEPT_OF_TEN / 10),
        "stateless, steps of Python's": ("python steps", KEPT_OF_TEN / 10),
        f"running count of {KEYS:,} keys": ("count", 0.0),
        "running count by a typed fold": ("fold", 1.0),
    }
    with driver(bench.folder, CONNECTOR, server) as theirs, driver(bench.folder, OF_SEMEL, server) as ours:
        for name, (work, share) in works.items():
            attempts = {who: _run(bench, side, work, share) for who, side in ((THEIRS, theirs), (OURS, ours))}
            yield take_turns(bench, Work(name, SPEED, attempts))


def _of_its_own(bench: Bench, server: Server) -> Iterator[Row]:
    """What has no query of the connector's beside it."""
    keys = bench.plan.flow_keys
    with driver(bench.folder, f"{OF_SEMEL}-alone", server) as side:
        merge = {
            THEIRS: _run(bench, side, "side by side", 1.0, [ONE, OTHER]),
            OURS: _run(bench, side, "merged", 1.0, [ONE, OTHER]),
        }
        yield take_turns(bench, Work("merge of two topics", SPEED, merge))
        fill(server, LARGE, keys, keys)
        with side.targets("large") as targets:
            large = Asked("count", "large", [LARGE], targets, str(side.folder / "store"))
            side.ask("run", large, rows=keys)
            restore: dict[str, Attempt] = {
                THEIRS: lambda name: side.ask("read_changelog", large, keys=keys),
                OURS: lambda name: side.ask("restore", large, keys=keys),
            }
            yield take_turns(bench, Work(f"restore of {keys:,} keys", "M keys/s", restore))


def _run(bench: Bench, side: Driver, work: str, share: float, sources: Sequence[str] = (ONE,)) -> Attempt:
    """``share``: how many rows it writes for each that it reads; 0: counts, whose sum is looked at."""
    rows = bench.plan.flow_rows * len(sources)

    def attempt(name: str) -> float:
        name = f"{side.folder.name}-{name}"
        with side.targets(name, len(sources) if work == "side by side" else 1) as targets:
            asked = Asked(work, name, list(sources), targets, str(side.folder / name))
            figure = side.ask("run", asked, rows=rows)
            if share:
                check_stored(side.server, targets, round(rows * share))
            else:
                check_counts(side.server, targets[0], rows)
        return figure

    return attempt


def _restart(bench: Bench, server: Server) -> Row:
    samples: dict[str, list[float]] = {THEIRS: [], OURS: []}
    fill(server, RESTARTED, RESTART_ROWS, KEYS)
    sides = {THEIRS: f"{CONNECTOR}-restarted", OURS: f"{OF_SEMEL}-restarted"}
    for target in sides.values():
        server.create(target, PARTITIONS)
    for number in range(bench.plan.rounds + 1):  # the first is a start with nothing to take up
        for who, target in sides.items() if number % 2 == 0 else reversed(sides.items()):
            if number:
                fill(server, RESTARTED, KEYS, KEYS, is_new=False)
            os.sync()
            ends = server.end_offsets(target, PARTITIONS)
            started_s = time.monotonic()
            with driver(bench.folder, target, server) as side:
                asked = Asked("count", target, [RESTARTED], [target], str(side.folder / "state"))
                seen_s = side.ask("first_row", asked, ends=ends)
                side.hand.kill()
            if number:
                samples[who].append(seen_s - started_s)
                bench.tell(f"restart: {who} {samples[who][-1]:.2f} s")
    return Row("kill -9 of the driver to the first new row", "s", samples, less_is_better=True)


@contextmanager
def driver(parent: Path, name: str, server: Server) -> Iterator[Driver]:
    """A Spark driver in a folder below ``parent``, of the side that its name begins with."""
    folder = parent / name
    folder.mkdir(exist_ok=True)
    side = name.partition("-")[0]
    settings = {}
    if side == CONNECTOR:
        jars = find_spark_connector_jars()
        if isinstance(jars, Missing):
            raise SystemExit(f"no benchmark without Spark's Kafka connector: {jars.why}")
        settings["spark.jars"] = ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    command = [sys.executable, "-m", "bench.flow_job", side, server.bootstrap, json.dumps(settings)]
    with worker(name, command, folder / "log") as hand:
        yield Driver(hand, server, folder)


def fill(server: Server, topic: str, rows: int, keys: int, *, is_new: bool = True) -> None:
    """A topic to read."""
    if is_new:
        server.create(topic, PARTITIONS)
    with Producer(server.bootstrap) as producer:
        for first in range(0, rows, ROWS_AT_ONCE):
            producer.send_table(topic, rows_of(first, min(ROWS_AT_ONCE, rows - first), keys))
        producer.flush(TIMEOUT_S)


def stored(server: Server, topic: str) -> Iterator[pa.Table]:
    """All the rows of a topic."""
    ends = {
        TopicPartition(topic, number): end for number, end in enumerate(server.end_offsets(topic, PARTITIONS))
    }
    with Consumer(server.bootstrap) as consumer:
        consumer.assign(dict.fromkeys(ends, 0))
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            yield consumer.fetch_table(5)


def check_stored(server: Server, topics: Sequence[str], rows: int) -> None:
    """Nothing may be missing; of a query that is at least once, more may be there, but was never seen here."""
    found = sum(table.num_rows for topic in topics for table in stored(server, topic))
    if found != rows:
        raise RuntimeError(f"{found} rows are stored in {', '.join(topics)} instead of {rows}")


def check_counts(server: Server, topic: str, rows: int) -> None:
    """The last count of all keys together is that of the rows."""
    last: dict[str, int] = {}
    for table in stored(server, topic):
        for value in table.column("value").to_pylist():
            counted = json.loads(value)
            last[counted["user"]] = counted["count"]
    if len(last) != KEYS or sum(last.values()) != rows:
        raise RuntimeError(
            f"{topic} counts {sum(last.values())} rows of {len(last)} keys, not {rows} of {KEYS}"
        )
