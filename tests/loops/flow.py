"""The flow that rounds kill, and the program that runs it: two stages, the second with a large state.

``python -m tests.loops.flow BOOTSTRAP MASTER STORE ROWS_MAX ENTRIES_MAX ENTRY_ROWS_MAX [--once]``
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from semel.flow import source
from semel.flow.run import run_flow
from semel.flow.stage_ranges import Cuts

INPUT, OUTPUT = "names", "sums"
NAMES = 2_000  # with forty letters each far more than a decision takes: the state is in the changelog


def name_of(number: int) -> str:
    """Of a key."""
    return f"{number:05} {'x' * 34}"


def running(state: tuple[int, int], row: Any) -> tuple[tuple[int, int], dict[str, Any]]:
    count, total = state
    state = count + 1, total + row.n
    return state, {"name": row.name, "count": state[0], "total": state[1]}


def checked(row: Any) -> dict[str, Any]:
    return {"name": row.name, "n": row.n}


sums = (
    source(INPUT, json="name string, n bigint")
    .where("n >= 0")  # Spark's
    .map(checked, schema="name string, n bigint")
    .key_by("name", partitions=2)
    .fold(running, init=(0, 0), schema="name string, count bigint, total bigint")
    .to(OUTPUT)
)


def main() -> None:
    bootstrap, master, store, *numbers = sys.argv[1:]
    rows_max, entries_max, entry_rows_max = map(int, numbers[:3])
    from semel.spark import session

    spark = session(
        "tests-loops-flow",
        master,
        {
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.showConsoleProgress": "false",
            "spark.task.maxFailures": "20",  # each kill may fail a task of every stage
        },
    )
    sys.stdout.write("running\n")
    sys.stdout.flush()
    cuts = Cuts(rows_max, entries_max, entry_rows_max)
    run_flow(sums.plan(), bootstrap, spark=spark, once="--once" in numbers, cuts=cuts, store=Path(store))


if __name__ == "__main__":
    main()
