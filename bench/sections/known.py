"""What it costs a server to know a million producers: memory, snapshot, load, pauses, and the produce path."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.load import ONE_RECORD, Load
from bench.load.__main__ import drive
from bench.load.connections import PATIENCE_S, ProduceConnection, connect
from bench.load.frames import INT32, request_head
from bench.load.generate import generate
from bench.results import Row, Section
from bench.sections import Bench, bursts
from bench.sections.bursts import PAIRS_A_ROUND, Side, generating_here, in_pairs
from bench.sections.serving import written
from bench.servers import Server, semel
from semel import Admin
from semel.core.log.names import SNAPSHOT_SUFFIX

FEW, ALL = "knows few producers", "knows them all"
_TOPIC, _ROLLED_TOPIC = "known", "rolled"
_SPREAD_OVER = 1000  # partitions
_BATCH_BYTES, _SEGMENT_BYTES = 600, 1024  # a segment has no room for two
_API_VERSIONS = 18
_LOAD = Load("produce", _TOPIC, 1, 4, 5, ONE_RECORD)  # as in the section "requests", but on one partition
_FILL_IN_FLIGHT = 100
_PER_CORE = "req per core second"

Note = Callable[[str, str, str, float], None]  # work, unit, contender, figure
Samples = dict[tuple[str, str], dict[str, list[float]]]  # by work and unit, and by contender


def producers(bench: Bench) -> Section:
    """First memory, then snapshots, then starts, then the produce path: the same two data folders all the way."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    count = bench.plan.known_producers

    def note(work: str, unit: str, contender: str, value: float) -> None:
        samples[work, unit][contender].append(value)
        bench.tell(f"{work}, {contender}: {value:,.4g} {unit}")

    room = {"max_producers": count + 1000}  # for those beside them
    with semel(bench.folder / "spread", durable=False, alone=False, **room) as server:
        figure = _resident_bytes_each(server, count, _SPREAD_OVER)
        note(f"memory, {_SPREAD_OVER:,} partitions", "B each", ALL, figure)
    folders = {FEW: bench.folder / "few", ALL: bench.folder / "all"}
    for name, folder in folders.items():
        with semel(folder, durable=True, alone=False, **room) as server:
            figure = _resident_bytes_each(server, count if name == ALL else _LOAD.connections, 1)
            if name == ALL:
                note("memory, one partition", "B each", name, figure)
            Admin(server.bootstrap).alter_configs(_TOPIC, {"segment.bytes": str(_SEGMENT_BYTES)})
            for _ in range(bench.plan.rounds + 1):
                _snapshot(server, folder / f"{_TOPIC}-0", name, note)
            note("memory at most, with snapshots", "MB", name, server.resident_peak_mb)
    for _ in range(bench.plan.starts):
        for name, folder in folders.items():
            with semel(folder, durable=True, alone=False, **room) as server:
                note("time to ready", "s", name, server.ready_after_s)
        few_s, all_s = (samples["time to ready", "s"][name][-1] for name in folders)
        note("of that, for the producers", "s", ALL, all_s - few_s)
    with (
        semel(folders[FEW], durable=False, name=FEW, **room) as few,
        semel(folders[ALL], durable=False, name=ALL, **room) as all_,
        generating_here(),
    ):
        notes = _produce(bench, few, all_, samples)
    rows = tuple(
        Row(work, unit, dict(by_name), less_is_better=unit != _PER_CORE)
        for (work, unit), by_name in samples.items()
    )
    return Section(
        "A million known producers",
        f"Two servers: one that knows {_LOAD.connections} producers, and one that knows {count:,}, all of them on one "
        "partition unless it says otherwise. Memory is what VmRSS grew by while they wrote one batch each. A "
        "snapshot is taken when a segment is full: its figure is the time from the request that fills it to the "
        "file under its name; meanwhile another client asks for ApiVersions without a break, "
        "and its longest wait is the pause. Produce is the load of `requests` with the page cache trusted: by four "
        "producers that are new to either server, and by the known ones, who take turns, so that neighbours in "
        "time are far from each other in memory. It is told for a second of the server's processor time, in pairs of "
        "bursts as in `idempotence`.",
        rows,
        FEW,
        (ALL,),
        notes=tuple(notes),
    )


def _resident_bytes_each(server: Server, count: int, partitions: int) -> float:
    """Have ``count`` producers write one batch each, and tell by how much the server's memory grew for each."""
    server.create(_TOPIC, partitions)
    written(server, replace(_LOAD, requests=1000))  # what it loads for its first requests is not theirs
    before_mb = server.resident_mb
    each = count // _LOAD.connections
    load = replace(_LOAD, partitions=partitions, requests=each, producers=count, in_flight=_FILL_IN_FLIGHT)
    generate(server.bootstrap, load)
    return (server.resident_mb - before_mb) * 2**20 / count


def _snapshot(server: Server, partition: Path, name: str, note: Note) -> None:
    """Fill a segment, so that a snapshot is taken, and watch another client meanwhile."""
    load = replace(_LOAD, connections=1, in_flight=1, batch_bytes=_BATCH_BYTES, requests=1)
    with _asking(server.bootstrap) as waits_s:
        time.sleep(1.0)
        note("longest wait of another client, at rest", "ms", name, 1e3 * max(waits_s))
        waits_s.clear()
        filling = ProduceConnection(server.bootstrap, load, 0)
        earlier, began_s = _newest_snapshot(partition), time.monotonic()
        note("answer to the request that fills a segment", "ms", name, 1e3 * drive([filling], 0).seconds)
        while _newest_snapshot(partition) == earlier:
            if time.monotonic() - began_s > PATIENCE_S:
                raise RuntimeError(f"{server.name} wrote no snapshot")
            time.sleep(0.005)
        note("snapshot, until it is durable", "s", name, time.monotonic() - began_s)
        time.sleep(0.1)
        note("longest wait of another client, meanwhile", "ms", name, 1e3 * max(waits_s))


def _newest_snapshot(partition: Path) -> str:
    return max((file.name for file in partition.glob("*" + SNAPSHOT_SUFFIX)), default="")


@contextmanager
def _asking(bootstrap: str) -> Iterator[list[float]]:
    """Another client, that asks one small question after the other: how long each answer took, in seconds."""
    request = request_head(_API_VERSIONS, 0, 0)
    waits_s: list[float] = []
    done = threading.Event()
    with connect(bootstrap) as sock:

        def ask() -> None:
            while not done.is_set():
                began_s = time.perf_counter()
                sock.sendall(request)
                answer = sock.recv(4096)
                while len(answer) < 4 + INT32.unpack_from(answer)[0]:
                    answer += sock.recv(4096)
                waits_s.append(time.perf_counter() - began_s)
                time.sleep(0.0005)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            yield waits_s
        finally:
            done.set()
            asking.join(PATIENCE_S)


def _produce(bench: Bench, few: Server, all_: Server, samples: Samples) -> list[str]:
    """By four others on either server, and by the known ones; gives what is to be said of the differences."""
    plan, count = bench.plan, bench.plan.known_producers
    for server in (few, all_):
        Admin(server.bootstrap).alter_configs(_TOPIC, {"segment.bytes": None})
    pairs = PAIRS_A_ROUND * plan.rounds
    burst = count // _LOAD.connections // (2 * pairs)  # so that no known producer comes twice
    known = {
        few: replace(_LOAD, producers=_LOAD.connections, turns_before=1),
        all_: replace(_LOAD, producers=count, turns_before=1),
    }
    notes = []
    for work, loads in {"by four others": dict.fromkeys(known, _LOAD), "by the known ones": known}.items():
        sides = {server.name: Side.of(server, load) for server, load in loads.items()}
        warm_up_s = 0.0 if loads is known else plan.warm_up_s  # a known producer comes once
        costs_us = in_pairs(sides, pairs=pairs, burst=burst, warm_up_s=warm_up_s)
        for name, side in sides.items():
            side.close()
            samples[f"produce, {work}", _PER_CORE][name] = [1e6 / each for each in costs_us[name]]
        both = ("where few are known", "where all are")
        notes.append(bursts.note(f"produce, {work}", costs_us[few.name], costs_us[all_.name], both=both))
        bench.tell(notes[-1])
    return notes
