"""``python -m bench [--quick] [--only SECTION]``: semel beside Apache Kafka, one page in bench/RESULTS.md.

A run that was ended early goes on where it stopped; ``--fresh`` forgets it. The figures are kept beside the page,
in bench/results.json.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.peers.parts import Missing, find_java, find_kafka_jars, find_spark_connector_jars

from bench import machine, render, results
from bench.plan import FULL, QUICK, Plan
from bench.results import Measurement, Results
from bench.sections import Bench, Measure
from bench.sections.audit import audit
from bench.sections.ceiling import ceiling
from bench.sections.compaction import compaction
from bench.sections.copying import copying, mirroring
from bench.sections.flows import flows
from bench.sections.groups import groups
from bench.sections.idempotence import idempotence
from bench.sections.known import producers
from bench.sections.land import land
from bench.sections.producing import producer
from bench.sections.resources import memory, ready
from bench.sections.resuming import resuming
from bench.sections.serving import durable, fetch, ingest, requests
from bench.sections.simulator import simulator
from bench.sections.spark import spark
from bench.sections.transactions import transaction_costs, transactions

SECTIONS: dict[str, Measure] = {
    "ceiling": ceiling,
    "ingest": ingest,
    "durable": durable,
    "requests": requests,
    "fetch": fetch,
    "memory": memory,
    "ready": ready,
    "producers": producers,
    "idempotence": idempotence,
    "resuming": resuming,
    "simulator": simulator,
    "groups": groups,
    "compaction": compaction,
    "transactions": transactions,
    "transaction-costs": transaction_costs,
    "producer": producer,
    "spark": spark,
    "flows": flows,
    "copying": copying,
    "mirroring": mirroring,
    "land": land,
    "audit": audit,
}
WITHOUT_RIVALS = {
    "ceiling",
    "producers",
    "idempotence",
    "resuming",
    "simulator",
    "copying",
    "audit",
    "transaction-costs",
}


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def measure(name: str, folder: Path | None, plan: Plan) -> Measurement:
    """One section, in a scratch folder that is gone afterwards."""
    tell(f"== {name}")
    load_before, started_s = os.getloadavg()[0], time.monotonic()
    measured_at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"bench-{name}-") as scratch:
        section = SECTIONS[name](Bench(Path(scratch), plan, lambda line: tell(f"  {line}")))
    took_s = time.monotonic() - started_s
    return Measurement(section, plan.name, machine.describe(), measured_at, took_s, load_before)


def begin(
    plan: Plan, here: dict[str, str], earlier: Results | None, only: Sequence[str] = ()
) -> tuple[Results, list[str]]:
    """What is there already, and the sections to measure."""
    if only:
        return earlier or Results(here, plan.command), [name for name in SECTIONS if name in only]
    if (
        earlier is None
        or earlier.complete
        or earlier.command != plan.command
        or _rivals(earlier.machine) != _rivals(here)
    ):
        return Results(here, plan.command), list(SECTIONS)
    return earlier, [name for name in SECTIONS if name not in earlier.measurements]


def _rivals(described: dict[str, str]) -> dict[str, str]:
    """All but our own commit, which every section names: a run may go on after the mending that it called for."""
    return {name: value for name, value in described.items() if name != "semel"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few minutes, more noise")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="measure this section (repeatable)")
    parser.add_argument("--fresh", action="store_true", help="forget a run that was ended early")
    parser.add_argument("--folder", type=Path, help="where the servers keep their data (default: temporary)")
    arguments = parser.parse_args()
    if arguments.fresh and arguments.only:
        parser.error("--only measures its sections anew anyway, and --fresh would forget all others")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    plan = QUICK if arguments.quick else FULL
    earlier = None if arguments.fresh else results.load()
    found, names = begin(plan, machine.describe(), earlier, arguments.only or ())
    if found.measurements:
        tell(f"measured already: {', '.join(found.measurements)}")
    rivals = (find_java(), find_kafka_jars(), find_spark_connector_jars())
    missing = [str(part) for part in rivals if isinstance(part, Missing)]
    if missing and not WITHOUT_RIVALS.issuperset(names):
        raise SystemExit("no benchmark without its rivals. " + "; ".join(missing))
    failed = []
    for name in names:
        try:
            found.measurements[name] = measure(name, arguments.folder, plan)
        except Exception:  # the others are worth their minutes; the next run begins with this one
            traceback.print_exc()
            failed.append(name)
            continue
        found.complete = set(found.measurements) == set(SECTIONS)
        found.save()
        render.RESULTS.write_text(render.page(found, tuple(SECTIONS), f"{plan.warm_up_s:.0f} s"))
    if failed:
        raise SystemExit(f"failed, and measured by the next run: {', '.join(failed)}")
    tell(f"wrote {render.RESULTS.relative_to(machine.ROOT)}")


if __name__ == "__main__":
    main()
