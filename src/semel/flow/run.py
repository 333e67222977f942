"""Running a flow: on Spark, or in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from semel.flow.here import run_here
from semel.flow.plan import Plan
from semel.flow.slots import default_folder
from semel.flow.stage_ranges import Cuts


def run_flow(
    plan: Plan,
    bootstrap: str,
    *,
    spark: Any = None,
    here: bool = False,
    once: bool = False,
    cuts: Cuts | None = None,
    store: Path | None = None,
) -> None:
    """Run it until it is stopped, or with ``once`` to the end of what its topics have now.

    ``here``: in this process, without Spark. ``spark``: the session to run it in; else the running one, or a new one.
    ``store``: the folder for large state, on each machine that has tasks. Where a flow runs, and how its micro-batches
    are cut, changes nothing of what it writes.
    """
    if here:
        run_here(plan, bootstrap, store=store or default_folder(), until_idle=once, cuts=cuts)
        return
    from semel.flow.on_spark import FlowOnSpark
    from semel.spark.session import session

    running = FlowOnSpark(plan, bootstrap, spark or session(f"semel-{plan.flow}"), cuts=cuts, store=store)
    if once:
        running.run_to_the_end()
        return
    try:
        running.start().wait()
    finally:
        running.stop()
