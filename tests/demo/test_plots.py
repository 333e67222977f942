"""The report's plots are well-formed SVG of the numbers they were given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from semel.demo.lives import Lives, Part
from semel.demo.plots import partition_bars, story_over_time
from semel.demo.timeline import Sample


def drawing(plot: str, kind: str) -> ElementTree.Element:
    """The one of the two that is for a wide page, or for a narrow one."""
    found = {svg.attrib["class"]: svg for svg in ElementTree.fromstring(plot)}
    assert sorted(found) == ["narrow", "wide"]
    return found[kind]


both_kinds = pytest.mark.parametrize("kind", ["wide", "narrow"])


@both_kinds
def test_the_story_is_two_curves_a_bar_a_life_and_a_number_a_kill(kind: str) -> None:
    samples = [Sample(second / 10, second * 10, second * 5) for second in range(3_000)]
    lives = Lives()
    for part, began_s, ended_s, killed in (
        (Part.SERVER, 0.0, 250.0, True),
        (Part.SERVER, 251.0, 299.0, False),
        (Part.DRIVER, 10.0, 252.0, True),
    ):
        lives.begin(part, began_s)
        lives.end(part, ended_s, killed=killed)
    svg = drawing(story_over_time(samples, lives, 30_000), kind)
    curves = svg.findall("polyline")
    assert len(curves) == 2
    assert all(len(curve.attrib["points"].split()) <= 801 for curve in curves)
    bars = [bar for bar in svg.findall("rect") if bar.attrib["class"] == "life"]
    assert len(bars) == 3
    marks = [text.text for text in svg.findall("text") if text.attrib.get("class") == "mark"]
    assert marks == ["1", "2"]
    heights = {circle.attrib["cy"] for circle in svg.findall("circle")}
    assert len(heights) == 2, "neighbours must not cover each other"
    texts = [text.text for text in svg.findall("text")]
    assert {"server", "Spark driver", "30,000", "300 s"} & set(texts) == {"server", "Spark driver", "30,000"}


def test_nothing_measured_is_no_crash() -> None:
    ElementTree.fromstring(story_over_time([], Lives(), 0))
    ElementTree.fromstring(partition_bars({}))


@both_kinds
def test_a_bar_for_every_partition(kind: str) -> None:
    svg = drawing(partition_bars({"flights": {0: 5, 1: 10}, "out": {0: 15}}), kind)
    widths = [float(bar.attrib["width"]) for bar in svg.findall("rect")]
    assert widths == sorted(widths)
    assert len(widths) == 3
    ends = [float(text.attrib["x"]) for text in svg.findall("text") if "text-anchor" not in text.attrib]
    assert max(ends) + 7 * len("336,776") < int(svg.attrib["viewBox"].split()[2]), "a number is cut off"


def test_a_narrow_drawing_fits_a_phone() -> None:
    svg = drawing(story_over_time([], Lives(), 336_776), "narrow")
    assert int(svg.attrib["viewBox"].split()[2]) <= 390, "letters would be smaller than they are meant to be"
