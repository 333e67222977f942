"""A job's progress in a line: when it is told, and what it says."""

from __future__ import annotations

import io

from semel.land.metrics import LandCollector
from semel.land.told import LOGGED_LINE_S, RATE_S, Lines, Progress


class Clock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def now_s(self) -> float:
        return self.at_s

    def now_ms(self) -> int:
        return int(self.at_s * 1000)


def test_a_line_comes_now_and_then_and_only_with_news() -> None:
    clock, out, progress = Clock(), io.StringIO(), Progress(lag=5)
    lines = Lines("t", out, clock.now_s, clock.now_ms)
    lines.show(progress)
    assert out.getvalue() == "t: 0 rows/s, lag 5, 0 rows in 0 commits, last commit none yet\n"
    progress.committed(1_000, 2, clock.now_ms())
    lines.show(progress)
    assert out.getvalue().count("\n") == 1  # too soon
    clock.at_s += LOGGED_LINE_S
    progress.lag, progress.bad_rows = 0, 3
    lines.show(progress)
    assert out.getvalue().splitlines()[1] == (
        "t: 100 rows/s, lag 0, 1,000 rows, 3 of them with _error in 1 commit, last commit 10.0 s ago"
    )
    clock.at_s += LOGGED_LINE_S
    lines.show(progress)
    assert out.getvalue().count("\n") == 2  # nothing new


def test_the_rate_is_that_of_lately() -> None:
    clock, out, progress = Clock(), io.StringIO(), Progress()
    lines = Lines("t", out, clock.now_s, clock.now_ms)
    for rows in (1_000_000, 10, 10, 10):
        progress.committed(rows, 1, clock.now_ms())
        lines.show(progress)
        clock.at_s += RATE_S
    assert out.getvalue().splitlines()[-1].startswith("t: 1 rows/s")


def test_metrics_say_nothing_of_a_last_commit_before_there_is_one() -> None:
    progress = Progress()
    collector = LandCollector("t", "j", progress)
    names = [metric.name for metric in collector.collect()]
    assert "semel_land_lag" in names and "semel_land_last_commit_seconds" not in names
    progress.committed(5, 1, 2_000)
    found = {metric.name: metric.samples[0] for metric in collector.collect()}
    assert found["semel_land_last_commit_seconds"].value == 2.0
    assert (found["semel_land_rows"].labels, found["semel_land_rows"].value) == (
        {"table": "t", "job": "j"},
        5,
    )
