"""The process that :mod:`examples.kill` starts and kills: one flow, run here or on Spark.

python -m examples.running NAME BOOTSTRAP FOLDER here|spark ROWS_MAX ENTRIES_MAX CORES [--once]
"""

from __future__ import annotations

import sys
from pathlib import Path

from semel.flow.files import load_flows
from semel.flow.run import run_flow
from semel.flow.stage_ranges import Cuts


def main() -> None:
    name, bootstrap, folder, where, rows_max, entries_max, cores, *rest = sys.argv[1:]
    plan = load_flows(Path(__file__).with_name(f"{name}.py")).flow().plan()
    spark = None
    if where == "spark":
        from semel.spark import session

        spark = session(f"examples-{name}", master=f"local[{cores}]")
    sys.stdout.write("running\n")
    sys.stdout.flush()
    cuts = Cuts(int(rows_max), int(entries_max))
    run_flow(
        plan,
        bootstrap,
        spark=spark,
        here=where == "here",
        once="--once" in rest,
        cuts=cuts,
        store=Path(folder),
    )


if __name__ == "__main__":
    main()
