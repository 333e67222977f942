from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.groups.smallest import GROUP

from semel.sim.groups.checkers import GroupBecomesStable


def test_it_has_its_time() -> None:
    GroupBecomesStable().group_waited(GROUP, 100, 100, "m0 is in no generation")


def test_it_may_stay_stable() -> None:
    GroupBecomesStable().group_waited(GROUP, 10_000, 100, None)


def test_it_is_by_then(breaks: Breaks) -> None:
    with breaks():
        GroupBecomesStable().group_waited(GROUP, 101, 100, "m0 is in no generation")
