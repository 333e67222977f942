"""Many seeds, on several processes, into one report.

A run fails if a seed violates an invariant, or if a kind of fault never bit: what did not happen was not
tested. The latter needs enough seeds, so it is asked of runs of :data:`SEEDS_THAT_MEET_EVERY_FAULT` or more.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from semel.sim.faults import Fault
from semel.sim.simulation import SeedResult, run_seed

SEEDS_THAT_MEET_EVERY_FAULT: Final = 200
_SEEDS_PER_TASK: Final = 10


@dataclass(slots=True)
class SwarmReport:
    """What a run of seeds came to."""

    seeds: int = 0
    operations: int = 0
    simulated_ms: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[SeedResult] = field(default_factory=list)

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.operations += result.operations
        self.simulated_ms += result.simulated_ms
        self.faults += result.faults
        self.verdicts += result.verdicts
        if result.violation is not None:
            self.failures.append(result)

    @property
    def faults_that_never_bit(self) -> list[Fault]:
        return [fault for fault in Fault if not self.faults[fault]]

    @property
    def is_clean(self) -> bool:
        missed = self.seeds >= SEEDS_THAT_MEET_EVERY_FAULT and bool(self.faults_that_never_bit)
        return not self.failures and not missed

    def lines(self) -> Iterator[str]:
        """The report for people: failures with their traces, then the counts."""
        for failure in self.failures:
            yield f"seed {failure.seed} FAILED: {failure.violation}"
            yield f"  again: semel sim --seed {failure.seed} --seeds 1"
            yield from (f"  {line}" for line in failure.trace_tail)
        yield (
            f"{self.seeds} seeds, {self.operations} records, {self.simulated_ms / 3_600_000:.1f} simulated "
            f"hours, {self.faults.total()} faults, {len(self.failures)} seeds failed"
        )
        width = max(len(fault) for fault in Fault)
        for fault in Fault:
            never = "  NEVER BIT" if not self.faults[fault] else ""
            yield f"  {fault:<{width}} {self.faults[fault]:>8}{never}"
        for verdict, count in sorted(self.verdicts.items()):
            yield f"  {'verdict: ' + verdict:<{width}} {count:>8}"


def run_seeds(
    first_seed: int,
    seeds: int,
    *,
    workers: int = 1,
    stop_at_first: bool = False,
    on_result: Callable[[SeedResult], None] | None = None,
) -> SwarmReport:
    """Live through ``seeds`` seeds from ``first_seed`` on; the report does not depend on ``workers``."""
    report = SwarmReport()
    for result in _results(range(first_seed, first_seed + seeds), workers):
        report.add(result)
        if on_result is not None:
            on_result(result)
        if stop_at_first and report.failures:
            break
    return report


def _results(seeds: range, workers: int) -> Iterator[SeedResult]:
    if workers <= 1:
        yield from map(run_seed, seeds)
        return
    tasks = [seeds[start : start + _SEEDS_PER_TASK] for start in range(0, len(seeds), _SEEDS_PER_TASK)]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context)
    try:
        for results in pool.map(_run_task, tasks):
            yield from results
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _run_task(seeds: Iterable[int]) -> list[SeedResult]:
    return [run_seed(seed) for seed in seeds]
