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


@contextmanager
def parts_progress() -> Iterator[Callable[[str, int | None], Callable[[int], None]]]:
    """The same for work of several parts, each with a bar: gives a function that begins the next one.

    That is told the part's name and how many rows it has, where they are known, and gives the part's own function.
    """
    if not sys.stderr.isatty():
        yield lambda what, total: lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} rows"))
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    began = time.monotonic()
    parts: list[TaskID] = []

    def show() -> None:
        if not bar.live.is_started and time.monotonic() - began > _QUIET_FOR_S:
            bar.start()

    def begin(what: str, total: int | None) -> Callable[[int], None]:
        if parts:
            done = bar.tasks[-1].completed
            bar.update(parts[-1], total=max(1, done), completed=max(1, done))
            bar.stop_task(parts[-1])
        part = bar.add_task(what, total=total)
        parts.append(part)
        show()

        def advance(rows: int) -> None:
            bar.advance(part, rows)
            show()

        return advance

    try:
        yield begin
    finally:
        bar.stop()
