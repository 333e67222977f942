"""How long the disk takes to make a small append durable: what no server that syncs can be faster than."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.figures import Spread

APPENDS = 200
APPEND_BYTES = 4096


def sync_ms(folder: Path) -> Spread:
    """Of an append with ``fdatasync``, to a file in ``folder``."""
    took_ms = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(APPENDS):
            os.write(file.fileno(), bytes(APPEND_BYTES))
            started_s = time.perf_counter()
            os.fdatasync(file.fileno())
            took_ms.append(1e3 * (time.perf_counter() - started_s))
    return Spread.of(took_ms)
