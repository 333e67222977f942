"""What it costs a server to know who wrote a batch: the same batches with a producer id and without.

A few percent are looked for, on a machine whose speed moves by more than that from one second to the next. So the
two kinds of load take turns in bursts of some hundredths of a second, on one server and on connections that stay
open; what counts is the server's own processor time; and the page says how sure the middle of the pairs is.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.figures import interval_of_median
from bench.load import Load
from bench.load.__main__ import drive
from bench.load.connections import ProduceConnection
from bench.pinning import LOAD_CPUS, SERVER_CPU, pin_process
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.serving import INGEST_64_KB, ONE_RECORD_PIPELINED, Work
from bench.servers import Server, semel

NO_ID, IDEMPOTENT = "no producer id", "idempotent"
_BURSTS = {ONE_RECORD_PIPELINED: 500, INGEST_64_KB: 50}  # requests of each connection
_PAIRS_A_ROUND = 40
_WARM_UP_S_MAX = 3.0  # there is no JVM here
_NAMES = (NO_ID, IDEMPOTENT)


def idempotence(bench: Bench) -> Section:
    """Two pairs of bursts, the middle two alike: whatever drifts meanwhile, drifts for both."""
    rows, notes = [], []
    with semel(bench.folder / "semel", durable=False) as server, _generating_here():
        for number, (work, burst) in enumerate(_BURSTS.items()):
            costs_us = _take_turns(bench, server, replace(work.load, topic=f"turns-{number}"), burst)
            unit = work.load.batch_bytes or 1e6  # a byte for a microsecond is a MB for a second
            samples = {name: [unit / each for each in costs_us[name]] for name in _NAMES}
            rows.append(Row(work.name, work.unit.replace("/s", " per core second"), samples))
            notes.append(_note(work, costs_us[NO_ID], costs_us[IDEMPOTENT]))
            bench.tell(notes[-1])
    return Section(
        "Idempotent beside no id",
        "One server with the page cache trusted; the same records over as many connections, in batches with a "
        "producer id, whose verdict is given and whose window is kept, and in batches without. The figures are "
        "for a second of the server's processor time, each over two bursts of some hundredths of a second; the "
        "contenders take turns in bursts A B B A, then B A A B. So the least and the greatest ratio say how the "
        "machine's speed moved within a tenth of a second; how sure the median is, is told below.",
        tuple(rows),
        NO_ID,
        (IDEMPOTENT,),
        notes=tuple(notes),
    )


def _take_turns(bench: Bench, server: Server, load: Load, burst: int) -> dict[str, list[float]]:
    """What a request cost the server in each pair, by contender, in microseconds."""
    sides: dict[str, list[ProduceConnection]] = {}
    topics = {NO_ID: f"{load.topic}-without", IDEMPOTENT: f"{load.topic}-with"}
    for name, topic in topics.items():
        server.create(topic, load.partitions)
        its_load = replace(load, topic=topic, idempotent=name == IDEMPOTENT)
        sides[name] = [ProduceConnection(server.bootstrap, its_load, n) for n in range(load.connections)]
    warm_at_s = time.monotonic() + min(bench.plan.warm_up_s, _WARM_UP_S_MAX)
    while time.monotonic() < warm_at_s:
        for connections in sides.values():
            _cost_us(server, connections, burst)
    costs_us: dict[str, list[float]] = defaultdict(list)
    for number in range(_PAIRS_A_ROUND * bench.plan.rounds):
        os.sync()
        first, second = _NAMES if number % 2 == 0 else reversed(_NAMES)
        pair: dict[str, float] = defaultdict(float)
        for name in (first, second, second, first):
            pair[name] += _cost_us(server, sides[name], burst) / 2
        for name, cost_us in pair.items():
            costs_us[name].append(cost_us)
    for name, topic in topics.items():
        stored = sum(server.end_offsets(topic, load.partitions))
        sent = sum(each.answered * each.records_per_request for each in sides[name])
        if stored != sent:
            raise RuntimeError(f"{server.name} acknowledged {sent} records, has {stored}")
        for each in sides[name]:
            each.sock.close()
        server.delete(topic)
    return costs_us


def _cost_us(server: Server, connections: list[ProduceConnection], burst: int) -> float:
    """The server's processor time for one request of a burst."""
    for each in connections:
        each.allow(burst)
    cpu_s = server.cpu_s
    drive(connections, 0)
    return 1e6 * (server.cpu_s - cpu_s) / (burst * len(connections))


@contextmanager
def _generating_here() -> Iterator[None]:
    """This process is the load generator: on the load's core, and without a collector's pauses."""
    pin_process(os.getpid(), LOAD_CPUS[0])
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        pin_process(os.getpid(), SERVER_CPU, *LOAD_CPUS)


def _note(work: Work, without_us: list[float], with_us: list[float]) -> str:
    pairs = list(zip(without_us, with_us, strict=True))
    more_us = interval_of_median([its - other for other, its in pairs])
    share = interval_of_median([100 * (its / other - 1) for other, its in pairs])
    return (
        f"{work.name}: a request costs {statistics.median(without_us):.1f} µs of processor time without an id, and "
        f"{more_us.median:.2f} µs more with one ({more_us.least:.2f} to {more_us.greatest:.2f}): {share.median:.1f} % "
        f"({share.least:.1f} to {share.greatest:.1f}); here the brackets hold the median with a certainty of 95 %, "
        f"by {len(pairs)} pairs"
    )
