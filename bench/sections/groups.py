"""Consumer groups: how soon one is stable, how many commits a second, and what members cost that only live."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from contextlib import ExitStack

from bench.pinning import LOAD_CPUS, pinned
from bench.results import Row, Section
from bench.sections import Bench
from bench.servers import KAFKA, SEMEL, Server, kafka, semel
from bench.worker import Worker, worker

TOPIC = "rows"
JOINING = 200
IDLE, IDLE_GROUPS = 1_000, 10
COMMITTERS = 32
TIMEOUT_S = 120.0
FORM = f"{JOINING} members join a group, until it is stable"
COMMIT = f"offset commits, {COMMITTERS} x 1"
LIVE = f"{IDLE:,} members of {IDLE_GROUPS} groups that only live"


def groups(bench: Bench) -> Section:
    """Both with ``group.initial.rebalance.delay.ms=0``: else the first rebalance measures that."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ExitStack() as stack:
        servers = [
            stack.enter_context(kafka(bench.folder / "kafka", durable=False)),
            stack.enter_context(semel(bench.folder / "semel", durable=True)),
        ]
        loads = {}
        for server in servers:
            command = [*pinned(LOAD_CPUS[0]), sys.executable, "-m", "bench.group_load", server.bootstrap]
            loads[server.name] = stack.enter_context(
                worker(server.name, command, bench.folder / f"{server.name}.log")
            )
            server.create(TOPIC, 1)
            _warm_up(bench, server, loads[server.name])
        for number in range(bench.plan.rounds):
            for server in servers if number % 2 == 0 else reversed(servers):
                for work, figure in _round(bench, server, loads[server.name]).items():
                    samples[work][server.name].append(figure)
                    bench.tell(f"{work}: {server.name} {figure:,.4g}")
    return Section(
        "Consumer groups",
        "The server under test has one core to itself, the members another: raw sockets and the bare protocol, so "
        "that no client's delays are measured. Neither waits before a group's first rebalance "
        "(`group.initial.rebalance.delay.ms=0`), members send a heartbeat every 50 ms while their group forms, and "
        f"every three seconds when they only live. *{SEMEL}* syncs a commit before it answers, {KAFKA} does not: each "
        "by its default.",
        (
            Row(FORM, "s", dict(samples[FORM]), less_is_better=True),
            Row(COMMIT, "commits/s", dict(samples[COMMIT])),
            Row(LIVE, "% of a core", dict(samples[LIVE]), less_is_better=True),
        ),
        KAFKA,
        (SEMEL,),
    )


def _warm_up(bench: Bench, server: Server, load: Worker) -> None:
    end_s = time.monotonic() + bench.plan.warm_up_s
    while time.monotonic() < end_s:
        load.ask(TIMEOUT_S, job="commit", topic=TOPIC, connections=COMMITTERS, seconds=1.0)
        _form(load, JOINING, 1)
        load.ask(TIMEOUT_S, job="leave")
    bench.tell(f"{server.name} is warm")


def _round(bench: Bench, server: Server, load: Worker) -> dict[str, float]:
    os.sync()
    found = {FORM: _form(load, JOINING, 1)}
    load.ask(TIMEOUT_S, job="leave")
    commit = {"topic": TOPIC, "connections": COMMITTERS, "seconds": bench.plan.seconds}
    found[COMMIT] = load.ask(TIMEOUT_S, job="commit", **commit)
    _form(load, IDLE, IDLE_GROUPS)
    load.ask(TIMEOUT_S, job="rest")
    load.ask(TIMEOUT_S, job="live", seconds=1.0)
    cpu_s = server.cpu_s
    lived_s = load.ask(TIMEOUT_S, job="live", seconds=2 * bench.plan.seconds)
    found[LIVE] = 100 * (server.cpu_s - cpu_s) / lived_s
    load.ask(TIMEOUT_S, job="leave")
    return found


def _form(load: Worker, members: int, groups: int) -> float:
    return float(load.ask(TIMEOUT_S, job="join", members=members, groups=groups))
