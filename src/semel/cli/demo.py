"""``semel demo``: a year of flights, three kills, and the proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = Path(
        "semel-demo.html"
    ),
    rows: Annotated[
        int | None, typer.Option(min=1_000, metavar="N", help="Only the first N flights. [all 336,776]")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="D", help="Keep the log, checkpoints and logs here.")
    ] = None,
    with_spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Leave the Spark part out.")] = True,
) -> None:
    """Load 336,776 flights, kill producer, Spark driver and server on the way, and prove the result.

    Exit code 1 if one flight is lost, doubled or out of order.

    Example: semel demo --report /tmp/demo.html
    """
    from semel.demo.run import DemoPlan, run_demo

    plan = DemoPlan(report_path=report, row_count_max=rows, folder=folder, with_spark=with_spark)
    if not run_demo(plan):
        raise typer.Exit(1)
