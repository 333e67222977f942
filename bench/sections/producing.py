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
TABLE_BATCH_BYTES = 1_000_000  # what send_table cuts; the Java producer's default is 16 KB
JAVA_PROGRAM = Path(__file__).resolve().parents[1] / "java" / "SendRecords.java"

Job = dict[str, bool | int]

JAVA = "Java producer, Apache Kafka"
LIKE = "send_table, semel with page cache"
DURABLE = "send_table, semel durable"
ON_KAFKA = "send_table, Apache Kafka"

# Name, whether rows have keys, and the Java producer's batch.size (0: its default).
_KINDS = (
    ("8 B key, 100 B value; Java with batches of 1 MB, too", True, TABLE_BATCH_BYTES),
    ("no key, 100 B value; Java with its default of 16 KB", False, 0),
)


def producer(bench: Bench) -> Section:
    with ExitStack() as stack:
        folder = bench.folder
        theirs = stack.enter_context(kafka(folder / "kafka", durable=False, alone=False))
        durable = stack.enter_context(semel(folder / "durable", durable=True, alone=False))
        page_cache = stack.enter_context(semel(folder / "page-cache", durable=False, alone=False))
        table = [sys.executable, "-m", "bench.send_table"]
        plans = {
            JAVA: (java_command(), theirs),
            LIKE: (table, page_cache),
            DURABLE: (table, durable),
            ON_KAFKA: (table, theirs),
        }
        sides = {}
        for number, (name, (command, server)) in enumerate(plans.items()):
            log = folder / f"worker-{number}.log"
            hand = stack.enter_context(worker(name, [*command, server.bootstrap], log))
            sides[name] = hand, server
        works = []
        for name, keyed, java_batch_bytes in _KINDS:
            jobs: dict[str, Job] = {contender: {"keyed": keyed} for contender in sides}
            jobs[JAVA]["batch_bytes"] = java_batch_bytes
            attempts = {who: _attempt(bench, *sides[who], job) for who, job in jobs.items()}
            works.append(Work(name, "M records/s", attempts))
        rows = tuple(take_turns(bench, work) for work in works)
    return Section(
        "Producer: `send_table` beside Kafka's Java producer",
        f"{bench.plan.producer_rows:,} records, acks=all, idempotent, no compression, 4 partitions, keys spread by "
        "murmur2; one producer in a process of its own, client and server on all cores. *Like for like* are the "
        "first two: neither server syncs. *Durable* does, before it acknowledges; on *Apache Kafka* both clients "
        "have the same server. Java makes its records from keys and values built beforehand, as the table is, and "
        "sends them one by one, for it has nothing else; its heap, collector, linger and buffers are the defaults. "
        "send_table cuts batches of 1 MB.",
        rows,
        JAVA,
        (LIKE, DURABLE, ON_KAFKA),
    )


def java_command() -> list[str]:
    """Java compiles the one-file program itself; the classes of kafka-clients are all it needs."""
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            raise SystemExit(f"no benchmark without Kafka's Java producer: {part.why}")
    assert isinstance(jars, Path)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(java), quiet, "-cp", f"{jars}/*", str(JAVA_PROGRAM)]


def _attempt(bench: Bench, hand: Worker, server: Server, job: Job) -> Attempt:
    def attempt(topic: str) -> float:
        rows = bench.plan.producer_rows
        server.create(topic, PARTITIONS)
        try:
            seconds = hand.ask(TIMEOUT_S, topic=topic, rows=rows, **job)
            stored = sum(server.end_offsets(topic, PARTITIONS))
        finally:
            server.delete(topic)
        if stored != rows:
            raise RuntimeError(f"{hand.name}: {stored} of {rows} records are stored")
        return rows / float(seconds) / 1e6

    return attempt
