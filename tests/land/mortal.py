"""A landing job in a process of its own, that kills itself at a step, or stands still in front of one.

python -m tests.land.mortal BOOTSTRAP TABLE FORMAT TOPIC kill N      at the Nth step: kill -9
python -m tests.land.mortal BOOTSTRAP TABLE FORMAT TOPIC pause STEP  behind STEP: say so, wait for a line, go on
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.land.landed import job

from semel.client.blocking import Cluster
from semel.errors import SemelError
from semel.land.formats import TableFormat
from semel.land.job import run_job


def main() -> int:
    bootstrap, table, table_format, topic, what, which = sys.argv[1:]
    steps = 0

    def kill(step: str) -> None:
        nonlocal steps
        steps += 1
        if steps == int(which):
            os.kill(os.getpid(), signal.SIGKILL)

    def pause(step: str) -> None:
        if step == which:
            sys.stdout.write(f"{step}\n")
            sys.stdout.flush()
            sys.stdin.readline()

    asked = job(Path(table), TableFormat(table_format), topic, rows=50, compact_every=3)
    try:
        with Cluster(bootstrap) as cluster:
            run_job(asked, cluster, on_step=kill if what == "kill" else pause)
    except SemelError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
