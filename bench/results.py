"""What was measured, as a table of medians and ratios."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work on both servers; the ratio is above 1 where semel is better."""

    work: str
    unit: str
    semel: Sequence[float]
    kafka: Sequence[float]
    less_is_better: bool = False

    @property
    def ratio(self) -> float:
        ours, theirs = statistics.median(self.semel), statistics.median(self.kafka)
        return theirs / ours if self.less_is_better else ours / theirs

    def as_markdown(self) -> str:
        ours, theirs = (_figure(statistics.median(values)) for values in (self.semel, self.kafka))
        return f"| {self.work} | {ours} {self.unit} | {theirs} {self.unit} | {self.ratio:.2f} |"


def write(rows: Sequence[Row], command: str, left_out: Sequence[str]) -> None:
    """Replace ``bench/RESULTS.md``."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    lines = [
        "# Side by side with Apache Kafka 4.1.0",
        "",
        f"`{command}` on {os.cpu_count()} cores, {memory_gb:.0f} GB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}. One run, medians. The server has core 0, "
        "the load generator core 1; 4 partitions, 8 B keys and 100 B values, idempotent producers, acks=all.",
        "A ratio above 1 is in semel's favour. Kafka was warmed up with the same work first.",
        "",
        "| work | semel | Apache Kafka | ratio |",
        "|---|---|---|---|",
        *(row.as_markdown() for row in rows),
        "",
    ]
    if left_out:
        lines += ["Not measured in this run:", *(f"- {each}" for each in left_out), ""]
    RESULTS.write_text("\n".join(lines))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
