"""A range of seeds, up to the first that fails, which may be stopped and gone on with: its report is in a file.

The file holds whole steps only: what a run had begun when it was stopped is lived through again. It names the
code, for seeds that were lived through with other code prove nothing of this.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

import semel
from semel.errors import ConfigError
from semel.sim.campaign.simulation import SeedResult
from semel.sim.campaign.swarm import SwarmReport, run_seeds, seeds_from
from semel.sim.world.faults import Fault

SEEDS_A_STEP: Final = 100  # and worker
_SEED_DIGITS: Final = 6  # hexadecimal


def begin(first_seed: int, progress_file: Path | None = None, *, only: str | None = None) -> SwarmReport:
    """What is done already of the seeds from ``first_seed`` on, or of those of them that have what is wanted."""
    if progress_file is None:
        return SwarmReport(first_seed, only)
    if not progress_file.exists():
        write_progress(SwarmReport(first_seed, only), progress_file)
    report = read_progress(progress_file)
    if report.only != only:
        raise ConfigError(f"{progress_file} is of {f'{report.only} alone' if report.only else 'all seeds'}")
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
        next_seed = next(islice(seeds_from(report.first_seed, report.only), report.seeds, None))
        run_seeds(
            next_seed,
            step,
            only=report.only,
            workers=workers,
            stop_at_first=True,
            on_result=add,
        )
        if progress_file is not None and not report.failures:
            read_progress(progress_file)  # refuses what the code that has changed meanwhile would add
            write_progress(report, progress_file)


def code_sha256() -> str:
    """Of all sources of the package, with their names."""
    package = Path(semel.__file__).parent
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\n".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def first_seed_of_this_code() -> int:
    """Where the seeds begin that are this state's of the code, on every machine: another state has others."""
    return int(code_sha256()[:_SEED_DIGITS], 16)


def read_progress(path: Path) -> SwarmReport:
    """The report that :func:`write_progress` wrote."""
    try:
        fields = json.loads(path.read_text())
        code = fields.pop("code_sha256")
        faults = Counter({Fault(name): count for name, count in fields.pop("faults").items()})
        verdicts = Counter(fields.pop("verdicts"))
        met_by = Counter(fields.pop("met_by"))
        report = SwarmReport(**fields, faults=faults, verdicts=verdicts, met_by=met_by)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} is not the progress of a run: {error}") from error
    if code != code_sha256():
        raise ConfigError(
            f"{path} is of a run of other code, of which these seeds say nothing: begin a new one"
        )
    return report


def write_progress(report: SwarmReport, path: Path) -> None:
    """Put a clean report in place of the one before it, whole or not at all."""
    fields = {
        "code_sha256": code_sha256(),
        "first_seed": report.first_seed,
        "only": report.only,
        "seeds": report.seeds,
        "operations": report.operations,
        "fewest_operations": report.fewest_operations,
        "fewest_faults": report.fewest_faults,
        "simulated_ms": report.simulated_ms,
        "faults": dict(report.faults),
        "verdicts": dict(report.verdicts),
        "met_by": dict(report.met_by),
    }
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(json.dumps(fields, indent=1) + "\n")
    unfinished.replace(path)
