"""``semel sim``: the server and the client under seeded faults, in simulated time."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from semel.cli.progress import rows_progress


def sim(
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="How many seeds.")] = 300,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="The first of them.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, metavar="K", help="Processes.", show_default="one a processor"),
    ] = None,
) -> None:
    """Check every law of server and producer under simulated faults.

    The real code lives through crashes, lost messages and bad disks, in simulated time. Each seed is one story,
    the same on every machine. Exit code 1: a seed broke a law, and is named with its trace; or, from 200 seeds
    on, a kind of fault or of answer never happened.

    Example: semel sim --seed 4711 --seeds 1
    """
    from semel.sim.__main__ import run

    with rows_progress("simulate", seeds, unit="seeds") as progress:
        code = run(seeds, seed, workers or os.cpu_count() or 1, on_result=lambda _: progress(1))
    raise typer.Exit(code)
