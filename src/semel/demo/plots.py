"""Plots as inline SVG: small, without scripts or outside resources, drawn from measured numbers only.

Colours are classes; the page that holds a plot says what they are, in light and in dark. Each plot is drawn twice,
``wide`` and ``narrow``, in units of about a pixel each, and the page shows the one that fits: one drawing, made
smaller for a phone, has letters that nobody can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import ceil
from typing import Final

from semel.demo.lives import Life, Lives, Part
from semel.demo.timeline import Sample

_WIDE, _NARROW = 900, 380
_LEFT, _RIGHT = 104, 24
_MARKS: Final = 40  # above the curves: the numbers of the kills, in two rows
_CURVES: Final = 230
_LANE: Final = 26
_LANES_TOP: Final = _MARKS + _CURVES + 34  # the time axis stands between curves and lanes
_POINTS_MAX: Final = 800
_MARK_RADIUS: Final = 9
_STEPS: Final = (1, 2, 5)

X = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class _Sheet:
    """How much room there is."""

    kind: str  # a class of the page
    width: int
    time_ticks_max: int


_SHEETS: Final = (_Sheet("wide", _WIDE, 12), _Sheet("narrow", _NARROW, 5))


def story_over_time(samples: Sequence[Sample], lives: Lives, row_count: int) -> str:
    """Rows of both topics above, the lives of the processes below, and through both the numbered kills."""
    return _plot(_story(sheet, samples, lives, row_count) for sheet in _SHEETS)


def _story(sheet: _Sheet, samples: Sequence[Sample], lives: Lives, row_count: int) -> str:
    moments = [life.ended_s or life.began_s for life in lives.all]
    end_s = max([*(sample.at_s for sample in samples), *moments, 1.0])

    def x(at_s: float) -> float:
        return _LEFT + (sheet.width - _LEFT - _RIGHT) * at_s / end_s

    lanes = [part for part in Part if any(life.part is part for life in lives.all)]
    height = _LANES_TOP + _LANE * len(lanes) + 4
    parts = [*_grid(sheet, row_count, end_s, x), *_curves(samples, row_count, x)]
    for number, part in enumerate(lanes):
        parts += _lane(part, [life for life in lives.all if life.part is part], number, end_s, x)
    parts += _kill_marks(lives.kills, height, x)
    return _svg(sheet, height, "Rows in both topics over time, and the life of every process", parts)


def partition_bars(partitions: Mapping[str, Mapping[int, int]]) -> str:
    """Rows of every partition of both topics, as horizontal bars."""
    return _plot(_bars(sheet, partitions) for sheet in _SHEETS)


def _bars(sheet: _Sheet, partitions: Mapping[str, Mapping[int, int]]) -> str:
    bars = [
        (f"{topic}-{number}", rows, kind)
        for (topic, of_topic), kind in zip(partitions.items(), ("input", "output"), strict=False)
        for number, rows in sorted(of_topic.items())
    ]
    longest = max([rows for _, rows, _ in bars] + [1])
    parts = []
    for row, (name, rows, kind) in enumerate(bars):
        y = 4 + row * 22
        width = (sheet.width - 260) * rows / longest
        parts.append(
            f'<text x="160" y="{y + 12}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="170" y="{y}" width="{width:.1f}" height="16" rx="2" class="{kind} bar"/>'
            f'<text x="{176 + width:.1f}" y="{y + 12}">{rows:,}</text>'
        )
    return _svg(sheet, 8 + 22 * len(bars), "Rows of each partition", parts)


def _grid(sheet: _Sheet, row_count: int, end_s: float, x: X) -> list[str]:
    bottom = _MARKS + _CURVES
    parts = []
    for rows in _ticks(row_count, 5):
        y = _y(rows, row_count)
        parts.append(
            f'<line x1="{_LEFT}" x2="{sheet.width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="quiet">{rows:,.0f}</text>'
        )
    for tick in _ticks(end_s, sheet.time_ticks_max):
        parts.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{bottom}" y2="{bottom + 4}" class="tick"/>'
            f'<text x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle" class="quiet">{tick:g} s</text>'
        )
    return parts


def _curves(samples: Sequence[Sample], row_count: int, x: X) -> list[str]:
    thin = samples[:: max(1, ceil(len(samples) / _POINTS_MAX))]
    if samples and thin[-1] is not samples[-1]:
        thin = [*thin, samples[-1]]

    def curve(rows_of: Sequence[int], kind: str) -> str:
        points = [f"{x(s.at_s):.1f},{_y(rows, row_count):.1f}" for s, rows in zip(thin, rows_of, strict=True)]
        flat = [point for point, _ in groupby(points)]
        return f'<polyline points="{" ".join(flat)}" class="{kind} curve"/>'

    curves = [curve([sample.input_rows for sample in thin], "input")]
    if any(sample.output_rows for sample in samples):
        curves.append(curve([sample.output_rows for sample in thin], "output"))
    return curves


def _lane(part: Part, lives: Sequence[Life], lane: int, end_s: float, x: X) -> list[str]:
    y = _LANES_TOP + lane * _LANE
    parts = [f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(part)}</text>']
    for number, life in enumerate(lives, start=1):
        width = max(x(end_s if life.ended_s is None else life.ended_s) - x(life.began_s), 2.0)
        parts.append(
            f'<rect x="{x(life.began_s):.1f}" y="{y + 2}" width="{width:.1f}" height="17" rx="3" class="life"/>'
        )
        if len(lives) > 1 and width > 24:
            parts.append(f'<text x="{x(life.began_s) + 7:.1f}" y="{y + 15}" class="quiet">{number}</text>')
    killed_at = [x(life.ended_s) for life in lives if life.killed and life.ended_s is not None]
    parts += [f'<path d="M{at - 5:.1f} {y + 5.5}l10 10m0 -10l-10 10" class="cross"/>' for at in killed_at]
    return parts


def _kill_marks(kills: Sequence[Life], height: int, x: X) -> list[str]:
    """A dashed line and a number a kill; one that would cover its neighbour stands a row higher."""
    parts = []
    last_low = -_WIDE
    for number, life in enumerate(kills, start=1):
        at = x(life.ended_s or 0.0)
        high = at - last_low < 2.3 * _MARK_RADIUS
        last_low = last_low if high else int(at)
        y = _MARK_RADIUS + 1 if high else _MARKS - _MARK_RADIUS - 1
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y + _MARK_RADIUS}" y2="{height - 4}" class="kill"/>'
            f'<circle cx="{at:.1f}" cy="{y}" r="{_MARK_RADIUS}" class="kill"/>'
            f'<text x="{at:.1f}" y="{y + 4}" text-anchor="middle" class="mark">{number}</text>'
        )
    return parts


def _y(rows: float, row_count: int) -> float:
    most = max(row_count, 1)
    return _MARKS + _CURVES * (1 - min(rows, most) / most)


def _ticks(most: float, count_max: int) -> list[float]:
    """0, and round numbers up to ``most``."""
    power = 1.0
    while True:
        for step in _STEPS:
            if most / (step * power) < count_max:
                return [index * step * power for index in range(int(most // (step * power)) + 1)]
        power *= 10


def _plot(drawings: Iterable[str]) -> str:
    return f"<div>{''.join(drawings)}</div>"


def _svg(sheet: _Sheet, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="{sheet.kind}" viewBox="0 0 {sheet.width} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
