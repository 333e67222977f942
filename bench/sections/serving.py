"""The servers under the load generator, on different cores. Ingest, requests, fetch."""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

from bench import disk
from bench.load import ONE_RECORD, Load, Measured
from bench.load.generate import generate
from bench.results import Row, Section
from bench.sections import Bench
from bench.servers import KAFKA, PAGE_CACHE, SEMEL, Server, kafka, semel

PARTITIONS = 4
KIB, MIB = 1024, 1024 * 1024
STORED_TOPIC = "stored"
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

_numbers = itertools.count()  # of topics: no name is used twice

_ABOUT = (
    "The server under test has one core to itself, the load generator another (`4 x 5`: 4 connections with 5 "
    "requests unanswered each). Records of 8 B keys and 100 B values, idempotent producers, acks=all; either server "
    "is sent the same bytes. "
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
        {
            KAFKA: kafka(bench.folder / "kafka", durable=False),
            SEMEL: semel(bench.folder / "semel", durable=False),
        },
    )


def durable(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Ingest, durable",
        "Both sync before they acknowledge: semel by its default (one fdatasync for all requests that wait), Kafka "
        "by `log.flush.interval.messages=1` (one for each; its usual way to durability is more than one machine). "
        f"The disk takes {disk.sync_ms(bench.folder).median:.2f} ms to sync an append of 4 KB.",
        (INGEST_1_MB, INGEST_64_KB),
        {
            KAFKA: kafka(bench.folder / "kafka", durable=True),
            SEMEL: semel(bench.folder / "semel", durable=True),
        },
    )


def requests(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Requests of one record",
        f"*{SEMEL}* syncs before it acknowledges, Kafka does not: each by its default. *{PAGE_CACHE}* promises "
        "what Kafka does.",
        (ONE_RECORD_PIPELINED, ONE_RECORD_ALONE),
        {
            KAFKA: kafka(bench.folder / "kafka", durable=False),
            SEMEL: semel(bench.folder / "semel", durable=True),
            PAGE_CACHE: semel(bench.folder / "semel-page-cache", durable=False, name=PAGE_CACHE),
        },
    )


def fetch(bench: Bench) -> Section:
    return _side_by_side(
        bench,
        "Fetch",
        "One request at a time on each connection, from the page cache; the stored batches have 64 KB. The "
        "generator looks at the head of each answer and has the kernel drop the records.",
        (FETCH_1_MB, FETCH_64_KB),
        {
            KAFKA: kafka(bench.folder / "kafka", durable=False),
            SEMEL: semel(bench.folder / "semel", durable=False),
        },
    )


def _side_by_side(
    bench: Bench,
    title: str,
    about: str,
    works: tuple[Work, ...],
    contenders: Mapping[str, AbstractContextManager[Server]],
) -> Section:
    """The first of the contenders is the rival of the others."""
    rows, notes = [], []
    with ExitStack() as stack:
        servers = [stack.enter_context(server) for server in contenders.values()]
        for work in works:
            watched = take_turns(bench, servers, work)
            samples = {name: [work.figure(each.measured) for each in runs] for name, runs in watched.items()}
            rows.append(Row(work.name, work.unit, samples))
            notes.append(_note(work, watched))
    rival, *ours = contenders
    return Section(title, _ABOUT + about, tuple(rows), rival, tuple(ours), notes=tuple(notes))


def take_turns(bench: Bench, servers: list[Server], work: Work) -> dict[str, list[Watched]]:
    """Warm up each server, then measure them round by round, who begins alternating."""
    plan = bench.plan
    found = defaultdict(list)
    attempt = written if work.load.mode == "produce" else _read
    for server in servers:
        if work.load.mode == "fetch":
            _fill(bench, server, work.load)
        attempt(server, replace(work.load, seconds=plan.warm_up_s))
    for number in range(plan.rounds):
        for server in servers if number % 2 == 0 else reversed(servers):
            os.sync()  # nobody pays for what another has left to write
            watched = attempt(server, replace(work.load, seconds=plan.seconds))
            found[server.name].append(watched)
            bench.tell(f"{work.name}: {server.name} {work.figure(watched.measured):,.0f} {work.unit}")
    for server in servers:
        if work.load.mode == "fetch":
            server.delete(STORED_TOPIC)
    return {server.name: found[server.name] for server in servers}


def written(server: Server, load: Load) -> Watched:
    """Run a load that writes on a topic of its own, and count what is stored."""
    load = replace(load, topic=f"written-{next(_numbers)}")
    server.create(load.topic, load.partitions)
    try:
        watched = _watch(server, load)
        stored = sum(server.end_offsets(load.topic, load.partitions))
    finally:
        server.delete(load.topic)
    if stored != watched.measured.records:
        raise RuntimeError(f"{server.name} acknowledged {watched.measured.records} records, has {stored}")
    return watched


def _fill(bench: Bench, server: Server, load: Load) -> None:
    server.create(STORED_TOPIC, load.partitions)
    filling = replace(_produce(4, 5, load.batch_bytes), topic=STORED_TOPIC)
    generate(server.bootstrap, replace(filling, requests=bench.plan.filled_requests))


def _read(server: Server, load: Load) -> Watched:
    return _watch(server, replace(load, topic=STORED_TOPIC))


def _watch(server: Server, load: Load) -> Watched:
    """Run a load, and look how busy the server is."""
    cpu_s = started_s = 0.0

    def at_start() -> None:
        nonlocal cpu_s, started_s
        cpu_s, started_s = server.cpu_s, time.monotonic()

    measured = generate(server.bootstrap, load, at_start)
    return Watched(measured, (server.cpu_s - cpu_s) / (time.monotonic() - started_s))


def _note(work: Work, watched: dict[str, list[Watched]]) -> str:
    """Where the time went: latency, and who was busy. A generator near 100 % would be the bottleneck.

    The figure for a whole core holds on a busy machine, too, where a server has to wait for its core.
    """
    parts = []
    for name, runs in watched.items():
        middle = sorted(runs, key=lambda each: each.measured.p50_ms)[len(runs) // 2]
        whole_core = work.figure(middle.measured) / middle.server_busy if middle.server_busy else 0.0
        parts.append(
            f"{name} p50 {middle.measured.p50_ms:.2f} ms, p99 {middle.measured.p99_ms:.2f} ms, server busy "
            f"{middle.server_busy:.0%} (for a whole core that makes {whole_core:,.0f} {work.unit}), load generator "
            f"{middle.measured.busy:.0%}"
        )
    return f"{work.name}: {'; '.join(parts)}"
