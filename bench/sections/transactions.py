"""Transactions: what they cost, how soon one is over, and what open ones cost those who read elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

from tests.peers.apache_kafka import JavaTool
from tests.peers.parts import Missing, find_java, find_kafka_jars

from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.turns import Attempt, Work, take_turns
from bench.servers import KAFKA, SEMEL, Server, kafka, semel
from bench.worker import Worker, worker

PERFORMANCE: Final = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTION_MS: Final = 100
OPEN: Final = 1_000
FETCH_BYTES: Final = 64 * 1024
TIMEOUT_S: Final = 600.0
_WITHOUT, _WITH = "without", "with"
_PERFORMANCE_WORK: Final = f"ProducerPerformance, 100 B, a transaction each {TRANSACTION_MS} ms"
_RATE = re.compile(r"([\d.]+) records/sec")


def transactions(bench: Bench) -> Section:
    """Kafka as its defaults are where both may be, and ``flush.messages=1`` where one row is waited for."""
    rows = [_throughput(bench), *_latencies(bench), _copying(bench)]
    return Section(
        "Transactions",
        f"*{SEMEL}* is durable everywhere; {KAFKA} is as its defaults are, but where one row is waited for: there it "
        f"syncs each message (`flush.messages=1`), too. ProducerPerformance is Kafka's own, with rows of 100 B, all "
        f"settings its defaults, and a transaction each {TRANSACTION_MS} ms, by KIP-890's protocol. librdkafka copies, "
        "by the older one; its own time is most of what it takes for one row, so that is measured by the bare protocol "
        "of KIP-890, too. Client and server on all cores.",
        tuple(rows),
        KAFKA,
        (SEMEL,),
    )


def transaction_costs(bench: Bench) -> Section:
    """What there is without one, beside the same with one, on semel alone."""
    return Section(
        "What transactions cost on semel",
        f"Kafka's ProducerPerformance, 100 B, without transactions and with one each {TRANSACTION_MS} ms; and one "
        f"reader of what is committed, {FETCH_BYTES // 1024} KB a fetch, beside no open transaction and beside "
        f"{OPEN:,} of other producers on other partitions. A durable server; all cores.",
        (_cost(bench), _beside_open_ones(bench)),
        _WITHOUT,
        (_WITH,),
    )


def _throughput(bench: Bench) -> Row:
    with ExitStack() as stack:
        servers = [
            stack.enter_context(kafka(bench.folder / "kafka-default", durable=False, alone=False)),
            stack.enter_context(semel(bench.folder / "semel-throughput", durable=True, alone=False)),
        ]
        attempts = {server.name: partial(_performance, bench, server, True) for server in servers}
        return take_turns(
            bench,
            Work(
                f"ProducerPerformance, 100 B, a transaction each {TRANSACTION_MS} ms", "M records/s", attempts
            ),
        )


def _cost(bench: Bench) -> Row:
    with semel(bench.folder / "semel-cost", durable=True, alone=False) as server:
        attempts: dict[str, Attempt] = {
            _WITHOUT: partial(_performance, bench, server, False),
            _WITH: partial(_performance, bench, server, True),
        }
        return take_turns(bench, Work(_PERFORMANCE_WORK, "M records/s", attempts))


def _performance(bench: Bench, server: Server, in_transactions: bool, topic: str) -> float:
    server.create(topic, 1)
    given = ["--topic", topic, "--num-records", str(bench.plan.producer_rows), "--record-size", "100"]
    given += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={server.bootstrap}"]
    if in_transactions:
        given += ["--transactional-id", topic, "--transaction-duration-ms", str(TRANSACTION_MS)]
    command = _java().command(PERFORMANCE, *given, heap_mb=1024)
    told = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    server.delete(topic)
    return float(_RATE.findall(told)[-1]) / 1e6


def _latencies(bench: Bench) -> Iterator[Row]:
    """By a client, whose own time is in it, and by the bare protocol, which is the servers' alone."""
    with ExitStack() as stack:
        hands = [
            (server, _hand(bench, stack, server, "latency"))
            for server in (
                stack.enter_context(kafka(bench.folder / "kafka-durable", durable=True, alone=False)),
                stack.enter_context(semel(bench.folder / "semel-latency", durable=True, alone=False)),
            )
        ]
        for job, who in (("one row", "librdkafka"), ("bare row", "the bare protocol")):
            attempts: dict[str, Attempt] = {
                server.name: partial(_one_row, server, hand, job, 50 * bench.plan.rounds)
                for server, hand in hands
            }
            work = f"begin, one row, commit: p50, {who}"
            yield take_turns(bench, Work(work, "ms", attempts, less_is_better=True))


def _one_row(server: Server, hand: Worker, job: str, count: int, topic: str) -> float:
    server.create(topic, 1)
    return float(hand.ask(TIMEOUT_S, job=job, topic=topic, transactions=count))


def _copying(bench: Bench) -> Row:
    with ExitStack() as stack:
        attempts: dict[str, Attempt] = {}
        for server in (
            stack.enter_context(kafka(bench.folder / "kafka-copying", durable=False, alone=False)),
            stack.enter_context(semel(bench.folder / "semel-copying", durable=True, alone=False)),
        ):
            hand = _hand(bench, stack, server, "copying")
            attempts[server.name] = partial(_copy, server, hand, bench.plan.producer_rows // 4)
        work = f"consume, transform, produce, a transaction each {TRANSACTION_MS} ms"
        return take_turns(bench, Work(work, "rows/s", attempts))


def _copy(server: Server, hand: Worker, rows: int, topic: str) -> float:
    for name in (topic, f"{topic}-out"):
        server.create(name, 1)
    hand.ask(TIMEOUT_S, job="fill", topic=topic, rows=rows)
    figure = float(hand.ask(TIMEOUT_S, job="copy", topic=topic, rows=rows, every_ms=TRANSACTION_MS))
    for name in (topic, f"{topic}-out"):
        server.delete(name)
    return figure


def _beside_open_ones(bench: Bench) -> Row:
    """In turns: the thousand are opened and ended again around each of theirs."""
    with ExitStack() as stack:
        server = stack.enter_context(semel(bench.folder / "semel-reading", durable=True, alone=False))
        hand = _hand(bench, stack, server, "reading")
        server.create("read", 1)
        server.create("open", OPEN)
        hand.ask(TIMEOUT_S, job="fill", topic="read", rows=100_000)
        fetch = {"topic": "read", "size_bytes": FETCH_BYTES, "seconds": bench.plan.seconds}

        def beside(count: int, _: str) -> float:
            if count:
                hand.ask(TIMEOUT_S, job="open", topic="open", count=count)
            figure = float(hand.ask(TIMEOUT_S, job="fetch", **fetch))
            if count:
                hand.ask(TIMEOUT_S, job="end")
            return figure

        attempts: dict[str, Attempt] = {_WITHOUT: partial(beside, 0), _WITH: partial(beside, OPEN)}
        return take_turns(bench, Work(f"read_committed, {OPEN:,} open", "fetches/s", attempts))


def _hand(bench: Bench, stack: ExitStack, server: Server, what: str) -> Worker:
    command = [sys.executable, "-m", "bench.transaction_load", server.bootstrap]
    return stack.enter_context(worker(server.name, command, bench.folder / f"{what}-{server.name}.log"))


def _java() -> JavaTool:
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            raise SystemExit(f"no benchmark of transactions without Kafka's tools: {part.why}")
    assert not isinstance(java, Missing) and not isinstance(jars, Missing)
    return JavaTool(java, jars)
