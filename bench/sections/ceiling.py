"""The load generator by itself, against a server that does nothing but answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from bench.load.generate import generate, sink
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.serving import WORKS

REACHED, PER_CORE = "reached", "for a whole core of the generator's"


def ceiling(bench: Bench) -> Section:
    rows = []
    for work in WORKS:
        samples = defaultdict(list)
        for _ in range(bench.plan.ceiling_rounds):
            load = replace(work.load, topic="sink", seconds=bench.plan.seconds)
            with sink(load) as bootstrap:
                measured = generate(bootstrap, load)
            samples[REACHED].append(work.figure(measured))
            samples[PER_CORE].append(work.figure(measured) / measured.busy)
        bench.tell(
            f"{work.name}: {samples[REACHED][-1]:,.0f} {work.unit}, generator busy {measured.busy:.0%}"
        )
        rows.append(Row(work.name, work.unit, dict(samples)))
    return Section(
        "The load generator's own ceiling",
        "The same loads against a socket on the servers' core that answers with prebuilt replies and looks at "
        "nothing: what was *reached* with it, and what that makes for a whole core of the generator's processor "
        "time. A server that came near these figures would be hidden by the generator; the sections below "
        "say how busy the generator was.",
        tuple(rows),
        beside=(REACHED, PER_CORE),
    )
