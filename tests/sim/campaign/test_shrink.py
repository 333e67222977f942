"""A failing seed becomes a short scenario, which fails as the seed did and tells what happened."""

from dataclasses import replace
from pathlib import Path

import pytest

from semel.cli.main import run as semel
from semel.sim.campaign.scenario import decode_scenario, encode_scenario
from semel.sim.campaign.shrink import Shrinker
from semel.sim.campaign.simulation import SeedResult, Telling, run_seed
from semel.sim.campaign.swarm import run_watched
from semel.sim.plants.catalogue import PLANTS
from semel.sim.world.faults import Fault, Occasion

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.toml"))
OCCASION = Occasion(0, Fault.KILL, 0)
PLANT = PLANTS["epochs_not_fenced"]


def first_failure() -> SeedResult:
    return next(result for result in map(run_watched, range(50)) if result.violation is not None)


@pytest.mark.thorough
@pytest.mark.timeout(400)  # some thirty whole seeds
def test_a_shrunk_failure_has_fewer_faults_and_the_same_end(tmp_path: Path) -> None:
    with PLANT.planted():
        failure = first_failure()
        shrunk = Shrinker(failure, run_watched, runs_max=25).shrink()
        assert shrunk.result.invariant == failure.invariant
        assert len(shrunk.occasions) < len(failure.occasions)
        path = tmp_path / "scenario.toml"
        path.write_text(encode_scenario(shrunk))
        seed, telling = decode_scenario(path.read_text())
        assert (seed, telling) == (failure.seed, shrunk.telling)
        assert run_seed(seed, telling).trace_sha256 == shrunk.result.trace_sha256
        assert semel(["sim", "--scenario", str(path)]) == 1
    assert semel(["sim", "--scenario", str(path)]) == 0


def test_ddmin_finds_the_two_faults_that_matter() -> None:
    whole = run_seed(3)
    occasions = tuple(replace(OCCASION, number=number) for number in range(64))

    def run(seed: int, telling: Telling) -> SeedResult:
        kept = [one for one in occasions if telling.kept is None or one.number in telling.kept]
        fails = {5, 42} <= {one.number for one in kept}
        return replace(whole, violation="order: planted" if fails else None, occasions=tuple(kept))

    shrunk = Shrinker(run(3, Telling()), run).shrink()
    assert [occasion.number for occasion in shrunk.occasions] == [5, 42]


def test_what_failed_once_holds_now() -> None:
    assert [path.name for path in SCENARIOS if semel(["sim", "--scenario", str(path)])] == []


@pytest.mark.thorough
def test_no_time_is_spent_on_shrinking_where_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    with PLANT.planted():
        failure = first_failure()
        shrunk = Shrinker(failure, run_watched, seconds_max=0).shrink()
        assert (shrunk.result, shrunk.runs) == (failure, 0)
        again = ["sim", "--seed", str(failure.seed), "--seeds", "1", "--workers", "1"]
        assert semel([*again, "--no-shrink"]) == 1
    printed = capsys.readouterr()
    assert f"seed {failure.seed} FAILED: " in printed.out
    assert "fewest faults" not in printed.err
