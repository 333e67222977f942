"""Progress on stderr for work that lasts, on a terminal only: logs and pipes stay clean."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_QUIET_FOR_S: Final = 0.3  # short work shows nothing


@contextmanager
def rows_progress(
    what: str, total: int | None = None, *, unit: str = "rows"
) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many rows went by; draws a bar once the work turns out to last."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    count = TextColumn("{task.completed}") if total is None else MofNCompleteColumn()

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        count,
        TextColumn(unit),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total)
    began = time.monotonic()

    def advance(rows: int) -> None:
        bar.advance(task, rows)
        if not bar.live.is_started and time.monotonic() - began > _QUIET_FOR_S:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
