"""``semel copy`` beside a loop of confluent-kafka's, which is what one writes for lack of it."""

from __future__ import annotations

import subprocess
import sys

from bench.load import Load
from bench.load.generate import generate
from bench.results import Section
from bench.sections import Bench
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import Server, semel

PARTITIONS = 4
TOPIC = "rows"
OURS, THEIRS = "semel copy", "a loop of confluent-kafka's"
BATCH_BYTES = 65_536
TIMEOUT_S = 600.0


def copying(bench: Bench) -> Section:
    """From a durable server to another one, all on the same cores."""
    with (
        semel(bench.folder / "source", durable=True, alone=False) as source,
        semel(bench.folder / "destination", durable=True, alone=False) as destination,
    ):
        source.create(TOPIC, PARTITIONS)
        requests = bench.plan.filled_requests // PARTITIONS
        load = Load("produce", TOPIC, PARTITIONS, PARTITIONS, 5, BATCH_BYTES, requests=requests)
        rows = generate(source.bootstrap, load).records
        attempts = {
            THEIRS: _attempt("confluent", source, destination, rows),
            OURS: _attempt("semel", source, destination, rows),
        }
        row = take_turns(bench, Work(f"{rows:,} rows, topic to topic", "M rows/s", attempts))
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
