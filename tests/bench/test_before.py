"""The lines that set this checkout beside an earlier one."""

from __future__ import annotations

from bench.before import BEFORE, NOW, line_of
from bench.results import Row


def test_above_1_the_newer_one_is_faster_whichever_way_the_unit_goes():
    rates = Row("requests", "req/s", {BEFORE: [100.0, 200.0, 100.0], NOW: [110.0, 220.0, 110.0]})
    assert line_of(rates) == "| requests | 100 req/s | 110 req/s | 1.100 (1.100 to 1.100) |"
    times = Row("start", "ms", {BEFORE: [100.0], NOW: [200.0]}, less_is_better=True)
    assert line_of(times) == "| start | 100 ms | 200 ms | 0.500 (0.500 to 0.500) |"
