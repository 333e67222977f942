"""What it costs a server to know who wrote a batch: the same batches with a producer id and without."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace

from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.serving import INGEST_64_KB, ONE_RECORD_PIPELINED, Work, written
from bench.servers import semel

NO_ID, IDEMPOTENT = "no producer id", "idempotent"
_WORKS = (ONE_RECORD_PIPELINED, INGEST_64_KB)
_PAIRS_A_ROUND = 4  # a few percent are looked for


def idempotence(bench: Bench) -> Section:
    """One server; the two kinds of load take turns on it, who begins alternating."""
    with semel(bench.folder / "semel", durable=False) as server:
        rows = []
        for work in _WORKS:
            loads = {name: replace(work.load, idempotent=name == IDEMPOTENT) for name in (NO_ID, IDEMPOTENT)}
            samples: dict[str, list[float]] = defaultdict(list)
            for load in loads.values():
                written(server, replace(load, seconds=bench.plan.warm_up_s / 2))
            for number in range(_PAIRS_A_ROUND * bench.plan.rounds):
                for name in loads if number % 2 == 0 else reversed(loads):
                    os.sync()
                    watched = written(server, replace(loads[name], seconds=bench.plan.seconds / 2))
                    samples[name].append(work.figure(watched.measured) / watched.server_busy)
                    bench.tell(f"{work.name}: {name} {samples[name][-1]:,.0f} {_unit(work)}")
            rows.append(Row(work.name, _unit(work), {name: samples[name] for name in loads}))
    return Section(
        "Idempotent beside no id",
        "One server with the page cache trusted; the same records over as many connections, in batches with a "
        "producer id, whose verdict is given and whose window is kept, and in batches without. The figures are "
        "for a second of the server's processor time; a ratio is that of two runs one after the other.",
        tuple(rows),
        NO_ID,
        (IDEMPOTENT,),
    )


def _unit(work: Work) -> str:
    return work.unit.replace("/s", " per core second")
