"""``bench/RESULTS.md`` from what was measured, and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.figures import Spread, ratios
from bench.results import Measurement, Results, Row, Section

RESULTS = Path(__file__).with_name("RESULTS.md")
NO_FIGURE = "–"

HOW = """\
Every figure is the median of its rounds, with the least and the greatest in brackets. The contenders take turns,
round by round, who begins alternating; a ratio is the median of the rounds' ratios to the rival in the first
column, and **above 1 is in semel's favour**. Before its first round each contender has done the same work for
{warm_up}, so that the JVM is warm. What a round writes goes to a new topic of 4 partitions, checked for its number
of records afterwards and deleted; dirty pages are flushed before the next round begins, so nobody pays for another.

Apache Kafka is one KRaft node with the heap, collector and JVM options of its own start script and with its default
settings, but for `log.segment.delete.delay.ms=0` (or the rounds would fill the disk) and what a section says. No
contender compresses. All servers, generators and clients are on this machine, over loopback."""


def page(results: Results, order: tuple[str, ...], warm_up: str) -> str:
    """The whole page, with the sections in ``order``."""
    measured = {name: results.measurements[name] for name in order if name in results.measurements}
    left_out = [name for name in order if name not in measured]
    minutes = sum(each.took_s for each in measured.values()) / 60
    lines = [
        "# Side by side with Apache Kafka and Spark's Kafka connector",
        "",
        f"    {results.command}",
        "",
        *(f"- {name}: {value}" for name, value in results.machine.items()),
        f"- took: {minutes:.1f} minutes" + (f"; not measured: {', '.join(left_out)}" if left_out else ""),
        "",
        HOW.format(warm_up=warm_up),
    ]
    for name, measurement in measured.items():
        lines += ["", *_measurement(name, measurement, results.machine)]
    return "\n".join(lines) + "\n"


def _measurement(name: str, measured: Measurement, machine: Mapping[str, str]) -> list[str]:
    section = measured.section
    circumstances = [
        f"`--only {name}`",
        f"{measured.plan} plan",
        measured.measured_at,
        f"{measured.took_s:.0f} s",
        f"load average before it {measured.load_before:.1f}",
        *(f"{part} {value}" for part, value in measured.machine.items() if machine.get(part) != value),
    ]
    return [
        f"## {section.title}",
        "",
        section.about,
        "",
        *table(section),
        "",
        *(f"- {note}" for note in section.notes),
        *([""] if section.notes else []),
        "; ".join(circumstances) + ".",
    ]


def table(section: Section) -> list[str]:
    """A section's rows in Markdown: the rival, ours each with its ratio, and what stands beside."""
    heads = ["work"]
    if section.rival:
        heads.append(section.rival)
    for name in section.ours:
        heads += [name, "ratio"]
    heads += section.beside
    lines = [_line(heads), "|" + "---|" * len(heads)]
    return lines + [_line(_cells(section, row)) for row in section.rows]


def _cells(section: Section, row: Row) -> list[str]:
    cells = [row.work]
    if section.rival:
        cells.append(_figures(row, section.rival))
    for name in section.ours:
        cells += [_figures(row, name), _ratio(row, name, section.rival)]
    return cells + [_figures(row, name) for name in section.beside]


def _figures(row: Row, contender: str) -> str:
    values = row.samples.get(contender)
    return f"{spread(Spread.of(values))} {row.unit}" if values else NO_FIGURE


def _ratio(row: Row, ours: str, rival: str) -> str:
    our_values, their_values = row.samples.get(ours), row.samples.get(rival)
    if not our_values or not their_values or 0 in (*our_values, *their_values):
        return NO_FIGURE  # an idle processor is no multiple of another's
    return f"**{spread(ratios(our_values, their_values, less_is_better=row.less_is_better))}**"


def spread(figures: Spread) -> str:
    """``median (least–greatest)``; the median alone where all are the same."""
    middle = figure(figures.median)
    if figures.least == figures.greatest:
        return middle
    return f"{middle} ({figure(figures.least)}–{figure(figures.greatest)})"


def figure(value: float) -> str:
    """Three digits that count, and none after the point from a hundred on."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
