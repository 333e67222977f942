"""The checkers, their names, what they watch, and the tests beside them go together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from semel import sim
from semel.sim.campaign.invariants import all_checkers
from semel.sim.checkers.checker import Checker

SOURCES = Path(sim.__file__).parent
TESTS = Path(__file__).parents[2]
WRITTEN = [
    name
    for path in SOURCES.rglob("*.py")
    for name in re.findall(r"^class (\w+)\(Checker\b", path.read_text(), re.MULTILINE)
]

each_checker = pytest.mark.parametrize("checker", all_checkers(), ids=lambda checker: checker.name)


def test_every_checker_watches_once() -> None:
    assert sorted(type(checker).__name__ for checker in all_checkers()) == sorted(WRITTEN)
    assert len({checker.name for checker in all_checkers()}) == len(WRITTEN)


@each_checker
def test_each_says_what_its_invariant_is(checker: Checker) -> None:
    assert type(checker).__doc__.startswith(f"``{checker.name}``: ")


@each_checker
def test_each_overrides_a_hook_of_every_subject_and_has_no_other(checker: Checker) -> None:
    """A hook that is misspelled would never be called."""
    own = {name for name in vars(type(checker)) if not name.startswith("_")} - {"name"}
    _, *subjects = type(checker).__bases__
    assert subjects
    for subject in subjects:
        assert own & vars(subject).keys(), subject
        own -= vars(subject).keys()
    assert not own


@each_checker
def test_each_is_tested_by_itself(checker: Checker) -> None:
    place = TESTS.joinpath(*type(checker).__module__.split(".")[1:])
    assert (place / f"test_{checker.name}.py").exists()
