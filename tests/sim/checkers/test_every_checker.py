"""The files of the checkers, their names, and the tests beside them go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.sim import checkers
from semel.sim.campaign.invariants import all_checkers
from semel.sim.checkers.base import Checker

FILES = {path.stem for path in Path(checkers.__file__).parent.glob("*.py")} - {"__init__", "base", "watchers"}


def test_every_file_is_a_checker_that_watches() -> None:
    assert sorted(checker.name for checker in all_checkers()) == sorted(FILES)


@pytest.mark.parametrize("checker", all_checkers(), ids=lambda checker: checker.name)
def test_each_lies_in_the_file_of_its_name(checker: Checker) -> None:
    assert type(checker).__module__.endswith(f".{checker.name}")


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_is_tested_by_itself(name: str) -> None:
    assert (Path(__file__).parent / f"test_{name}.py").exists()
