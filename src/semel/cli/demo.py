"""``semel demo``: a year of flights, eight kills, and the proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = Path(
        "semel-demo.html"
    ),
    rows: Annotated[
        int | None,
        typer.Option(min=1_000, metavar="N", help="Only the first N flights.", show_default="all 336,776"),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="D",
            help="Keep the logs, the checkpoint, the table and what the parts said here.",
        ),
    ] = None,
    without_spark: Annotated[bool, typer.Option("--no-spark", help="Leave the Spark part out.")] = False,
) -> None:
    """Kill every part of a pipeline; prove that nothing shows.

    A year of flights, 336,776 rows, goes through a producer, a server and a Spark driver, is copied to a second log
    and landed in a Delta table; all of them die by kill -9 in the middle of their work. Takes one to three minutes,
    three free ports of 127.0.0.1 and 200 MB of disk, which are given back. Without the extra land the table is left
    out, and that is said. Exit code 1 if one row is lost, doubled or out of order, or if a kill missed its moment.

    Example: semel demo --report /tmp/demo.html
    """
    from semel.demo.run import run_demo
    from semel.demo.story import DemoPlan

    plan = DemoPlan(report_path=report, row_count_max=rows, folder=folder, with_spark=not without_spark)
    if not run_demo(plan):
        raise typer.Exit(1)
