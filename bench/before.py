"""``python -m bench.before COMMIT``: this checkout beside an earlier one, so that nothing gets slower unseen.

The two take turns, round by round, at the works of the page; a row's ratio is the median of its rounds, and
behind it stands between which of them the true one lies with a certainty of 95 %. Above 1 the newer one is
faster. Both run on this checkout's Python and libraries, and the load generator is this checkout's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import machine
from bench.figures import interval_of_median
from bench.plan import FULL
from bench.render import figure
from bench.results import Row
from bench.sections import Bench
from bench.sections.bursts import PAIRS_A_ROUND, Side, generating_here, in_pairs
from bench.sections.producing import LIKE, PARTITIONS, TIMEOUT_S
from bench.sections.serving import (
    FETCH_1_MB,
    FETCH_64_KB,
    INGEST_1_MB,
    INGEST_64_KB,
    ONE_RECORD_ALONE,
    ONE_RECORD_PIPELINED,
    Work,
    take_turns,
)
from bench.sections.spark import driver, take_all_turns
from bench.sections.turns import Work as Job
from bench.sections.turns import take_turns as take_turns_at_job
from bench.servers import Server, semel
from bench.worker import worker

BEFORE, NOW = "before", "now"
PLAN: Final = replace(
    FULL, rounds=12, seconds=1.5, warm_up_s=3.0, filled_requests=1_000, producer_rows=1_000_000,
    spark_rows=1_000_000,
)  # fmt: skip
_BURSTS: Final = {
    ONE_RECORD_PIPELINED: 500,
    ONE_RECORD_ALONE: 200,
    INGEST_64_KB: 50,
}  # requests of each connection
_BY_DURABILITY: Final[Mapping[bool, tuple[Work, ...]]] = {
    False: (INGEST_1_MB, INGEST_64_KB, ONE_RECORD_PIPELINED, ONE_RECORD_ALONE, FETCH_1_MB, FETCH_64_KB),
    True: (INGEST_1_MB, INGEST_64_KB, ONE_RECORD_PIPELINED, ONE_RECORD_ALONE),
}


def serving(bench: Bench, sources: Mapping[str, Path]) -> Iterator[Row]:
    """Ingest, requests and fetch, with the page cache trusted and durable."""
    for durable, works in _BY_DURABILITY.items():
        with ExitStack() as stack:
            servers = _servers(bench, stack, sources, durable=durable, alone=True)
            for work in works:
                watched = take_turns(bench, list(servers.values()), work)
                name = f"{work.name}, {'durable' if durable else 'page cache'}"
                samples = {
                    side: [work.figure(each.measured) for each in runs] for side, runs in watched.items()
                }
                yield Row(name, work.unit, samples)
                # On a busy machine a server waits for its core: this is what it does with one.
                cores = {side: [each.server_busy for each in runs] for side, runs in watched.items()}
                per_core = {
                    side: [each / busy for each, busy in zip(samples[side], cores[side], strict=True)]
                    for side in samples
                }
                yield Row(f"{name}, for a whole core", work.unit, per_core)


def bursts(bench: Bench, sources: Mapping[str, Path]) -> Iterator[Row]:
    """What a produce request costs the server, in pairs of short bursts: for differences of a few percent."""
    for durable in _BY_DURABILITY:
        with ExitStack() as stack:
            servers = _servers(bench, stack, sources, durable=durable, alone=True)
            stack.enter_context(generating_here())
            for work, burst in _BURSTS.items():
                sides = {}
                for name, server in servers.items():
                    load = replace(work.load, topic=f"burst-{work.load.batch_bytes}-{work.load.connections}")
                    server.create(load.topic, load.partitions)
                    sides[name] = Side.of(server, load)
                pairs = PAIRS_A_ROUND * bench.plan.rounds // 4
                costs_us = in_pairs(sides, pairs=pairs, burst=burst, warm_up_s=bench.plan.warm_up_s)
                for side in sides.values():
                    side.close()
                name = f"{work.name}, {'durable' if durable else 'page cache'}, a request"
                yield Row(name, "µs of processor time", costs_us, less_is_better=True)


def producer(bench: Bench, sources: Mapping[str, Path]) -> Iterator[Row]:
    """``send_table`` with keys."""
    with ExitStack() as stack:
        servers = _servers(bench, stack, sources, durable=False, alone=False)
        attempts = {}
        for name, server in servers.items():
            command = [sys.executable, "-m", "bench.send_table", server.bootstrap]
            with _running(sources[name]):
                hand = stack.enter_context(worker(name, command, bench.folder / f"{name}.log"))

            def attempt(topic: str, server: Server = server, hand=hand) -> float:  # type: ignore[no-untyped-def]
                rows = bench.plan.producer_rows
                server.create(topic, PARTITIONS)
                try:
                    return rows / float(hand.ask(TIMEOUT_S, topic=topic, rows=rows, keyed=True)) / 1e6
                finally:
                    server.delete(topic)

            attempts[name] = attempt
        yield take_turns_at_job(bench, Job(LIKE, "M records/s", attempts))


def spark(bench: Bench, sources: Mapping[str, Path]) -> Iterator[Row]:
    """Source and sink, each side on a server of its own."""
    with ExitStack() as stack:
        servers = _servers(bench, stack, sources, durable=True, alone=False)
        sides = {}
        for name, server in servers.items():
            with _running(sources[name]):
                sides[name] = stack.enter_context(driver(bench.folder, name, "semel", server, {}))
        yield from take_all_turns(bench, sides)


GROUPS: Final[dict[str, Callable[[Bench, Mapping[str, Path]], Iterator[Row]]]] = {
    "bursts": bursts,
    "serving": serving,
    "producer": producer,
    "spark": spark,
}


def _servers(
    bench: Bench, stack: ExitStack, sources: Mapping[str, Path], *, durable: bool, alone: bool
) -> dict[str, Server]:
    servers = {}
    for name, folder in sources.items():
        data = bench.folder / f"{name}-{durable}-{alone}"
        with _running(folder):
            servers[name] = stack.enter_context(semel(data, durable=durable, alone=alone, name=name))
    return servers


@contextmanager
def _running(sources: Path) -> Iterator[None]:
    """What is started meanwhile imports semel from there."""
    os.environ["PYTHONPATH"] = str(sources)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    """The sources of ``commit``, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="before-") as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "src"], cwd=machine.ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        yield Path(folder) / "src"


def line_of(row: Row) -> str:
    """One row of the table that is printed."""
    pairs = zip(row.samples[BEFORE], row.samples[NOW], strict=True)
    gains = [before / now if row.less_is_better else now / before for before, now in pairs]
    interval = interval_of_median(gains)
    middles = [figure(interval_of_median(row.samples[name]).median) for name in (BEFORE, NOW)]
    return (
        f"| {row.work} | {middles[0]} {row.unit} | {middles[1]} {row.unit} "
        f"| {interval.median:.3f} ({interval.least:.3f} to {interval.greatest:.3f}) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.before", description=__doc__)
    parser.add_argument("commit", help="what git calls it")
    parser.add_argument("--only", action="append", choices=GROUPS, help="these works (repeatable)")
    parser.add_argument("--rounds", type=int, default=PLAN.rounds, help="of each work")
    arguments = parser.parse_args()
    plan = replace(PLAN, rounds=arguments.rounds)
    print(f"| work | {arguments.commit} | now | ratio (95 %) |\n|---|---|---|---|", flush=True)
    with _checkout(arguments.commit) as before:
        sources = {BEFORE: before, NOW: machine.ROOT / "src"}
        for name in arguments.only or GROUPS:
            with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as scratch:
                bench = Bench(Path(scratch), plan, lambda line: None)
                for row in GROUPS[name](bench, sources):
                    print(line_of(row), flush=True)


if __name__ == "__main__":
    main()
