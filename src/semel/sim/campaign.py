"""A range of seeds, up to the first that fails, which may be stopped and gone on with: its report is in a file.

The file holds whole steps only: what a run had begun when it was stopped is lived through again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from semel.errors import ConfigError
from semel.sim.faults import Fault
from semel.sim.simulation import SeedResult
from semel.sim.swarm import SwarmReport, run_seeds

SEEDS_A_STEP: Final = 100  # and worker


def begin(first_seed: int, progress_file: Path | None = None) -> SwarmReport:
    """What is done already of the seeds from ``first_seed`` on."""
    if progress_file is None or not progress_file.exists():
        return SwarmReport(first_seed)
    report = read_progress(progress_file)
    if report.first_seed != first_seed:
        raise ConfigError(f"{progress_file} begins with seed {report.first_seed}, not with {first_seed}")
    return report


def go_on(
    report: SwarmReport,
    seeds: int,
    *,
    workers: int = 1,
    progress_file: Path | None = None,
    on_result: Callable[[SeedResult], None] = lambda _: None,
) -> None:
    """Live through what ``report`` lacks of so many seeds, into it."""

    def add(result: SeedResult) -> None:
        report.add(result)
        on_result(result)

    while report.seeds < seeds and not report.failures:
        step = min(SEEDS_A_STEP * workers if progress_file else seeds, seeds - report.seeds)
        next_seed = report.first_seed + report.seeds
        run_seeds(next_seed, step, workers=workers, stop_at_first=True, on_result=add)
        if progress_file is not None and not report.failures:
            write_progress(report, progress_file)


def read_progress(path: Path) -> SwarmReport:
    """The report that :func:`write_progress` wrote."""
    try:
        fields = json.loads(path.read_text())
        faults = Counter({Fault(name): count for name, count in fields.pop("faults").items()})
        verdicts = Counter(fields.pop("verdicts"))
        return SwarmReport(**fields, faults=faults, verdicts=verdicts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} is not the progress of a run: {error}") from error


def write_progress(report: SwarmReport, path: Path) -> None:
    """Put a clean report in place of the one before it, whole or not at all."""
    fields = {
        "first_seed": report.first_seed,
        "seeds": report.seeds,
        "operations": report.operations,
        "fewest_operations": report.fewest_operations,
        "fewest_faults": report.fewest_faults,
        "simulated_ms": report.simulated_ms,
        "faults": dict(report.faults),
        "verdicts": dict(report.verdicts),
    }
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(json.dumps(fields, indent=1) + "\n")
    unfinished.replace(path)
