"""The load generator by itself, against a server that does nothing but answer."""

from __future__ import annotations

from dataclasses import replace

from bench.load.generate import generate, sink
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.serving import WORKS

GENERATOR = "load generator"


def ceiling(bench: Bench) -> Section:
    rows = []
    for work in WORKS:
        values = []
        for _ in range(bench.plan.ceiling_rounds):
            load = replace(work.load, topic="sink", seconds=bench.plan.seconds)
            with sink(load) as bootstrap:
                values.append(work.figure(generate(bootstrap, load)))
        bench.tell(f"{work.name}: {', '.join(f'{value:,.0f}' for value in values)} {work.unit}")
        rows.append(Row(work.name, work.unit, {GENERATOR: values}))
    return Section(
        "The load generator's own ceiling",
        "The same loads against a socket on the servers' core that answers with prebuilt replies and looks at "
        "nothing. Where a server comes near its figure, the generator is what was measured.",
        (GENERATOR,),
        tuple(rows),
        ratio=False,
    )
