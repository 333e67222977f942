"""``send_table`` beside Kafka's Java producer."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from tests.peers.parts import Missing, find_java, find_kafka_jars

from bench.results import Section
from bench.sections import Bench
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import Server, kafka, semel
from bench.worker import Worker, worker

PARTITIONS = 4
TIMEOUT_S = 120.0
LARGE_BATCH_BYTES = 262_144  # send_table's default; the Java producer's is 16 KB
JAVA_PROGRAM = Path(__file__).resolve().parents[1] / "java" / "SendRecords.java"

OURS, THEIRS = "send_table, semel", "Java producer, Apache Kafka"
OURS_ON_KAFKA, THEIRS_ON_SEMEL = "send_table, Apache Kafka", "Java producer, semel"
CONTENDERS = (OURS, THEIRS, OURS_ON_KAFKA, THEIRS_ON_SEMEL)

# Name, whether rows have keys, and the size of a batch (0: each producer's default).
_KINDS = (
    ("100 B, no key, default batches", False, 0),
    ("100 B, no key, 256 KB batches", False, LARGE_BATCH_BYTES),
    ("8 B key, 100 B value, 256 KB batches", True, LARGE_BATCH_BYTES),
)


def producer(bench: Bench) -> Section:
    with ExitStack() as stack:
        ours = stack.enter_context(semel(bench.folder / "semel", durable=True, alone=False))
        theirs = stack.enter_context(kafka(bench.folder / "kafka", durable=False, alone=False))

        def start(name: str, command: list[str], server: Server) -> tuple[Worker, Server]:
            log = bench.folder / f"worker-{CONTENDERS.index(name)}.log"
            return stack.enter_context(worker(name, [*command, server.bootstrap], log)), server

        table, records = [sys.executable, "-m", "bench.send_table"], java_command()
        sides = {
            OURS: start(OURS, table, ours),
            THEIRS: start(THEIRS, records, theirs),
            OURS_ON_KAFKA: start(OURS_ON_KAFKA, table, theirs),
            THEIRS_ON_SEMEL: start(THEIRS_ON_SEMEL, records, ours),
        }
        works = [
            Work(
                name,
                "M records/s",
                {
                    contender: _attempt(bench, *side, keyed=keyed, batch_bytes=batch_bytes)
                    for contender, side in sides.items()
                },
            )
            for name, keyed, batch_bytes in _KINDS
        ]
        rows = tuple(take_turns(bench, work) for work in works)
    return Section(
        "Producer: `send_table` beside Kafka's Java producer",
        f"{bench.plan.producer_rows:,} records, acks=all, idempotent; one producer, client and server on all "
        "cores. The servers are as they come: semel syncs before it acknowledges, Kafka does not. Java makes its "
        "records from values and keys built beforehand, as the table is.",
        CONTENDERS,
        rows,
    )


def java_command() -> list[str]:
    """Java compiles the one-file program itself; the classes of kafka-clients are all it needs."""
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            raise SystemExit(f"no benchmark without Kafka's Java producer: {part.why}")
    assert isinstance(jars, Path)
    return [
        str(java),
        "-Xmx1g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        f"{jars}/*",
        str(JAVA_PROGRAM),
    ]


def _attempt(bench: Bench, hand: Worker, server: Server, *, keyed: bool, batch_bytes: int) -> Attempt:
    def attempt(topic: str) -> float:
        rows = bench.plan.producer_rows
        name = f"{topic}-{'keyed' if keyed else 'plain'}-{batch_bytes}"
        server.create(name, PARTITIONS)
        try:
            seconds = hand.ask(TIMEOUT_S, topic=name, rows=rows, keyed=keyed, batch_bytes=batch_bytes)
            stored = sum(server.end_offsets(name, PARTITIONS))
        finally:
            server.delete(name)
        if stored != rows:
            raise RuntimeError(f"{hand.name}: {stored} of {rows} records are stored")
        return rows / float(seconds) / 1e6

    return attempt
