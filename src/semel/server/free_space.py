"""How much room the data folder's file system has, and a warning before it is full.

Invariant: one line for each crossing of ``data.dir.free.bytes.low``, and one when there is room again: a tenth more,
so that a level around the bound does not say so each time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

CHECK_S: Final = 5.0


def free_bytes_of(folder: Path) -> int:
    """What a process without privileges may still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class FreeSpace:
    """Looks when told to; ``free_bytes`` is what the last look found, None before the first good one."""

    def __init__(
        self, folder: Path, low_bytes: int, free_bytes_of: Callable[[Path], int] = free_bytes_of
    ) -> None:
        self._folder = folder
        self._low_bytes = low_bytes  # 0: never warn
        self._free_bytes_of = free_bytes_of
        self.free_bytes: int | None = None
        self.is_low = False

    def look(self) -> None:
        try:
            free_bytes = self.free_bytes = self._free_bytes_of(self._folder)
        except OSError:
            return
        if not self.is_low and free_bytes < self._low_bytes:
            self.is_low = True
            log.warning(
                "%s has %d MiB left, less than data.dir.free.bytes.low (%d MiB): once it is full nothing more is "
                "stored. Make room, or shorten log.retention.ms or log.retention.bytes",
                self._folder,
                free_bytes >> 20,
                self._low_bytes >> 20,
            )
        elif self.is_low and free_bytes >= self._low_bytes + self._low_bytes // 10:
            self.is_low = False
            log.info("%s has room again: %d MiB", self._folder, free_bytes >> 20)
