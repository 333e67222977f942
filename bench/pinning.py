"""Which cores are whose: the server under test has one alone, its load the others."""

from __future__ import annotations

import os
from pathlib import Path

_CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU = _CPUS[0]
LOAD_CPUS = _CPUS[1:] or _CPUS


def pinned(cpu: int) -> list[str]:
    """What to put before a command so that it runs on ``cpu`` only."""
    return ["taskset", "-c", str(cpu)]


def pin_process(process_id: int, *cpus: int) -> None:
    """Move all threads of a running process to these."""
    for task in Path(f"/proc/{process_id}/task").iterdir():
        os.sched_setaffinity(int(task.name), cpus)
