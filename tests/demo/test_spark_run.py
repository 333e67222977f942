"""The whole story once, small: every kill of it, through Spark, to the proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.cli.main import run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.timeout(300)  # two Spark drivers: half a minute when the machine is free, and it may not be
def test_no_kill_loses_or_doubles_a_flight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.html"
    arguments = ["--rows", "60000", "--report", str(report), "--dir", str(tmp_path / "demo")]
    assert run(["demo", *arguments]) == 0
    printed = capsys.readouterr()
    assert "PROVEN: every flight is in the output exactly once" in printed.out
    assert printed.out.count("in mid-batch, ") == 2, "driver and server were killed amid a micro-batch"
    assert (
        "PROVEN: second.flights-enriched holds every row of flights-enriched exactly once, in order"
        in printed.out
    )
    assert "PROVEN: the Delta table holds every row of second.flights-enriched exactly once" in printed.out
    assert report.read_text().count("<polyline") == 4
