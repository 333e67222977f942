"""A flow's progress for people: a table that changes on a terminal and in a notebook, lines elsewhere."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TextIO

from semel.flow.watch import Look, StageLook
from semel.wording import counted

LINES_S: Final = 10.0  # between lines that are not on a terminal: a log stays readable
COLUMNS: Final = ("stage", "rows/s", "rows", "bad", "lag", "micro-batches", "state")
_UNITS: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


class Shown(Protocol):
    """Where looks are shown."""

    def show(self, look: Look) -> None:
        """The newest one."""

    def end(self) -> None:
        """There will be no more; the last one stays."""


def cells(stage: StageLook) -> tuple[str, ...]:
    """A stage's row of the table."""
    return (
        stage.stage,
        f"{stage.rows_per_s:,.0f}",
        f"{stage.row_count:,}",
        f"{stage.bad_count:,}",
        f"{stage.lag:,}",
        f"{stage.micro_batches:,}",
        state_text(stage),
    )


def state_text(stage: StageLook) -> str:
    """How large the state is, and where it is."""
    if not stage.has_state:
        return "-"
    keys = f"{stage.state_keys:,} {'key' if stage.state_keys == 1 else 'keys'}"
    where = "in the changelog" if stage.is_in_changelog else "in the decisions"
    return f"{keys}, {size_text(stage.state_bytes)} {where}"


def size_text(size_bytes: int) -> str:
    """With a unit that leaves it readable."""
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return counted(size_bytes, "byte")


def line(flow: str, stage: StageLook) -> str:
    """One stage in one line."""
    text = (
        f"{flow}/{stage.stage}: {stage.rows_per_s:,.0f} rows/s, lag {stage.lag:,}, "
        f"{counted(stage.row_count, 'row')} in {counted(stage.micro_batches, 'micro-batch', 'micro-batches')}"
    )
    text += f", {stage.bad_count:,} bad" if stage.bad_count else ""
    text += f", {stage.late_count:,} late" if stage.late_count else ""
    return f"{text}, {state_text(stage)}" if stage.has_state else text


def asides(look: Look) -> list[str]:
    """A line for the bad rows, and one for the late ones, where there are any: how many, where, and why the first."""
    return [
        f"{counted(count, 'row')} went to {topic}: {look.reasons.get(topic, 'its headers say why')}"
        for topic, count in look.asides.items()
    ]


def table(look: Look) -> str:
    """All stages as text in columns."""
    rows: list[Sequence[str]] = [COLUMNS, *map(cells, look.stages)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    padded = []
    for row in rows:
        parts = [
            text.rjust(width) if 0 < column < len(COLUMNS) - 1 else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        padded.append("  ".join(parts).rstrip())
    return "\n".join(padded)


class Lines:
    """A line for each stage that has done something, now and then."""

    def __init__(self, out: TextIO, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._out, self._now_s = out, now_s
        self._told: dict[str, StageLook] = {}
        self._last: Look | None = None
        self._next_s = now_s()

    def show(self, look: Look) -> None:
        self._last = look
        if self._now_s() >= self._next_s and self._tell(look):
            self._next_s = self._now_s() + LINES_S

    def _tell(self, look: Look) -> bool:
        changed = [stage for stage in look.stages if _has_moved(self._told.get(stage.stage), stage)]
        for stage in changed:
            self._out.write(f"{line(look.flow, stage)}\n")
            self._told[stage.stage] = stage
        if changed:
            self._out.flush()
        return bool(changed)

    def end(self) -> None:
        if self._last is not None:
            self._tell(self._last)
            self._out.writelines(f"{text}\n" for text in asides(self._last))
            self._out.flush()


def _has_moved(before: StageLook | None, now: StageLook) -> bool:
    if before is None:
        return now.micro_batches > 0 or now.lag > 0
    return (before.micro_batches, before.lag) != (now.micro_batches, now.lag)


class LiveTable:
    """On a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), auto_refresh=False)
        self._last: Look | None = None

    def show(self, look: Look) -> None:
        from rich.table import Table

        self._last = look
        drawn = Table(title=f"flow {look.flow}", title_justify="left")
        for number, name in enumerate(COLUMNS):
            drawn.add_column(name, justify="right" if 0 < number < len(COLUMNS) - 1 else "left")
        for stage in look.stages:
            drawn.add_row(*cells(stage))
        if not self._live.is_started:
            self._live.start()
        self._live.update(drawn, refresh=True)

    def end(self) -> None:
        if self._live.is_started:
            self._live.stop()
        for text in () if self._last is None else asides(self._last):
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Notebook:
    """A cell's output that changes. ``display`` is IPython's."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, look: Look) -> None:
        text = "\n".join([f"flow {look.flow}", table(look), *asides(look)])
        data = {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def end(self) -> None: ...


def shown_here() -> Shown:
    """As fits where this process runs."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        return Notebook(sys.modules["IPython"].display.display)
    if sys.stderr.isatty():
        return LiveTable()
    return Lines(sys.stderr)
