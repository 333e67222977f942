from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.conftest import Breaks
from tests.sim.copies.smallest import story, view

from semel.core.copy.journal import Held
from semel.sim.copies.checkers import CopyIsNotTakenBack
from semel.sim.copies.view import SeenHeld
from semel.types import ProducerGrant


def look(*held: tuple[str, int], runs_of_c0_ms: tuple[int, ...]) -> None:
    """Who held the job, and when that was seen; a HELD is sent 10 ms before. One look at a time."""
    of = story()

    def run_began_ms(at_ms: int) -> int:
        return max(began_ms for began_ms in runs_of_c0_ms if began_ms <= at_ms)

    life: Any = SimpleNamespace(name="c0.0", run_began_ms=run_began_ms)
    of.job.lives.append(life)
    made, checker = view([], None, (), of=of), CopyIsNotTakenBack()
    for epoch, (owner, seen_ms) in enumerate(held):
        made.journal.held.append(SeenHeld(Held(ProducerGrant(7, epoch), owner, seen_ms - 10), seen_ms))
        checker.copy_looked(made)


def test_from_itself_and_from_older_ones_it_may() -> None:
    look(("c0.1", 10), ("c0.0", 100), ("c0.0", 200), runs_of_c0_ms=(50, 150))


def test_what_came_while_its_run_had_begun_it_may_not_have_seen() -> None:
    look(("c0.0", 100), ("c0.1", 155), ("c0.0", 200), runs_of_c0_ms=(50, 150))


@pytest.mark.parametrize("between", [("c0.1",), ("c0.1", "c0.2")])
def test_from_a_newer_one_it_may_not(breaks: Breaks, between: tuple[str, ...]) -> None:
    newer = [(name, 120 + place) for place, name in enumerate(between)]
    with breaks():
        look(("c0.0", 100), *newer, ("c0.0", 200), runs_of_c0_ms=(50, 150))
