"""``semel copy`` beside a loop of confluent-kafka's, which is what one writes for lack of it, and MirrorMaker 2."""

from __future__ import annotations

import subprocess
import sys

from bench.load import Load
from bench.load.generate import generate
from bench.mirror_maker import mirror
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import Server, kafka, semel

PARTITIONS = 4
TOPIC = "rows"
OURS, THEIRS, MIRROR_MAKER = "semel copy", "a loop of confluent-kafka's", "MirrorMaker 2"
BATCH_BYTES = 65_536
TIMEOUT_S = 600.0


def copying(bench: Bench) -> Section:
    """From a durable server to another one, all on the same cores."""
    with (
        semel(bench.folder / "source", durable=True, alone=False) as source,
        semel(bench.folder / "destination", durable=True, alone=False) as destination,
    ):
        rows = _fill(bench, source)
        row = _take_turns(bench, source, destination, rows, {})
    return Section(
        "Copying a topic",
        f"{PARTITIONS} partitions, rows of 100 B in batches of 64 KB, from one durable semel to another, in one "
        "process beside them on the same cores. The loop consumes, produces with an idempotent producer, flushes and "
        "commits: it is at least once. `semel copy` is exactly once, and takes no batch apart. Until the last row is "
        "acknowledged, without the start of Python.",
        (row,),
        THEIRS,
        (OURS,),
    )


def mirroring(bench: Bench) -> Section:
    """From Apache Kafka to Apache Kafka, which MirrorMaker 2 needs at both ends."""
    with (
        kafka(bench.folder / "source", durable=False, alone=False) as source,
        kafka(bench.folder / "destination", durable=False, alone=False) as destination,
    ):
        rows = _fill(bench, source)

        def mirrored(name: str) -> float:
            alias = f"mm-{name}"
            seconds = mirror(source, destination, TOPIC, PARTITIONS, alias, rows, bench.folder / alias)
            destination.delete(f"{alias}.{TOPIC}")
            return 1 / seconds / 1e6

        row = _take_turns(bench, source, destination, rows, {MIRROR_MAKER: mirrored})
    return Section(
        "Copying a topic between two Apache Kafkas",
        "The same from one node of Apache Kafka to another, each on its defaults. MirrorMaker 2 is one dedicated "
        "process on its defaults (at least once), a task for each partition, measured from its first row to its last: "
        "without its start.",
        (row,),
        MIRROR_MAKER,
        (THEIRS, OURS),
    )


def _fill(bench: Bench, source: Server) -> int:
    source.create(TOPIC, PARTITIONS)
    requests = bench.plan.filled_requests // PARTITIONS
    load = Load("produce", TOPIC, PARTITIONS, PARTITIONS, 5, BATCH_BYTES, requests=requests)
    return generate(source.bootstrap, load).records


def _take_turns(
    bench: Bench, source: Server, destination: Server, rows: int, others: dict[str, Attempt]
) -> Row:
    attempts = {
        **others,
        THEIRS: _attempt("confluent", source, destination, rows),
        OURS: _attempt("semel", source, destination, rows),
    }
    return take_turns(bench, Work(f"{rows:,} rows, topic to topic", "M rows/s", attempts))


def _attempt(how: str, source: Server, destination: Server, rows: int) -> Attempt:
    def attempt(name: str) -> float:
        prefix = f"{how}-{name}."
        destination.create(prefix + TOPIC, PARTITIONS)
        command = [
            sys.executable,
            "-m",
            "bench.copy_job",
            how,
            source.bootstrap,
            destination.bootstrap,
            TOPIC,
            prefix,
        ]
        done = subprocess.run(
            [*command, str(rows)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        stored = sum(destination.end_offsets(prefix + TOPIC, PARTITIONS))
        if stored < rows:
            raise RuntimeError(f"{stored} rows of {rows} were copied")
        destination.delete(prefix + TOPIC)
        return rows / float(done.stdout) / 1e6

    return attempt
