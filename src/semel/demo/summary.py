"""The demo's screen: a line a step while it runs, one table at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from semel.demo.proof import Proof
    from semel.demo.run import Story


class Screen:
    """Steps go to stderr, the result to stdout."""

    def __init__(self) -> None:
        self._notes = Console(stderr=True, highlight=False)
        self._data = Console(highlight=False)
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        self._notes.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {text}", soft_wrap=True)

    def close(self) -> None:
        """Nothing is drawn that would have to be taken back."""

    def summary(self, story: Story, proof: Proof, report_path: Path) -> None:
        table = Table(show_header=False, box=None, padding=(0, 2))
        table.add_column(justify="right")
        table.add_column()
        for number, text in facts(story, proof):
            table.add_row(f"[bold]{number}[/bold]", text)
        self._data.print(table)
        if proof.holds:
            self._data.print(f"[bold green]PROVEN[/bold green]: {conclusion(proof)}")
        else:
            self._data.print(f"[bold red]NOT PROVEN[/bold red]: {conclusion(proof)}")
            for line in proof.piped.as_lines() if proof.piped is not None else []:
                self._data.print(line, markup=False)
        self._data.print(f"report: {report_path}", soft_wrap=True)


def facts(story: Story, proof: Proof) -> list[tuple[str, str]]:
    """What was measured, as (number, what it is); the screen and the report share it."""
    kills = [event for event in story.timeline.events if event.is_kill]
    rows = [
        (f"{story.row_count:,}", "flights, each named by time, carrier and flight number"),
        (
            str(len(kills)),
            "times kill -9: " + ", ".join(event.what.removeprefix("kill -9 ") for event in kills),
        ),
        (f"{story.stored_at_producer_kill:,}", "flights were stored when the producer died"),
        (
            f"{story.turned_away_by_producer:,}",
            "of those lay behind the saved position, came again, and were turned away",
        ),
    ]
    if proof.piped is not None:
        rows += [
            (
                f"{story.turned_away_by_sink:,}",
                "rows of undecided micro-batches came again, and were turned away",
            ),
            (f"{story.drivers}", "Spark drivers, until one came to the end"),
            (f"{proof.piped.output.rows:,}", "rows in the output"),
        ]
    problems = len(proof.loaded.findings) + (len(proof.piped.result.findings) if proof.piped else 0)
    rows += [
        (str(problems), "checks violated: lost, doubled, extra, out of order"),
        (
            f"{story.total_s:.0f} s",
            f"in all: load {story.load_s:.0f}, stream {story.stream_s:.0f}, prove {story.prove_s:.0f}",
        ),
    ]
    return rows


def conclusion(proof: Proof) -> str:
    """One sentence."""
    if not proof.holds:
        return "a flight was lost, doubled, or came out of order"
    if proof.piped is None:
        return "every flight is in the log exactly once, in order of its key"
    return "every flight is in the output exactly once, in order of its key; none lost, none doubled"
