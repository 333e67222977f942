"""Many seeds, on several processes, into one report.

A run fails if a seed violates an invariant, or if a kind of fault or of verdict never occurred: what did not
happen was not tested. The latter needs enough seeds, so it is asked of runs of
:data:`SEEDS_THAT_MEET_EVERY_FAULT` or more.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from types import MappingProxyType
from typing import Final

from semel.sim.campaign.simulation import WHOLE, SeedResult, Telling, run_seed
from semel.sim.campaign.watchdog import watched
from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.server import verdicts
from semel.sim.server.compaction import seed_is_compacted
from semel.sim.transactions.drawing import seed_has_transactions
from semel.sim.world.faults import Fault
from semel.wording import counted

SEEDS_THAT_MEET_EVERY_FAULT: Final = 200
ONLY: Final[Mapping[str, Callable[[int], bool]]] = MappingProxyType(
    {
        "flows": seed_has_flows,
        "copies": seed_has_copies,
        "groups": seed_has_groups,
        "compacted": seed_is_compacted,
        "transactions": seed_has_transactions,
    }
)
SEEDS_PER_TASK: Final = 10  # garbage is collected behind each


@dataclass(slots=True)
class SwarmReport:
    """What a run of seeds came to."""

    first_seed: int = 0
    only: str | None = None  # of the seeds from the first on, those alone that have such: a key of ``ONLY``
    seeds: int = 0
    operations: int = 0
    fewest_operations: int = 0
    fewest_faults: int = 0
    simulated_ms: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    met_by: Counter[str] = field(default_factory=Counter)  # in how many seeds a fault or verdict came at all
    failures: list[SeedResult] = field(default_factory=list)

    def add(self, result: SeedResult) -> None:
        faults = result.faults.total()
        self.fewest_operations = min(self.fewest_operations or result.operations, result.operations)
        self.fewest_faults = min(self.fewest_faults or faults, faults)
        self.seeds += 1
        self.operations += result.operations
        self.simulated_ms += result.simulated_ms
        self.faults += result.faults
        self.verdicts += result.verdicts
        self.met_by.update(map(str, (*+result.faults, *+result.verdicts)))
        if result.violation is not None:
            self.failures.append(result)

    @property
    def never_seen(self) -> list[str]:
        """The kinds of faults and verdicts that did not occur."""
        return [
            *(fault for fault in Fault if not self.faults[fault]),
            *(verdict for verdict in verdicts.EXPECTED if not self.verdicts[verdict]),
        ]

    @property
    def verdict_names(self) -> list[str]:
        """The verdicts that are expected, and those that came beside them."""
        return sorted(self.verdicts.keys() | set(verdicts.EXPECTED))

    @property
    def is_long(self) -> bool:
        """Whether every kind of fault and verdict should have occurred by now."""
        return self.seeds >= SEEDS_THAT_MEET_EVERY_FAULT and self.only is None

    @property
    def is_clean(self) -> bool:
        missed = self.is_long and bool(self.never_seen)
        return not self.failures and not missed

    def lines(self) -> Iterator[str]:
        """The report for people: failures with their traces, then the counts."""
        for failure in self.failures:
            yield f"seed {failure.seed} FAILED: {failure.violation}"
            yield f"  again: semel sim --seed {failure.seed} --seeds 1"
            yield from (f"  {line}" for line in failure.trace_tail)
        yield (
            f"{counted(self.seeds, 'seed')}, {self.operations} operations (at least {self.fewest_operations} a seed), "
            f"{self.faults.total()} faults (at least {self.fewest_faults} a seed), "
            f"{self.simulated_ms / 3_600_000:.1f} simulated hours, {counted(len(self.failures), 'seed')} failed"
        )
        seen = Counter({str(fault): count for fault, count in self.faults.items()}) + self.verdicts
        names = [name for name in (*Fault, *self.verdict_names) if seen[name] or self.is_long]
        if not names:
            return
        width = max(map(len, names))
        for name in names:
            count = seen[name]
            yield f"  {name:<{width}} {count:>8}{'' if count else '  NEVER SEEN'}"


def seeds_from(first_seed: int, only: str | None) -> Iterator[int]:
    """All seeds from that one on, or those of them that have what is wanted."""
    return (seed for seed in count(first_seed) if only is None or ONLY[only](seed))


def run_seeds(
    first_seed: int,
    seeds: int,
    *,
    only: str | None = None,
    workers: int = 1,
    stop_at_first: bool = False,
    on_result: Callable[[SeedResult], None] | None = None,
) -> SwarmReport:
    """Live through ``seeds`` seeds from ``first_seed`` on; the report does not depend on ``workers``."""
    report = SwarmReport(first_seed, only)
    for result in _results(list(islice(seeds_from(first_seed, only), seeds)), workers):
        report.add(result)
        if on_result is not None:
            on_result(result)
        if stop_at_first and report.failures:
            break
    return report


def run_watched(seed: int, telling: Telling = WHOLE) -> SeedResult:
    """One seed, which may not hang; without the pauses of the collector, which would find little."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with watched():
            return run_seed(seed, telling)
    finally:
        if was_enabled:
            gc.enable()


def _results(seeds: Sequence[int], workers: int) -> Iterator[SeedResult]:
    if workers <= 1:
        yield from map(run_watched, seeds)
        return
    tasks = [seeds[start : start + SEEDS_PER_TASK] for start in range(0, len(seeds), SEEDS_PER_TASK)]
    context = multiprocessing.get_context("spawn")
    # What is imported stays: the collector need not walk all of it after every task.
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_freeze_what_is_imported)
    try:
        for results in pool.map(_run_task, tasks):
            yield from results
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _freeze_what_is_imported() -> None:
    gc.freeze()


def _run_task(seeds: Iterable[int]) -> list[SeedResult]:
    results = [run_watched(seed) for seed in seeds]
    gc.collect()
    return results
