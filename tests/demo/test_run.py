"""The story without Spark, end to end; and that a proof can fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semel.client.blocking import Cluster
from semel.demo.data import flights
from semel.demo.proof import prove
from semel.demo.run import run_demo
from semel.demo.story import DemoPlan
from semel.errors import ConfigError
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition


@pytest.mark.thorough
def test_no_kill_of_a_loader_a_copy_or_a_landing_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    plan = DemoPlan(report_path=report, row_count_max=60_000, folder=tmp_path / "demo", with_spark=False)
    assert run_demo(plan)
    screen = " ".join(capsys.readouterr().out.split())
    assert "60,000 flights" in screen
    assert "PROVEN: every flight is in the log exactly once" in screen
    page = report.read_text()
    kills = page.count('class="badge"')
    assert kills == 6 + screen.count("once more"), (
        "the producer, the server, the copy twice, the landing twice"
    )
    assert screen.count("rows in the second log") == 3, "two kills of the copy, and the number in the end"
    assert screen.count("a file in no commit") == 2, "the landing died with rows that no commit has"
    assert "PROVEN: second.flights holds every row of flights exactly once, in order" in screen
    assert "PROVEN: the Delta table holds every row of second.flights exactly once" in screen
    assert page.count("<polyline") == 2, "one curve, drawn for wide and for narrow pages"
    assert "<p>The first 60,000 flights of a year, through every kind of crash.</p>" in page
    assert not re.search(r"(src|href)=|url\(|<script", page), "the report must need nothing else"


@pytest.mark.thorough
def test_a_kill_that_misses_its_moment_is_told_and_the_demo_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So few rows are there before anybody can be killed."""
    report = tmp_path / "report.html"
    plan = DemoPlan(report_path=report, row_count_max=1_000, folder=tmp_path / "demo", with_spark=False)
    assert run_demo(plan)
    screen = " ".join(capsys.readouterr().out.split())
    assert "missed: the landing was done before it could be killed" in screen
    assert "PROVEN: the Delta table holds every row of second.flights exactly once" in screen
    assert (
        "the landing was done before it could be killed: more --rows give it time.</p>" in report.read_text()
    )


def test_an_old_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(ConfigError, match="holds an earlier run"):
        run_demo(DemoPlan(report_path=tmp_path / "r.html", folder=tmp_path, with_spark=False))


@pytest.mark.parametrize(("rows", "check"), [([0, 1, 3], "missing"), ([0, 1, 1, 2, 3], "duplicated")])
def test_a_log_that_is_not_the_file_is_not_proven(
    semel_server: LocalLog, rows: list[int], check: str
) -> None:
    in_file = list(flights(4))
    with Cluster(semel_server.bootstrap) as cluster:
        cluster.create_topics({"flights": 1})
        records = [Record(0, 0, in_file[row].key, in_file[row].value) for row in rows]
        cluster.produce({TopicPartition("flights", 0): encode_batch(records)})
        proof = prove(cluster, "flights", None, 4)
    assert not proof.holds
    assert [finding.check for finding in proof.loaded.findings] == [check]
