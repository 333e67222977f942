"""The proof of the proof: each planted bug is found within a thousand seeds that may show it, by a checker that should.

The page says at which seed each was found last. That one is tried first: most are found there again, at once.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

from semel.sim.campaign.invariants import all_checkers
from semel.sim.campaign.proof import SEEDS_MAX, find, row_without_finding, seeds_of
from semel.sim.campaign.swarm import run_watched
from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.plants.catalogue import PLANTS
from semel.sim.plants.planting import Patches
from semel.sim.server.compaction import seed_is_compacted
from semel.sim.transactions.drawing import seed_has_transactions

PAGE = Path(__file__).parents[3] / "docs" / "proof.md"
PLANTS_MIN = 25
FLOW_PLANTS_MIN = 15
COPY_PLANTS_MIN = 12
GROUP_PLANTS_MIN = 12
TRANSACTION_PLANTS_MIN = 20


LIKELY_SEEDS = seeds_of(PAGE.read_text())

# A few of each room, that are found soon.
FEW = (
    "ack_before_sync",
    "append_on_gap",
    "compaction_forgets_windows",
    "copy_rows_before_next",
    "flow_runs_behind_any_fence",
    "group_commit_before_sync",
    "lease_epoch_not_raised",
    "readers_see_what_is_not_synced",
    "sink_last_writer_wins",
    "sink_restarts_share_an_epoch",
    "transaction_end_before_sync",
    "wrap_by_magnitude",
)
MISSED_MAX = 3  # a change of the sources moves seeds: `make mutants` finds new ones


@pytest.mark.slow
@pytest.mark.xdist_group("mutants")
def test_most_of_a_few_are_found_where_they_were() -> None:
    findings = [find(name, LIKELY_SEEDS[name], seeds_max=0) for name in FEW]
    missed = [str(finding) for finding in findings if not finding.is_as_expected]
    assert len(missed) <= MISSED_MAX, missed


@pytest.mark.thorough
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", PLANTS)
def test_planted_bug_is_found(name: str) -> None:
    finding = find(name, LIKELY_SEEDS[name])
    assert finding.seed is not None, f"{name} was not found in {SEEDS_MAX} seeds"
    assert finding.is_as_expected, finding


def rows() -> list[list[str]]:
    return [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]


def test_the_page_has_a_seed_of_each() -> None:
    assert LIKELY_SEEDS.keys() == PLANTS.keys()


def test_a_plant_is_to_be_found_by_checkers() -> None:
    checkers = {checker.name for checker in all_checkers()}
    for name, plant in PLANTS.items():
        assert plant.found_by and set(plant.found_by) <= checkers, name


def test_a_plant_breaks_what_is_there() -> None:
    for plant in PLANTS.values():
        with plant.planted():
            pass


class _Taking(Patches):
    """Patches that are called as what they replace is."""

    def set(self, owner: Any, name: str, value: Any) -> Any:
        before = super().set(owner, name, value)
        if isinstance(before, FunctionType) and isinstance(value, FunctionType):
            asked = inspect.signature(before).parameters.values()
            by_place = [one.name for one in asked if one.kind <= one.POSITIONAL_OR_KEYWORD]
            by_name = {one.name: None for one in asked if one.kind is one.KEYWORD_ONLY}
            inspect.signature(value).bind(*by_place, **by_name)
        return before


def test_a_plant_takes_what_is_asked() -> None:
    for plant in PLANTS.values():
        patches = _Taking()
        try:
            plant.switch_on(patches)
        finally:
            patches.undo()


def test_there_are_enough_of_them() -> None:
    assert len(PLANTS) >= PLANTS_MIN
    assert sum(plant.may_show is seed_has_flows for plant in PLANTS.values()) >= FLOW_PLANTS_MIN
    assert sum(plant.may_show is seed_has_copies for plant in PLANTS.values()) >= COPY_PLANTS_MIN
    assert sum(plant.may_show is seed_has_groups for plant in PLANTS.values()) >= GROUP_PLANTS_MIN
    of_transactions = [plant for plant in PLANTS.values() if plant.may_show is seed_has_transactions]
    assert len(of_transactions) >= TRANSACTION_PLANTS_MIN


@pytest.mark.parametrize(
    ("name", "seed_has_it"),
    [
        ("flow_keyed_by_crc32", seed_has_flows),
        ("copy_rows_before_next", seed_has_copies),
        ("group_anybody_commits", seed_has_groups),
        ("compaction_does_not_sync", seed_is_compacted),
        ("transaction_late_end_is_taken", seed_has_transactions),
    ],
)
def test_a_bug_is_looked_for_where_it_may_show(
    name: str, seed_has_it: Callable[[int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def lived(seed: int) -> SimpleNamespace:
        tried.append(seed)
        return SimpleNamespace(violation=None)

    monkeypatch.setattr("semel.sim.campaign.proof.run_watched", lived)
    assert find(name, likely_seed=6, seeds_max=3).seed is None
    assert tried == [6, *[seed for seed in range(tried[-1] + 1) if seed_has_it(seed)]]
    assert len(tried) == 4


@pytest.mark.parametrize(
    ("fallen", "found"),
    [
        (["another", "acknowledged_is_stored"], (1, "acknowledged_is_stored")),
        (["another", None], (0, "another")),
        ([None, None], (None, None)),
    ],
)
def test_a_bug_is_looked_for_until_a_checker_finds_it_that_should(
    fallen: list[str | None], found: tuple[int | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lived(seed: int) -> SimpleNamespace:
        return SimpleNamespace(violation=fallen[seed], invariant=fallen[seed])

    monkeypatch.setattr("semel.sim.campaign.proof.run_watched", lived)
    finding = find("ack_before_sync", seeds_max=len(fallen))
    assert (finding.seed, finding.invariant) == found


@pytest.mark.thorough
def test_a_plant_is_taken_out_again() -> None:
    before = run_watched(5).trace_sha256
    assert find("ack_before_sync").seed is not None
    assert run_watched(5).trace_sha256 == before


def test_the_page_names_every_plant_as_the_code_does() -> None:
    written = ["|".join([*row[:3], " ? ", *row[4:]]) for row in rows()]
    assert written == [row_without_finding(plant) for plant in PLANTS.values()], (
        "run: semel sim --prove --page docs/proof.md"
    )
    for row in rows():
        plant, invariant = PLANTS[row[1].strip(" `")], row[3].split("`")[1]
        assert invariant in plant.found_by, f"{plant.name} was found by {invariant}"
