"""A server's log that lost its end, as a power cut leaves it, or a folder that was put back from an older copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from semel.local import LocalLog
from semel.record.batch import scan_batches


def lose_end(log: LocalLog, topic: str, offset: int) -> None:
    """Partition 0 ends at ``offset``, where a batch begins: nothing in its files says that there was more."""
    log.crash()
    (path,) = (Path(log.data_dir) / f"{topic}-0").glob("*.log")
    position = sum(h.size_bytes for _, h in scan_batches(path.read_bytes()) if h.base_offset < offset)
    with path.open("r+b") as file:
        file.truncate(position)
    log.restart()


def older_copy(log: LocalLog, folder: Path) -> Callable[[], None]:
    """Copy the data folder of a stopped server to ``folder``; the call puts the copy back."""
    log.stop()
    shutil.copytree(log.data_dir, folder)
    log.restart()

    def put_back() -> None:
        log.stop()
        shutil.rmtree(log.data_dir)
        shutil.copytree(folder, log.data_dir)
        log.restart()

    return put_back
