"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_with_us(process_id: int) -> Iterator[None]:
    """Kill the process even if we are killed: a child of ours waits for the end of a pipe that we hold."""
    watch = "import os, sys; sys.stdin.read() or os.kill(int(sys.argv[1]), 9)"
    watcher = subprocess.Popen(
        [sys.executable, "-IS", "-c", watch, str(process_id)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        watcher.communicate(b"all is well")
