"""semel's source and sink beside Spark's own Kafka connector: write, read, copy, and tiny micro-batches."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.parts import Missing, find_spark_connector_jars

from bench.load import ONE_RECORD, Load
from bench.load.frames import batch_of
from bench.load.generate import generate
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import Server, kafka, semel
from bench.worker import Worker, worker
from semel.types import ProducerGrant

PARTITIONS = 4
TIMEOUT_S = 300.0
CONNECTOR = "Spark's connector, Apache Kafka"
OURS = "semel"
OURS_UNIX_SOCKETS = "semel, unix sockets"
SPEED = "M rows/s"
ROWS_TOPIC, TINY_TOPIC = "rows", "tiny"
STORED_BATCH_BYTES = 65_536
UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


@dataclass(frozen=True, slots=True)
class Side:
    """A contender: its Spark driver, and the server that it is set on."""

    driver: Worker
    server: Server
    folder: Path

    def topic(self, name: str) -> str:
        """The server's contenders share it, so each has names of its own."""
        return f"{self.folder.name}-{name}"

    @contextmanager
    def fresh_topic(self, name: str) -> Iterator[str]:
        topic = self.topic(name)
        self.server.create(topic, PARTITIONS)
        try:
            yield topic
        finally:
            self.server.delete(topic)

    def ask(self, work: str, **arguments: object) -> float:
        return float(self.driver.ask(TIMEOUT_S, work=work, **arguments))


def spark(bench: Bench) -> Section:
    with ExitStack() as stack:
        measured = take_all_turns(bench, _sides(bench, stack))
    return Section(
        "Spark, beside its own Kafka connector",
        f"`local[2]` with Spark's default settings, a driver for each contender, servers on the same cores; "
        f"{bench.plan.spark_rows:,} rows of 8 B keys and 100 B values. semel's sink is exactly once, on a server that "
        "syncs before it acknowledges; the connector's is at least once, on a Kafka that does not. Streaming "
        "figures are over the micro-batches of a query, without its start; a tiny micro-batch has 4 rows. "
        f"*Unix sockets*: `{UNIX_SOCKETS}=true`, which touches only Python workers, so the connector has one figure.",
        measured,
        CONNECTOR,
        (OURS, OURS_UNIX_SOCKETS),
    )


def take_all_turns(bench: Bench, sides: Mapping[str, Side]) -> tuple[Row, ...]:
    """Each work of the section, the sides in turn."""
    plan = bench.plan
    rows = 0
    for server in {side.server for side in sides.values()}:
        records_a_batch = batch_of(STORED_BATCH_BYTES, ProducerGrant(0, 0)).records
        batches = plan.spark_rows // PARTITIONS // records_a_batch
        rows = _fill(server, ROWS_TOPIC, STORED_BATCH_BYTES, batches)
        _fill(server, TINY_TOPIC, ONE_RECORD, plan.tiny_batches)
    attempts: list[tuple[str, str, dict[str, Attempt]]] = [
        ("write, batch", SPEED, {name: _write(bench, side) for name, side in sides.items()}),
        ("read, batch", SPEED, {name: _read(side, rows) for name, side in sides.items()}),
        ("topic to topic, streaming", SPEED, {name: _copy(side, rows) for name, side in sides.items()}),
        ("tiny micro-batch", "ms", {name: _tiny(bench, side) for name, side in sides.items()}),
    ]
    return tuple(
        take_turns(bench, Work(name, unit, by_contender, less_is_better=unit == "ms"))
        for name, unit, by_contender in attempts
    )


def _sides(bench: Bench, stack: ExitStack) -> dict[str, Side]:
    jars = find_spark_connector_jars()
    if isinstance(jars, Missing):
        raise SystemExit(f"no benchmark without Spark's Kafka connector: {jars.why}")
    ours = stack.enter_context(semel(bench.folder / "semel", durable=True, alone=False))
    theirs = stack.enter_context(kafka(bench.folder / "kafka", durable=False, alone=False))
    with_jars = {"spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))}

    def start(name: str, data_format: str, server: Server, settings: dict[str, str]) -> Side:
        return stack.enter_context(driver(bench.folder, name, data_format, server, settings))

    return {
        CONNECTOR: start(CONNECTOR, "kafka", theirs, with_jars),
        OURS: start(OURS, "semel", ours, {UNIX_SOCKETS: "false"}),
        OURS_UNIX_SOCKETS: start(OURS_UNIX_SOCKETS, "semel", ours, {UNIX_SOCKETS: "true"}),
    }


@contextmanager
def driver(
    parent: Path, name: str, data_format: str, server: Server, settings: dict[str, str]
) -> Iterator[Side]:
    """A Spark driver in a folder of its own below ``parent``, set on ``server``."""
    folder = parent / "-".join(("driver", *re.findall("[a-z]+", name.lower())))
    folder.mkdir()
    command = [sys.executable, "-m", "bench.spark_job", data_format, server.bootstrap, json.dumps(settings)]
    with worker(name, command, folder / "log") as hand:
        yield Side(hand, server, folder)


def _fill(server: Server, topic: str, batch_bytes: int, requests: int) -> int:
    """A topic to read, of the same bytes and the same number of rows in each partition; its rows."""
    server.create(topic, PARTITIONS)
    load = Load("produce", topic, PARTITIONS, PARTITIONS, 5, batch_bytes, requests=requests)
    return generate(server.bootstrap, load).records


def _write(bench: Bench, side: Side) -> Attempt:
    rows = bench.plan.spark_rows

    def attempt(name: str) -> float:
        with side.fresh_topic(f"write-{name}") as topic:
            figure = side.ask("write", topic=topic, rows=rows)
            _check_stored(side, topic, rows)
        return figure

    return attempt


def _read(side: Side, rows: int) -> Attempt:
    return lambda name: side.ask("read", topic=ROWS_TOPIC, rows=rows)


def _copy(side: Side, rows: int) -> Attempt:
    def attempt(name: str) -> float:
        with side.fresh_topic(f"copy-{name}") as target:
            checkpoint = str(side.folder / f"copy-{name}")
            figure = side.ask("copy", source=ROWS_TOPIC, target=target, checkpoint=checkpoint, rows=rows)
            _check_stored(side, target, rows)
        return figure

    return attempt


def _tiny(bench: Bench, side: Side) -> Attempt:
    batches = bench.plan.tiny_batches

    def attempt(name: str) -> float:
        with side.fresh_topic(f"tiny-{name}") as target:
            checkpoint = str(side.folder / f"tiny-{name}")
            figure = side.ask(
                "tiny", source=TINY_TOPIC, target=target, checkpoint=checkpoint, batches=batches
            )
            _check_stored(side, target, PARTITIONS * batches)
        return figure

    return attempt


def _check_stored(side: Side, topic: str, rows: int) -> None:
    """At least: semel's sink writes control records as well."""
    stored = sum(side.server.end_offsets(topic, PARTITIONS))
    if stored < rows:
        raise RuntimeError(f"{side.driver.name}: {stored} of {rows} rows are stored")
