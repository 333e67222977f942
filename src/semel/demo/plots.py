"""Plots as inline SVG: small, without scripts or outside resources, drawn from measured numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from semel.demo.timeline import Event, Sample

_WIDTH, _HEIGHT = 860, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 62, 36
_POINTS_MAX = 800
_INPUT, _OUTPUT, _KILL, _QUIET = "#2563eb", "#059669", "#dc2626", "#94a3b8"


def rows_over_time(samples: Sequence[Sample], events: Sequence[Event], row_count: int) -> str:
    """Rows in both topics over time; a red line is a kill, a grey one a restart."""
    end_s = max([sample.at_s for sample in samples] + [event.at_s for event in events] + [1.0])
    top = max(row_count, 1) * 1.02
    thin = samples[:: max(1, len(samples) // _POINTS_MAX)]

    def x(at_s: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at_s / end_s

    def y(rows: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(rows, top) / top

    def line(rows_of: Sequence[int], colour: str) -> str:
        points = " ".join(f"{x(s.at_s):.1f},{y(rows):.1f}" for s, rows in zip(thin, rows_of, strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'

    parts = []
    for share in range(5):
        rows = row_count * share / 4
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(rows):.1f}" y2="{y(rows):.1f}" class="grid"/>'
            f'<text x="{_LEFT - 8}" y="{y(rows) + 4:.1f}" text-anchor="end">{rows:,.0f}</text>'
        )
    step_s = next(step for step in (1, 2, 5, 10, 20, 30, 60) if end_s / step <= 12 or step == 60)
    for tick in range(0, int(end_s) + 1, step_s):
        parts.append(f'<text x="{x(tick):.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{tick} s</text>')
    for number, event in enumerate(sorted(events, key=lambda event: event.at_s)):
        colour = _KILL if event.is_kill else _QUIET
        label_y = 14 + 14 * (number % 3)
        anchor = "end" if event.at_s > 0.85 * end_s else "start"
        parts.append(
            f'<line x1="{x(event.at_s):.1f}" x2="{x(event.at_s):.1f}" y1="{label_y + 3}" '
            f'y2="{_HEIGHT - _BOTTOM}" stroke="{colour}" stroke-dasharray="4 3"/>'
            f'<text x="{x(event.at_s) + (-4 if anchor == "end" else 4):.1f}" y="{label_y}" '
            f'text-anchor="{anchor}" style="fill:{colour}">{escape(event.what)}</text>'
        )
    parts.append(line([sample.input_rows for sample in thin], _INPUT))
    parts.append(line([sample.output_rows for sample in thin], _OUTPUT))
    return _svg(_HEIGHT, "Rows in the input and output topics over time", parts)


def partition_bars(partitions: Mapping[str, Mapping[int, int]]) -> str:
    """Rows of every partition of both topics, as horizontal bars."""
    bars = [
        (f"{topic}-{number}", rows, colour)
        for (topic, of_topic), colour in zip(partitions.items(), (_INPUT, _OUTPUT), strict=False)
        for number, rows in sorted(of_topic.items())
    ]
    longest = max([rows for _, rows, _ in bars] + [1])
    parts = []
    for row, (name, rows, colour) in enumerate(bars):
        y = 8 + row * 24
        width = (_WIDTH - 260) * rows / longest
        parts.append(
            f'<text x="150" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="160" y="{y}" width="{width:.1f}" height="17" fill="{colour}" rx="2"/>'
            f'<text x="{166 + width:.1f}" y="{y + 13}">{rows:,}</text>'
        )
    return _svg(16 + 24 * len(bars), "Rows of each partition", parts)


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
