"""The servers alone: each on its own core, under the load generator. Ingest, requests, fetch."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bench.load import ONE_RECORD, Load, Measured
from bench.load.generate import generate
from bench.results import Row, Section
from bench.sections import Bench
from bench.servers import KAFKA, SEMEL, Server, kafka, semel

PARTITIONS = 4
KIB, MIB = 1024, 1024 * 1024
MEGABYTE_BATCH = 1_000_000  # below message.max.bytes, which counts the header too


@dataclass(frozen=True, slots=True)
class Work:
    """One row: a load (its topic and length are filled in later), and the unit that it is told in."""

    name: str
    load: Load

    @property
    def unit(self) -> str:
        return "req/s" if self.load.batch_bytes == ONE_RECORD else "MB/s"

    def figure(self, measured: Measured) -> float:
        return measured.requests_per_s if self.unit == "req/s" else measured.megabytes_per_s


def _produce(connections: int, in_flight: int, batch_bytes: int) -> Load:
    return Load("produce", "", PARTITIONS, connections, in_flight, batch_bytes)


def _fetch(fetch_bytes: int) -> Load:
    return Load("fetch", "", PARTITIONS, 4, 1, 64 * KIB, fetch_bytes)


INGEST_1_MB = Work("ingest 1 MB, 4 x 5", _produce(4, 5, MEGABYTE_BATCH))
INGEST_64_KB = Work("ingest 64 KB, 4 x 5", _produce(4, 5, 64 * KIB))
ONE_RECORD_PIPELINED = Work("one record, 4 x 5", _produce(4, 5, ONE_RECORD))
ONE_RECORD_ALONE = Work("one record, 8 x 1", _produce(8, 1, ONE_RECORD))
FETCH_1_MB = Work("fetch 1 MB, 4 x 1", _fetch(MIB))
FETCH_64_KB = Work("fetch 64 KB, 4 x 1", _fetch(64 * KIB))
WORKS = (INGEST_1_MB, INGEST_64_KB, ONE_RECORD_PIPELINED, ONE_RECORD_ALONE, FETCH_1_MB, FETCH_64_KB)

_ABOUT = (
    "Each server has one core, the load generator another (`4 x 5`: 4 connections with 5 requests unanswered). "
    "Records of 8 B keys and 100 B values, idempotent producers, acks=all. "
)


@dataclass(frozen=True, slots=True)
class Watched:
    """A measurement, and the share of its core that the server was busy meanwhile."""

    measured: Measured
    server_busy: float


def ingest(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Ingest, page cache",
        "Neither server syncs before it acknowledges.",
        (INGEST_1_MB, INGEST_64_KB),
    )


def durable(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Ingest, durable",
        "Both sync before they acknowledge: semel by its default, Kafka by `log.flush.interval.messages=1`.",
        (INGEST_1_MB, INGEST_64_KB, ONE_RECORD_PIPELINED, ONE_RECORD_ALONE),
        semel_durable=True,
        kafka_durable=True,
    )


def requests(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Requests of one record",
        "semel syncs before it acknowledges, Kafka does not: each by its default.",
        (ONE_RECORD_PIPELINED, ONE_RECORD_ALONE),
        semel_durable=True,
    )


def fetch(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Fetch",
        "One request at a time on each connection, from the page cache; the stored batches have 64 KB.",
        (FETCH_1_MB, FETCH_64_KB),
    )


def _side_by_side(
    bench: Bench,
    title: str,
    about: str,
    works: tuple[Work, ...],
    *,
    semel_durable: bool = False,
    kafka_durable: bool = False,
) -> Section:
    rows, notes = [], []
    with ExitStack() as stack:
        servers = [
            stack.enter_context(semel(bench.folder / "semel", durable=semel_durable)),
            stack.enter_context(kafka(bench.folder / "kafka", durable=kafka_durable)),
        ]
        for work in works:
            watched = _take_turns(bench, servers, work)
            samples = {name: [work.figure(each.measured) for each in runs] for name, runs in watched.items()}
            rows.append(Row(work.name, work.unit, samples))
            notes.append(_note(work, watched))
    return Section(title, _ABOUT + about, (SEMEL, KAFKA), tuple(rows), tuple(notes))


def _take_turns(bench: Bench, servers: list[Server], work: Work) -> dict[str, list[Watched]]:
    """Warm up each server, then measure them round by round, who begins alternating."""
    plan = bench.plan
    for server in servers:
        with_topic(bench, server, replace(work.load, topic="warm-up", seconds=plan.warm_up_s))
    found = defaultdict(list)
    for number in range(plan.rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            load = replace(work.load, topic=f"round-{number}", seconds=plan.seconds)
            watched = with_topic(bench, server, load)
            found[server.name].append(watched)
            figure = work.figure(watched.measured)
            bench.tell(f"{work.name}: {server.name} {figure:,.0f} {work.unit}")
    return found


def with_topic(bench: Bench, server: Server, load: Load) -> Watched:
    """Run a load on a topic of its own: made, filled when the load is to read, checked, and deleted."""
    server.create(load.topic, load.partitions)
    try:
        if load.mode == "fetch":
            filling = replace(_produce(4, 5, load.batch_bytes), topic=load.topic)
            generate(server.bootstrap, replace(filling, requests=bench.plan.filled_requests))
        watched = _watch(server, load)
        if load.mode == "produce":
            stored = sum(server.end_offsets(load.topic, load.partitions))
            if stored != watched.measured.records:
                raise RuntimeError(
                    f"{server.name} acknowledged {watched.measured.records} records, has {stored}"
                )
    finally:
        server.delete(load.topic)
    return watched


def _watch(server: Server, load: Load) -> Watched:
    before_s = 0.0

    def at_start() -> None:
        nonlocal before_s
        before_s = server.cpu_s

    measured = generate(server.bootstrap, load, at_start)
    return Watched(measured, (server.cpu_s - before_s) / measured.seconds)


def _note(work: Work, watched: dict[str, list[Watched]]) -> str:
    """Where the time went: latency, and who was busy. A generator near 100 % would be the bottleneck."""
    parts = []
    for name, runs in watched.items():
        middle = sorted(runs, key=lambda each: each.measured.p50_ms)[len(runs) // 2]
        parts.append(
            f"{name} p50 {middle.measured.p50_ms:.2f} ms, p99 {middle.measured.p99_ms:.2f} ms, server busy "
            f"{middle.server_busy:.0%}, load generator {middle.measured.busy:.0%}"
        )
    return f"{work.name}: {'; '.join(parts)}"
