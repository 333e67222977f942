"""A run that is gone on with comes to what one run without a stop comes to."""

from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.sim.campaign import seed_range
from semel.sim.campaign.seed_range import (
    begin,
    code_sha256,
    first_seed_of_this_code,
    go_on,
    read_progress,
    write_progress,
)
from semel.sim.campaign.swarm import ONLY, run_seeds
from semel.sim.world.faults import Fault


@pytest.mark.thorough
def test_a_run_goes_on_from_its_progress(tmp_path: Path) -> None:
    progress = tmp_path / "progress.json"
    seeds = []
    for seeds_in_all in (1, 2):
        report = begin(7, progress)
        go_on(report, seeds_in_all, progress_file=progress, on_result=lambda one: seeds.append(one.seed))
    assert seeds == [7, 8]
    assert report == read_progress(progress) == run_seeds(7, 2)
    assert [path.name for path in tmp_path.iterdir()] == [progress.name]


@pytest.mark.thorough
@pytest.mark.parametrize("only", ONLY)
def test_a_run_of_some_goes_on_with_the_next_seed_that_has_such(only: str, tmp_path: Path) -> None:
    progress = tmp_path / "progress.json"
    seeds = []
    for seeds_in_all in (1, 2):
        report = begin(7, progress, only=only)
        go_on(report, seeds_in_all, progress_file=progress, on_result=lambda one: seeds.append(one.seed))
    assert seeds == [seed for seed in range(7, seeds[-1] + 1) if ONLY[only](seed)]
    assert len(seeds) == report.seeds == 2
    assert (
        report.verdicts["flow: micro-batch decided"]
        or report.faults[Fault.COPY_KILL]
        or report.verdicts["group: OFFSET_COMMIT, NONE"]
        or report.verdicts["compaction: records gone"]
        or report.verdicts["transaction: END_TXN, NONE"]
    )
    with pytest.raises(ConfigError, match=f"is of {only} alone"):
        begin(7, progress)


def test_each_state_of_the_code_has_seeds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_seed_of_this_code() == first_seed_of_this_code() == int(code_sha256()[:6], 16)
    monkeypatch.setattr(seed_range, "code_sha256", lambda: "00000f" + 58 * "0")
    assert first_seed_of_this_code() == 15


def test_a_file_of_other_seeds_is_refused(tmp_path: Path) -> None:
    write_progress(begin(7), tmp_path / "progress.json")
    with pytest.raises(ConfigError, match="begins with seed 7, not with 0"):
        begin(0, tmp_path / "progress.json")


@pytest.mark.thorough
def test_a_file_of_other_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    write_progress(begin(7), path)
    path.write_text(path.read_text().replace(code_sha256(), "0" * 64))
    with pytest.raises(ConfigError, match="of other code"):
        begin(7, path)
    with pytest.raises(ConfigError, match="of other code"):
        go_on(begin(7), 1, progress_file=path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"faults": {"a fault of old": 1}}', '{"faults": 1}'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not the progress of a run"):
        read_progress(path)
