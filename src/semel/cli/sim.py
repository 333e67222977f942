"""``semel sim``: the server and the client under seeded faults, in simulated time."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semel.cli.output import note
from semel.cli.progress import rows_progress
from semel.errors import ConfigError

if TYPE_CHECKING:
    from semel.sim.campaign.simulation import SeedResult
    from semel.sim.campaign.swarm import SwarmReport

_SEEDS: Final = 300


def sim(
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="How many seeds.", show_default="300; for each bug of --prove, 200"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="The first of them.")] = 0,
    flows: Annotated[
        bool, typer.Option("--flows", help="Only seeds that have flows, one in twenty.")
    ] = False,
    copies: Annotated[
        bool, typer.Option("--copies", help="Only seeds that have copies, one in twenty.")
    ] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Only seeds that have consumer groups, one in twenty.")
    ] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Only seeds that have transactions, one in twelve.")
    ] = False,
    compacted: Annotated[
        bool, typer.Option("--compacted", help="Only seeds whose topic is compacted, one in eight.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, metavar="K", help="Processes.", show_default="one a processor"),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", help="Keep the progress in FILE, and go on from it."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE",
            help="Write the counts, or what --prove finds, as the page of the documentation. "
            "The seeds that --prove found there last are tried first.",
        ),
    ] = None,
    scenarios: Annotated[
        Path,
        typer.Option(exists=True, file_okay=False, metavar="DIR", help="Where a shrunk failure is written."),
    ] = Path(),
    no_shrink: Annotated[
        bool, typer.Option("--no-shrink", help="Write none: to look for the fewest faults takes minutes.")
    ] = False,
    scenario: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, metavar="FILE", help="Tell one shrunk failure again."),
    ] = None,
    prove: Annotated[bool, typer.Option("--prove", help="Find every planted bug.")] = False,
) -> None:
    """Check every law of server and producer under simulated faults.

    The real code lives through crashes, lost messages and bad disks, in simulated time. Each seed is one story,
    the same on every machine. Exit code 1: a seed broke a law, and is named with its trace and told again with
    the fewest faults that break it, as a scenario file; or, from 200 seeds on, a kind of fault or of answer
    never happened; or a planted bug was not found.

    Example: semel sim --seed 4711 --seeds 1
    """
    if sum(map(bool, (resume, scenario, prove))) > 1:
        raise ConfigError("--resume, --scenario and --prove are runs of three kinds: use one of them")
    if scenario is not None and (page is not None or seeds is not None or seed):
        raise ConfigError("--page, --seeds and --seed are for many seeds, --scenario tells one again")
    wanted = {
        "flows": flows,
        "copies": copies,
        "groups": groups,
        "transactions": transactions,
        "compacted": compacted,
    }
    kinds = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(kinds) > 1:
        raise ConfigError(f"no seed is of both kinds: use one of --{kinds[0]} and --{kinds[1]}")
    only = kinds[0] if kinds else None
    if only and (scenario is not None or prove or page is not None):
        raise ConfigError(f"--{only} is for many seeds without a --page: leave --scenario and --prove out")
    if prove and (seed or (seeds is not None and page is not None)):
        raise ConfigError(
            "--prove begins at seed 0 for every bug: leave --seed out, and --seeds where its --page is written"
        )
    for written in (resume, page):
        if written is not None and not written.absolute().parent.is_dir():
            raise ConfigError(f"{written}: there is no such folder")
    processes = workers or os.cpu_count() or 1
    if scenario is not None:
        is_clean = _tell_again(scenario)
    elif prove:
        is_clean = _prove(seeds, processes, page)
    else:
        from semel.sim.campaign.seed_range import begin

        is_clean = _run(
            begin(seed, resume, only=only),
            seeds or _SEEDS,
            processes,
            resume,
            page,
            None if no_shrink else scenarios,
        )
    raise typer.Exit(0 if is_clean else 1)


def _run(
    report: SwarmReport,
    seeds: int,
    workers: int,
    resume: Path | None,
    page: Path | None,
    scenarios: Path | None,
) -> bool:
    from semel.sim.campaign import tally
    from semel.sim.campaign.seed_range import go_on

    began_s, seeds_before = time.monotonic(), report.seeds
    with rows_progress("simulate", seeds, unit="seeds") as progress:
        progress(seeds_before)
        go_on(report, seeds, workers=workers, progress_file=resume, on_result=lambda _: progress(1))
    seconds = max(time.monotonic() - began_s, 0.01)
    for line in report.lines():
        _say(line)
    note(f"{(report.seeds - seeds_before) * 60 / seconds:.0f} seeds a minute")
    if page is not None and not report.failures:
        page.write_text(tally.page(report))
    if scenarios is not None:
        for failure in report.failures:
            _shrink(failure, scenarios)
    return report.is_clean


def _shrink(failure: SeedResult, folder: Path) -> None:
    from semel.sim.campaign.scenario import encode_scenario
    from semel.sim.campaign.shrink import Shrinker
    from semel.sim.campaign.swarm import run_watched

    note(f"seed {failure.seed}: looking for the fewest faults that make it fail ...")
    shrunk = Shrinker(failure, run_watched).shrink()
    path = folder / f"seed-{failure.seed}.toml"
    path.write_text(encode_scenario(shrunk))
    _say(f"  {len(failure.occasions)} faults became {len(shrunk.occasions)} in {shrunk.runs} runs: {path}")


def _tell_again(path: Path) -> bool:
    from semel.sim.campaign.scenario import decode_scenario
    from semel.sim.campaign.swarm import run_watched

    result = run_watched(*decode_scenario(path.read_text()))
    for line in result.trace_tail:
        _say(f"  {line}")
    _say(f"{path}: {result.violation or 'every invariant holds'}")
    return result.violation is None


def _prove(seeds: int | None, workers: int, page: Path | None) -> bool:
    from semel.sim.campaign import proof

    likely_seeds = proof.seeds_of(page.read_text()) if page is not None and page.exists() else {}
    findings = proof.prove(
        workers,
        seeds_max=seeds or proof.SEEDS_MAX,
        likely_seeds=likely_seeds,
        on_finding=lambda finding: _say(str(finding)),
    )
    if page is not None:
        page.write_text(proof.page(findings))
    return all(finding.is_as_expected for finding in findings)


def _say(line: str) -> None:
    """At once: what follows may take minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
