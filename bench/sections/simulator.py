"""How many seeds the simulator tells in a minute."""

from __future__ import annotations

import time

from bench.results import Row, Section
from bench.sections import Bench
from semel.sim.campaign.swarm import SwarmReport, run_seeds

WORKERS = 2
_WORKERS_NAME = f"{WORKERS} processes"


def simulator(bench: Bench) -> Section:
    """The first seeds, as ``semel sim`` runs them."""
    seeds_a_minute: list[float] = []
    reports: list[SwarmReport] = []
    seeds = bench.plan.seeds // bench.plan.rounds
    for number in range(bench.plan.rounds):
        began_s = time.monotonic()
        report = run_seeds(number * seeds, seeds, workers=WORKERS)
        if report.failures:
            raise RuntimeError(f"seed {report.failures[0].seed} fails")
        seeds_a_minute.append(60 * seeds / (time.monotonic() - began_s))
        reports.append(report)
        bench.tell(f"{seeds_a_minute[-1]:.0f} seeds a minute")
    return Section(
        "The simulator",
        f"`semel sim --workers {WORKERS}`: histories of one server with its disk, many clients and sinks in one "
        f"process, with the processes' start. Each of the {seeds * len(reports)} had at least "
        f"{min(report.fewest_operations for report in reports):,} operations of clients and "
        f"{min(report.fewest_faults for report in reports)} faults, and held every invariant.",
        (Row("seeds", "a minute", {_WORKERS_NAME: seeds_a_minute}),),
        beside=(_WORKERS_NAME,),
    )
