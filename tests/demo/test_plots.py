"""The report's plots are well-formed SVG of the numbers they were given."""

from __future__ import annotations

from xml.etree import ElementTree

from semel.demo.plots import partition_bars, rows_over_time
from semel.demo.timeline import Event, Sample


def test_rows_over_time_are_two_lines_and_a_mark_for_every_event() -> None:
    samples = [Sample(second / 10, second * 10, second * 5) for second in range(3_000)]
    events = [Event(1.0, "kill -9 <driver>", is_kill=True), Event(299.0, "server restarts")]
    svg = ElementTree.fromstring(rows_over_time(samples, events, 30_000))
    lines = svg.findall("polyline")
    assert len(lines) == 2
    assert all(len(line.attrib["points"].split()) <= 1_000 for line in lines)
    texts = [text.text for text in svg.findall("text")]
    assert "kill -9 <driver>" in texts
    assert "30,000" in texts


def test_nothing_measured_is_no_crash() -> None:
    ElementTree.fromstring(rows_over_time([], [], 0))
    ElementTree.fromstring(partition_bars({}))


def test_a_bar_for_every_partition() -> None:
    svg = ElementTree.fromstring(partition_bars({"flights": {0: 5, 1: 10}, "out": {0: 15}}))
    widths = [float(bar.attrib["width"]) for bar in svg.findall("rect")]
    assert widths == sorted(widths)
    assert len(widths) == 3
