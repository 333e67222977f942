"""Crash loops: kill -9 at seeded random moments, audit after each round.

    python -m tests.loops.run --kind KIND --rounds 50 [--resume STATE] [--seed S]

``server``, ``producer`` and ``driver`` (the sink's, on Spark) are what a loop kills; ``group`` are a group's members
and their server; ``land`` is a job of ``semel land``. ``flow`` is a flow on Spark with ``local[2]``, ``cluster`` the
same on a standalone cluster with two workers; ``flow-on-kafka`` and ``cluster-on-kafka`` have Apache Kafka as their
log. ``copy`` is a job of ``semel copy`` from one semel to another; ``copy-to-kafka``, ``copy-from-kafka`` and
``copy-on-kafka`` have Apache Kafka at one end, or at both. ``transactions`` are clients that copy a topic into three in
transactions, and their server; ``transactions-on-kafka`` have Apache Kafka as theirs.

With ``--resume`` the progress is kept in the file STATE after each round, and the same command goes on where
it was stopped. Exit code 1 when any round broke the law; its number and seed reproduce its dice.
"""

from __future__ import annotations

import argparse
import functools
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.loops.rounds import Round, RoundResult, round_random

COPIES = {
    "copy": ("semel", "semel"),
    "copy-to-kafka": ("semel", "kafka"),
    "copy-from-kafka": ("kafka", "semel"),
    "copy-on-kafka": ("kafka", "kafka"),
}
KINDS = (
    "server",
    "producer",
    "group",
    "transactions",
    "transactions-on-kafka",
    "land",
    "driver",
    "flow",
    "flow-on-kafka",
    "cluster",
    "cluster-on-kafka",
    *COPIES,
)
SEED_DEFAULT = 1


@contextmanager
def open_kind(kind: str, last_number: int) -> Iterator[Callable[[int], Round]]:
    """Round number -> the round to play. A context, because those of a driver or a flow are one long life."""
    if kind == "server":
        from tests.loops.server_rounds import LibrdkafkaWriter, SemelWriter, server_round

        writers = (SemelWriter, LibrdkafkaWriter)
        yield lambda number: functools.partial(server_round, writer_class=writers[number % 2])
    elif kind == "producer":
        from tests.loops.producer_rounds import producer_round

        yield lambda _number: producer_round
    elif kind == "group":
        from tests.loops.group_rounds import group_round

        yield lambda _number: group_round
    elif kind.startswith("transactions"):
        from tests.loops.transaction_rounds import TransactionsLife

        with TransactionsLife("kafka" if kind.endswith("kafka") else "semel") as transactions:
            yield lambda number: functools.partial(transactions.round, number)
    elif kind in COPIES:
        from tests.loops.copy_rounds import CopyLife

        with CopyLife(*COPIES[kind]) as copy:
            yield lambda number: functools.partial(copy.round, number)
    elif kind == "land":
        from tests.loops.land_rounds import land_round

        from semel.land.formats import TableFormat

        formats = tuple(TableFormat)
        yield lambda number: functools.partial(
            land_round, table_format=formats[number % 2], is_put_back=number % 3 == 1
        )
    elif kind.startswith(("flow", "cluster")):
        from tests.loops.flow_rounds import FlowLife

        server = "kafka" if kind.endswith("kafka") else "semel"
        with FlowLife(server, is_cluster=kind.startswith("cluster")) as flow:
            yield lambda number: functools.partial(flow.round, number, is_last=number == last_number)
    else:
        from tests.loops.driver_rounds import DriverLife

        with DriverLife() as life:
            yield lambda number: life.last_round if number == last_number else life.round


def play(
    kind: str, numbers: range, *, seed: int = SEED_DEFAULT, on_round: Callable[[int, RoundResult], None]
) -> None:
    """Play the rounds ``numbers`` of ``kind``, each with its own dice."""
    with open_kind(kind, numbers.stop - 1) as round_of:
        for number in numbers:
            on_round(number, round_of(number)(round_random(seed, kind, number)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--resume", type=Path, metavar="STATE")
    parser.add_argument("--seed", type=int, default=SEED_DEFAULT)
    arguments = parser.parse_args()
    # A stop must end the children too: as an exception it runs every `finally` on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    state: dict[str, object] = {"kind": arguments.kind, "seed": arguments.seed, "done": 0, "breaches": []}
    if arguments.resume is not None and arguments.resume.is_file():
        saved = json.loads(arguments.resume.read_text())
        if (saved["kind"], saved["seed"]) != (arguments.kind, arguments.seed):
            parser.error(f"{arguments.resume} belongs to --kind {saved['kind']} --seed {saved['seed']}")
        state = saved
    done = int(str(state["done"]))
    broken = list(state["breaches"]) if isinstance(state["breaches"], list) else []
    started_s = time.monotonic()

    def on_round(number: int, result: RoundResult) -> None:
        broken.extend(f"round {number}: {breach}" for breach in result.breaches)
        state.update(done=number + 1, breaches=broken)
        if arguments.resume is not None:
            temporary = arguments.resume.with_suffix(".tmp")
            temporary.write_text(json.dumps(state, indent=1))
            temporary.replace(arguments.resume)
        verdict = "; ".join(result.breaches) or "every row once, in order"
        verdict += f" ({result.told})" if result.told else ""
        sys.stdout.write(
            f"{time.monotonic() - started_s:7.1f} s  {arguments.kind} round {number + 1}/{arguments.rounds}: "
            f"{result.rows} rows, {result.kills} kills: {verdict}\n"
        )
        sys.stdout.flush()

    play(arguments.kind, range(done, arguments.rounds), seed=arguments.seed, on_round=on_round)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
