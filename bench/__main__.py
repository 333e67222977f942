"""``python -m bench [--quick] [--folder DIR]``: every section, both servers, one table in bench/RESULTS.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench import results
from bench.load import Measured
from bench.servers import LOAD_CPU, Server, kafka, semel

PARTITIONS = 4
KIB, MIB = 1024, 1024 * 1024
MEGABYTE_BATCH = 1_000_000  # below message.max.bytes, which counts the header too
Start = Callable[..., AbstractContextManager[Server]]


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the table: a load, and whether each server syncs before it acknowledges."""

    name: str
    mode: str
    connections: int
    in_flight: int
    batch_bytes: int
    semel_durable: bool = False
    kafka_durable: bool = False

    @property
    def unit(self) -> str:
        return "req/s" if self.batch_bytes == 0 else "MB/s"

    def figure(self, measured: Measured) -> float:
        return measured.requests_per_s if self.batch_bytes == 0 else measured.megabytes_per_s


WORKS = (
    Work("ingest 1 MB, 4 x 5 in flight, page cache", "produce", 4, 5, MEGABYTE_BATCH),
    Work("ingest 64 KB, 4 x 5, page cache", "produce", 4, 5, 64 * KIB),
    Work("ingest 64 KB, 4 x 5, both durable", "produce", 4, 5, 64 * KIB, True, True),
    Work("one record, 4 x 5, semel durable, Kafka not", "produce", 4, 5, 0, True, False),
    Work("one record, 8 x 1, semel durable, Kafka not", "produce", 8, 1, 0, True, False),
    Work("one record, 4 x 5, both durable", "produce", 4, 5, 0, True, True),
    Work("fetch 1 MB", "fetch", 4, 1, MIB),
    Work("fetch 64 KB", "fetch", 4, 1, 64 * KIB),
)
FETCHED_S = 4.0  # how long the fetched topic is filled for


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how often: the quick plan says what the full one says, with more noise."""

    rounds: int
    seconds: float
    warm_up_s: float


QUICK = Plan(rounds=1, seconds=2.0, warm_up_s=4.0)
FULL = Plan(rounds=5, seconds=5.0, warm_up_s=15.0)


def measure(server: Server, work: Work, topic: str, seconds: float) -> Measured:
    """Run the load generator on its own core."""
    arguments = (work.mode, server.bootstrap, topic, PARTITIONS, work.connections, work.in_flight)
    command = ["taskset", "-c", str(LOAD_CPU), sys.executable, "-m", "bench.load"]
    command += [str(each) for each in (*arguments, work.batch_bytes, seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{work.name} on {server.name}:\n{done.stderr}")
    return Measured(**json.loads(done.stdout))


def create(server: Server, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def run_works(
    start: Start, works: list[Work], folder: Path, plan: Plan, *, durable: bool
) -> dict[str, list[float]]:
    """All of one server's works at one durability: figures by name, memory and time to ready too."""
    found: dict[str, list[float]] = {}
    with start(folder, durable=durable) as server:
        print(f"{server.name}{' (durable)' if durable else ''}", file=sys.stderr)
        found["ready"] = [server.ready_after_s]
        found["idle"] = [server.resident_mb]
        for number, work in enumerate(works):
            topic = f"bench-{number}"
            create(server, topic)
            if work.mode == "fetch":
                filling = Work("filling", "produce", 4, 5, 64 * KIB)
                measure(server, filling, topic, FETCHED_S)
            measure(server, work, topic, plan.warm_up_s if server.name != "semel" else 1.0)
            runs = [measure(server, work, topic, plan.seconds) for _ in range(plan.rounds)]
            found[work.name] = [work.figure(each) for each in runs]
            shown = ", ".join(f"{value:,.0f}" for value in found[work.name])
            print(f"  {work.name}: {shown} {work.unit}", file=sys.stderr)
        found["loaded"] = [server.resident_mb]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most four minutes, more noise")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: temporary)")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        figures = {}
        for name, start in (("semel", semel), ("kafka", kafka)):
            for durable in (False, True):
                works = [each for each in WORKS if getattr(each, f"{name}_durable") == durable]
                folder = Path(scratch) / f"{name}-{durable}"
                figures[name, durable] = run_works(start, works, folder, plan, durable=durable)
    rows = [
        results.Row(
            work.name,
            work.unit,
            figures["semel", work.semel_durable][work.name],
            figures["kafka", work.kafka_durable][work.name],
        )
        for work in WORKS
    ]
    for what, key, unit in (
        ("time to ready", "ready", "s"),
        ("memory, idle", "idle", "MB"),
        ("memory, loaded", "loaded", "MB"),
    ):
        ours, theirs = figures["semel", False][key], figures["kafka", False][key]
        rows.append(results.Row(what, unit, ours, theirs, less_is_better=True))
    results.write(rows, "python -m bench" + (" --quick" if arguments.quick else ""), LEFT_OUT)


LEFT_OUT = (
    "`send_table` beside Kafka's Java producer",
    "Spark: write, read, topic to topic, fixed cost of a micro-batch, beside Spark's Kafka connector",
)

if __name__ == "__main__":
    main()
