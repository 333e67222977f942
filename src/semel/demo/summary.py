"""The demo's screen: a line a step and, on a terminal, bars while it runs; one table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from semel.demo.story import NOT_LANDED

if TYPE_CHECKING:
    from semel.demo.proof import Proof
    from semel.demo.story import Story
    from semel.demo.timeline import Sample


class Screen:
    """Steps go to stderr, the result to stdout. Bars are drawn on a terminal only, and taken back."""

    def __init__(self) -> None:
        self._notes = Console(stderr=True, highlight=False)
        self._data = Console(highlight=False)
        self.began_s = time.monotonic()
        self._bars = Progress(
            TextColumn("          {task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._notes,
            transient=True,
            disable=not self._notes.is_terminal,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def step(self, text: str) -> None:
        self._notes.print(
            f"[dim]{time.monotonic() - self.began_s:6.1f} s[/dim]  {escape(text)}", soft_wrap=True
        )

    def watcher(self, row_count: int, with_output: bool) -> Callable[[Sample], None]:
        """Bars for the rows of the topics; to be shown every sample."""
        stored = self._bars.add_task("input", total=row_count)
        enriched: TaskID | None = None

        def show(sample: Sample) -> None:
            nonlocal enriched
            self._bars.update(stored, completed=min(sample.input_rows, row_count))
            if with_output and enriched is None and sample.output_rows:
                enriched = self._bars.add_task("output", total=row_count)
            if enriched is not None:
                self._bars.update(enriched, completed=min(sample.output_rows, row_count))

        return show

    def bar(self, name: str, row_count: int) -> Callable[[int], None]:
        """A bar that is told how many rows there are."""
        rows_there = self._bars.add_task(name, total=row_count)
        return lambda rows: self._bars.update(rows_there, completed=min(rows, row_count))

    def proof_progress(self, row_count: int) -> Callable[[int], None]:
        """A bar for the proof, which reads so many rows."""
        reading = self._bars.add_task("rows read", total=row_count)
        return lambda rows: self._bars.advance(reading, rows)

    def summary(self, story: Story, proof: Proof, report_path: Path) -> None:
        self._bars.stop()
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(justify="right", min_width=9)
        table.add_column()
        for number, text in facts(story, proof):
            table.add_row(f"[bold]{number}[/bold]", escape(text))
        self._data.print(table)
        colour = "green" if proof.holds else "red"
        verdict = "PROVEN" if proof.holds else "NOT PROVEN"
        self._data.print(f"[bold {colour}]{verdict}[/bold {colour}]: {conclusion(proof)}", soft_wrap=True)
        for line in proof.as_lines():
            self._data.print(line, markup=False, soft_wrap=True)
        self._data.print(f"report: {report_path}", soft_wrap=True)


def facts(story: Story, proof: Proof) -> list[tuple[str, str]]:
    """What was measured, as (number, what it is); a line without a number belongs to the one above it."""
    kills = story.timeline.lives.kills
    rows = [
        (f"{story.row_count:,}", "flights, each named by hour, carrier and flight number"),
        (str(len(kills)), "times kill -9:"),
    ]
    rows += [("", f"{life.ended_s:5.1f} s  {life.part:<12}  {life.evidence}") for life in kills]
    rows += [("", f"missed: {words}") for words in story.missed]
    rows += [(f"{count:,}", text) for count, text in came_again(story, proof)]
    if proof.piped is not None:
        rows.append((f"{proof.piped.output.rows:,}", "rows in the output"))
    if proof.copied is not None:
        rows.append((f"{proof.copied.output.rows:,}", "rows in the second log"))
    landed = proof.landed
    rows.append(
        ("", NOT_LANDED) if landed is None else (f"{landed.output.rows:,}", "rows in the Delta table")
    )
    rows += [
        (str(proof.finding_count), "checks violated: lost, doubled, extra, out of order, gaps"),
        (f"{story.total_s:.0f} s", stages(story)),
    ]
    return rows


def came_again(story: Story, proof: Proof) -> list[tuple[int, str]]:
    """Who turned away how much of what came a second time."""
    rows = [(story.dropped_by_resume, "rows came again from the file: the resumed producer dropped them")]
    if proof.piped is not None:
        rows.append((story.found_stored_by_sink, "rows came again from Spark: the sink found them stored"))
    rows.append((story.duplicate_batches, 'batches came again to the server: its verdict was "duplicate"'))
    return rows


def stages(story: Story) -> str:
    """How long which stage took."""
    parts = {
        "load": story.load_s,
        "stream": story.stream_s,
        "copy": story.copy_s,
        "land": story.land_s,
        "prove": story.prove_s,
    }
    return "in all: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in parts.items() if seconds)


def conclusion(proof: Proof) -> str:
    """One sentence."""
    if not proof.flights_hold:
        return "a flight was lost, doubled, or came out of order"
    if not proof.holds:
        return (
            "a row was lost, doubled, or came out of order on its way to the second log or to the Delta table"
        )
    where = "log" if proof.piped is None else "output"
    return f"every flight is in the {where} exactly once, in order of its key"
