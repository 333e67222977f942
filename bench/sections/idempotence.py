"""What it costs a server to know who wrote a batch: the same batches with a producer id and without."""

from __future__ import annotations

from dataclasses import replace

from bench.load import Load
from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.bursts import PAIRS_A_ROUND, Side, generating_here, in_pairs, note
from bench.sections.serving import INGEST_64_KB, ONE_RECORD_PIPELINED
from bench.servers import Server, semel

NO_ID, IDEMPOTENT = "no producer id", "idempotent"
_BURSTS = {ONE_RECORD_PIPELINED: 500, INGEST_64_KB: 50}  # requests of each connection


def idempotence(bench: Bench) -> Section:
    """On one server, one load after the other."""
    rows, notes = [], []
    with semel(bench.folder / "semel", durable=False) as server, generating_here():
        for number, (work, burst) in enumerate(_BURSTS.items()):
            costs_us = _take_turns(bench, server, replace(work.load, topic=f"turns-{number}"), burst)
            unit = work.load.batch_bytes or 1e6  # a byte for a microsecond is a MB for a second
            samples = {name: [unit / each for each in its_us] for name, its_us in costs_us.items()}
            rows.append(Row(work.name, work.unit.replace("/s", " per core second"), samples))
            both = ("without an id", "with one")
            notes.append(note(work.name, costs_us[NO_ID], costs_us[IDEMPOTENT], both=both))
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
    sides: dict[str, Side] = {}
    topics = {NO_ID: f"{load.topic}-without", IDEMPOTENT: f"{load.topic}-with"}
    for name, topic in topics.items():
        server.create(topic, load.partitions)
        its_load = replace(load, topic=topic, idempotent=name == IDEMPOTENT)
        sides[name] = Side.of(server, its_load)
    pairs = PAIRS_A_ROUND * bench.plan.rounds
    costs_us = in_pairs(sides, pairs=pairs, burst=burst, warm_up_s=bench.plan.warm_up_s)
    for name, topic in topics.items():
        stored = sum(server.end_offsets(topic, load.partitions))
        sent = sum(each.answered * each.records_per_request for each in sides[name].connections)
        if stored != sent:
            raise RuntimeError(f"{server.name} acknowledged {sent} records, has {stored}")
        sides[name].close()
        server.delete(topic)
    return costs_us
