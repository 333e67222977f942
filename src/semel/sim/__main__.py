"""``python -m semel.sim``, and the functions behind ``semel sim``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from semel.sim.faults import Fault
from semel.sim.proof import PAGE, prove, write_page
from semel.sim.scenario import decode_scenario, encode_scenario
from semel.sim.shrink import Shrinker
from semel.sim.simulation import SeedResult
from semel.sim.swarm import SwarmReport, run_seeds, run_watched

SEEDS_A_STEP: Final = 100
PROGRESS_FILE: Final = "semel-sim-progress.json"


def run(
    seeds: int,
    first_seed: int = 0,
    workers: int = 1,
    on_result: Callable[[SeedResult], None] | None = None,
    *,
    progress_file: Path | None = None,
    scenarios: Path | None = Path(),
) -> int:
    """Run, print the report, return the exit code: 0 all clean, 1 a seed failed or something never occurred.

    The first failure is shrunk into the folder ``scenarios``, which takes minutes; ``None``: it is not.
    """
    report = _load(progress_file, first_seed) if progress_file is not None else SwarmReport()
    began_s, seeds_before = time.monotonic(), report.seeds

    def add(result: SeedResult) -> None:
        report.add(result)
        if on_result is not None:
            on_result(result)

    while report.seeds < seeds and not report.failures:
        step = min(SEEDS_A_STEP * workers if progress_file else seeds, seeds - report.seeds)
        run_seeds(first_seed + report.seeds, step, workers=workers, stop_at_first=True, on_result=add)
        if progress_file is not None and not report.failures:
            _save(progress_file, first_seed, report)
    sys.stdout.writelines(f"{line}\n" for line in report.lines())
    seconds = time.monotonic() - began_s
    _say(f"{(report.seeds - seeds_before) * 60 / max(seconds, 0.01):.0f} seeds a minute")
    if scenarios is not None:
        for failure in report.failures:
            _shrink(failure, scenarios)
    return 0 if report.is_clean else 1


def run_scenario(path: Path) -> int:
    """Tell one shrunk failure again; 0 when nothing is violated any more."""
    seed, telling = decode_scenario(path.read_text())
    result = run_watched(seed, telling)
    for line in result.trace_tail:
        _say(f"  {line}")
    _say(f"{path}: {result.violation or 'every invariant holds'}")
    return 1 if result.violation else 0


def _shrink(failure: SeedResult, folder: Path) -> None:
    _say(f"seed {failure.seed}: looking for the fewest faults that make it fail ...")
    shrunk = Shrinker(failure, run_watched).shrink()
    path = folder / f"seed-{failure.seed}.toml"
    path.write_text(encode_scenario(shrunk))
    _say(f"  {len(failure.occasions)} faults became {len(shrunk.occasions)} in {shrunk.runs} runs: {path}")


def _load(path: Path, first_seed: int) -> SwarmReport:
    if not path.exists():
        return SwarmReport()
    fields = json.loads(path.read_text())
    if fields.pop("first_seed") != first_seed:
        raise SystemExit(f"{path} belongs to a run with another first seed")
    faults = Counter({Fault(name): count for name, count in fields.pop("faults").items()})
    verdicts = Counter(fields.pop("verdicts"))
    return SwarmReport(**fields, faults=faults, verdicts=verdicts)


def _save(path: Path, first_seed: int, report: SwarmReport) -> None:
    fields = {
        "first_seed": first_seed,
        "seeds": report.seeds,
        "operations": report.operations,
        "fewest_operations": report.fewest_operations,
        "fewest_faults": report.fewest_faults,
        "simulated_ms": report.simulated_ms,
        "faults": dict(report.faults),
        "verdicts": dict(report.verdicts),
    }
    path.write_text(json.dumps(fields, indent=1) + "\n")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="semel sim",
        description="Run the real server and client code through seeded faults in simulated time.",
    )
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many seeds (300)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="processes (1)")
    parser.add_argument(
        "--resume",
        nargs="?",
        const=PROGRESS_FILE,
        metavar="FILE",
        help=f"keep the progress in FILE ({PROGRESS_FILE}), and go on from it",
    )
    parser.add_argument(
        "--scenarios", default=".", metavar="DIR", help="where a shrunk failure is written (.)"
    )
    parser.add_argument("--no-shrink", action="store_true", help="do not: it takes minutes")
    parser.add_argument("--scenario", metavar="FILE", help="tell one shrunk failure again")
    parser.add_argument("--prove", action="store_true", help=f"find every planted bug, and write {PAGE}")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.workers < 1:
        parser.error("--seeds and --workers are at least 1")
    if given.scenario:
        return run_scenario(Path(given.scenario))
    if given.prove:
        findings = prove(given.workers, on_finding=lambda finding: _say(str(finding)))
        write_page(findings)
        return 0 if all(finding.is_as_expected for finding in findings) else 1
    return run(
        given.seeds,
        given.seed,
        given.workers,
        progress_file=Path(given.resume) if given.resume else None,
        scenarios=None if given.no_shrink else Path(given.scenarios),
    )


if __name__ == "__main__":
    sys.exit(main())
