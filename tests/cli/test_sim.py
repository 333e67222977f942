"""``semel sim``: what it prints, what it writes, and what does not go together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from semel.cli.main import run
from semel.sim.campaign.seed_range import read_progress, write_progress
from semel.sim.campaign.swarm import SwarmReport
from semel.sim.campaign.tally import page
from semel.sim.plants.catalogue import PLANTS
from semel.sim.server import verdicts
from semel.sim.world.faults import Fault

UNFOUND = "sink_twins_not_ended"  # by one seed, whichever


def test_progress_that_holds_all_the_seeds_becomes_the_page(tmp_path: Path) -> None:
    progress, written = tmp_path / "progress.json", tmp_path / "simulated.md"
    report = SwarmReport(
        seeds=1_000_000,  # which nobody could wait for
        faults=Counter(Fault),
        verdicts=Counter(verdicts.EXPECTED),
    )
    write_progress(report, progress)
    assert run(["sim", "--resume", str(progress), "--page", str(written)]) == 0
    assert written.read_text() == page(report)


@pytest.mark.thorough
def test_progress_is_kept_and_stdout_has_the_seeds_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = tmp_path / "progress.json"
    assert run(["sim", "--seeds", "1", "--seed", "3", "--workers", "1", "--resume", str(progress)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == list(read_progress(progress).lines())
    assert "seeds a minute" in printed.err


@pytest.mark.thorough
def test_as_many_seeds_are_tried_for_each_bug_as_were_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.sim.campaign.proof.PLANTS", {UNFOUND: PLANTS[UNFOUND]})
    assert run(["sim", "--prove", "--seeds", "1", "--workers", "1"]) == 1
    assert capsys.readouterr().out.splitlines() == [f"{UNFOUND}: NOT FOUND  (UNEXPECTED)"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--prove", "--resume", "f"], "--resume, --scenario and --prove are runs of three kinds"),
        (["--scenario", "{here}", "--page", "f"], "--scenario tells one again"),
        (["--scenario", "{here}", "--seeds", "7"], "--scenario tells one again"),
        (["--prove", "--seed", "7"], "--prove begins at seed 0 for every bug"),
        (["--prove", "--seeds", "7", "--page", "f"], "and --seeds where its --page is written"),
        (["--flows", "--prove"], "--flows is for many seeds"),
        (["--flows", "--page", "f"], "--flows is for many seeds"),
        (["--copies", "--prove"], "--copies is for many seeds"),
        (["--flows", "--copies"], "use one of --flows and --copies"),
        (["--copies", "--groups"], "use one of --copies and --groups"),
        (["--transactions", "--compacted"], "use one of --transactions and --compacted"),
        (["--page", "no/such/folder.md"], "no/such/folder.md: there is no such folder"),
        (["--scenario", "{here}"], "this is not a scenario"),
        (["--resume", "{here}"], f"{Path(__file__)} is not the progress of a run"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_seed(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", *(argument.format(here=__file__) for argument in arguments)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert line in printed.err
