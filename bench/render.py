"""``bench/RESULTS.md`` from what was measured."""

from __future__ import annotations

from pathlib import Path

from bench.figures import Spread, ratios
from bench.results import Measurement, Results, Row, Section

RESULTS = Path(__file__).with_name("RESULTS.md")

_HOW = """\
Every figure is the median of its rounds, with the least and the greatest in brackets. The contenders take turns,
round by round, in alternating order; a ratio is the median of the rounds' ratios, and **above 1 is in semel's
favour**. Before the first round each contender has done the same work for as long as the plan says ({warm_up}),
so that the JVM is warm. Each round writes to a new topic of 4 partitions and deletes it afterwards."""


def page(results: Results, order: tuple[str, ...], warm_up: str) -> str:
    """The whole page, with the sections in ``order``."""
    lines = [
        "# Side by side with Apache Kafka and Spark's Kafka connector",
        "",
        f"    {results.command}",
        "",
        *(f"- {name}: {value}" for name, value in results.machine.items()),
        "",
        _HOW.format(warm_up=warm_up),
    ]
    for name in order:
        if name in results.measurements:
            lines += ["", *_measurement(name, results.measurements[name])]
    left_out = [name for name in order if name not in results.measurements]
    if left_out:
        lines += ["", f"Not measured: {', '.join(left_out)}."]
    return "\n".join(lines) + "\n"


def _measurement(name: str, measured: Measurement) -> list[str]:
    section = measured.section
    return [
        f"## {section.title}",
        "",
        section.about,
        "",
        *table(section),
        "",
        *(f"- {note}" for note in section.notes),
        *([""] if section.notes else []),
        f"`--only {name}`, {measured.plan} plan, {measured.measured_at}, {measured.took_s:.0f} s; "
        f"load average before it {measured.load_before:.1f}.",
    ]


def table(section: Section) -> list[str]:
    """A section's rows in Markdown; a contender that has no figures in a row gets a dash."""
    heads = ["work", *section.contenders, *(["ratio"] if section.ratio else [])]
    lines = [_line(heads), "|" + "---|" * len(heads)]
    return lines + [_line(_cells(section, row)) for row in section.rows]


def _cells(section: Section, row: Row) -> list[str]:
    cells = [row.work]
    for contender in section.contenders:
        values = row.samples.get(contender)
        cells.append(f"{spread(Spread.of(values))} {row.unit}" if values else "–")
    if section.ratio:
        ours, theirs = (row.samples.get(contender) for contender in section.contenders[:2])
        if ours and theirs:
            cells.append(spread(ratios(ours, theirs, less_is_better=row.less_is_better)))
        else:
            cells.append("–")
    return cells


def spread(figures: Spread) -> str:
    """``median (least–greatest)``; the median alone when there was one round."""
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
