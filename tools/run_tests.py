"""``make check`` and ``make test``: the tests of one level, with lint, format, types and contracts beside them.

    python tools/run_tests.py check|test [pytest's options]

A failure is printed when it happens; what this machine could not run is a line each at the end, above what all of it
took, beside the level's bound.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Level:
    """Which tests, and how long they may take on two quiet cores."""

    marks: str
    wall_s: int
    processor_s: int


LEVELS: Final = {
    "check": Level("not slow and not thorough", wall_s=90, processor_s=150),
    "test": Level("not thorough", wall_s=8 * 60, processor_s=12 * 60),
}
WORKERS: Final = 3  # on two cores: some tests wait for servers
CHECKERS: Final = (("ruff", "check"), ("ruff", "format", "--check"), ("lint-imports",), ("mypy",))
_PR_SET_CHILD_SUBREAPER: Final = 36
_LEFT_BEHIND_S: Final = 15.0


def main() -> int:
    level = LEVELS.get(sys.argv[1]) if len(sys.argv) > 1 else None
    if level is None:
        sys.stderr.write(__doc__ or "")
        return 2
    began_s = time.monotonic()
    adopt_orphans()
    with ThreadPoolExecutor(1) as background:
        checked = background.submit(_check)
        tested = subprocess.run(pytest_command(level.marks, *sys.argv[2:]), check=False).returncode
        is_sound = checked.result()
    reap()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s, processor_s = time.monotonic() - began_s, spent.ru_utime + spent.ru_stime
    sys.stdout.write(
        f"make {sys.argv[1]}: {wall_s:.0f} s, and {processor_s:.0f} s of a processor; on two quiet cores"
    )
    sys.stdout.write(f" it may take {level.wall_s} s, and {level.processor_s} s\n")
    return tested or (0 if is_sound else 1)


def pytest_command(marks: str, *options: str, workers: int = WORKERS) -> list[str]:
    """One collection, whatever is in it; tests of one JVM stay together on one process (``tests/conftest.py``)."""
    spread = ["-n", str(workers), "--dist", "loadgroup"] if workers > 1 else []
    return [sys.executable, "-m", "pytest", "-q", *spread, "-m", marks, *options]


def _check() -> bool:
    """Whether all that reads the sources is content; what is not says so at once, in one piece."""
    programs = Path(sys.executable).parent
    is_sound = True
    for name, *options in CHECKERS:
        done = subprocess.run(
            [programs / name, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            is_sound = False
            sys.stdout.write(f"\n{' '.join([name, *options])} FAILED\n{done.stdout}\n")
            sys.stdout.flush()
    return is_sound


def adopt_orphans() -> None:
    """Have processes that outlive their parents counted here too: a JVM does, for a moment."""
    with suppress(OSError, AttributeError):  # Linux alone
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap() -> None:
    """Wait for what is left behind, so that its time is counted."""
    give_up_s = time.monotonic() + _LEFT_BEHIND_S
    with suppress(ChildProcessError):
        while time.monotonic() < give_up_s:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
