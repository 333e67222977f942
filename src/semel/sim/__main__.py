"""``python -m semel.sim``, and the function behind ``semel sim``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from semel.sim.simulation import SeedResult
from semel.sim.swarm import run_seeds


def run(
    seeds: int, first_seed: int = 0, workers: int = 1, on_result: Callable[[SeedResult], None] | None = None
) -> int:
    """Run, print the report, return the exit code: 0 all clean, 1 a seed failed or a fault never bit."""
    report = run_seeds(first_seed, seeds, workers=workers, on_result=on_result)
    sys.stdout.writelines(f"{line}\n" for line in report.lines())
    return 0 if report.is_clean else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="semel sim",
        description="Run the real server and client code through seeded faults in simulated time.",
    )
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many seeds (300)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    parser.add_argument("--workers", type=int, default=1, metavar="K", help="processes (1)")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.workers < 1:
        parser.error("--seeds and --workers are at least 1")
    return run(given.seeds, given.seed, given.workers)


if __name__ == "__main__":
    sys.exit(main())
