"""Memory and time to ready."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from functools import partial

from bench.results import Row, Section
from bench.sections import Bench
from bench.sections.serving import INGEST_1_MB, INGEST_64_KB, ONE_RECORD_PIPELINED, written
from bench.servers import KAFKA, SEMEL, Start, kafka, semel

SMALL_HEAP_MB = 256
SMALL_KAFKA = f"{KAFKA}, {SMALL_HEAP_MB} MB heap"
# For each 1 MB batch, so many of the smaller ones: about as many bytes, and many requests.
_SHARES = ((INGEST_1_MB, 1), (INGEST_64_KB, 10), (ONE_RECORD_PIPELINED, 50))


def memory(bench: Bench) -> Section:
    """The same number of the same requests for all, then their resident memory."""
    starts: dict[str, Start] = {
        KAFKA: kafka,
        SEMEL: semel,
        SMALL_KAFKA: partial(kafka, name=SMALL_KAFKA, heap_mb=SMALL_HEAP_MB),
    }
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    written_bytes = 0
    for number, (name, start) in enumerate(starts.items()):
        with start(bench.folder / str(number), durable=False) as server:
            time.sleep(bench.plan.settle_s)
            samples["idle"][name].append(server.resident_mb)
            idle_since_s, cpu_s = time.monotonic(), server.cpu_s
            time.sleep(bench.plan.settle_s)
            busy = (server.cpu_s - cpu_s) / (time.monotonic() - idle_since_s)
            written_bytes = 0
            for work, share in _SHARES:
                requests = share * bench.plan.memory_requests
                watched = written(server, replace(work.load, requests=requests))
                written_bytes += watched.measured.payload_bytes
            samples["loaded"][name].append(server.resident_mb)
            samples["loaded, without mapped files"][name].append(server.anonymous_mb)
            samples["loaded, at most"][name].append(server.resident_peak_mb)
            samples["processor, idle"][name].append(100 * busy)
            bench.tell(f"{name}: {server.resident_mb:.0f} MB after {written_bytes / 1e9:.1f} GB")
    rows = tuple(
        Row(work, "% of a core" if "processor" in work else "MB", dict(by_name), less_is_better=True)
        for work, by_name in samples.items()
    )
    return Section(
        "Memory",
        f"Resident memory of the server's process (VmRSS: its own pages and mapped files, no page cache; at most: "
        f"VmHWM), {bench.plan.settle_s:.0f} s after the start, and after the same work done by each, one after "
        "the other: "
        f"{written_bytes / 1e9:.1f} GB in batches of 1 MB and 64 KB, and "
        f"{4 * _SHARES[-1][1] * bench.plan.memory_requests:,} requests of one record. Kafka has the heap of its "
        "start script (`-Xms1G -Xmx1G`), which it may fill before it collects; so it stands there once more "
        f"with {SMALL_HEAP_MB} MB.",
        rows,
        KAFKA,
        (SEMEL,),
        (SMALL_KAFKA,),
    )


def ready(bench: Bench) -> Section:
    """From the start of the process to its own word that it takes connections, on all cores."""
    starts: list[tuple[str, Start]] = [(KAFKA, kafka), (SEMEL, semel)]
    samples: dict[str, list[float]] = defaultdict(list)
    for number in range(bench.plan.starts):
        for name, start in starts if number % 2 == 0 else reversed(starts):
            folder = bench.folder / f"{number}-{'kafka' if name == KAFKA else 'semel'}"
            with start(folder, durable=name == SEMEL, alone=False) as server:
                samples[name].append(server.ready_after_s)
                bench.tell(f"{name}: ready after {server.ready_after_s:.2f} s")
    return Section(
        "Time to ready",
        "From the start of the process on an empty folder (Kafka's is formatted before) to its line that says so; "
        "on all cores, program files in the page cache.",
        (Row("start", "s", dict(samples), less_is_better=True),),
        KAFKA,
        (SEMEL,),
    )
