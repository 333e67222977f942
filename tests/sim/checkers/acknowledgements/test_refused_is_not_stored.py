from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, batch, history
from tests.sim.conftest import Breaks

from semel.sim.checkers.acknowledgements import RefusedIsNotStored
from semel.sim.world.history import Promise

LOG = {TP: [batch(0, "a:0", "a:1")]}


def test_a_refused_record_is_there(breaks: Breaks) -> None:
    RefusedIsNotStored().logs(history({"a:1": Promise.UNKNOWN, "a:2": Promise.REFUSED}), LOG)
    with breaks():
        RefusedIsNotStored().logs(history({"a:1": Promise.REFUSED}), LOG)


@pytest.mark.parametrize(
    ("is_replayed", "was_turned_away"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_a_late_copy_may_find_room(breaks: Breaks, is_replayed: bool, was_turned_away: bool) -> None:
    told = history({"a:1": Promise.REFUSED})
    told.is_replayed, told.records[b"a:1"].was_turned_away = is_replayed, was_turned_away
    if is_replayed and was_turned_away:
        RefusedIsNotStored().logs(told, LOG)
    else:
        with breaks():
            RefusedIsNotStored().logs(told, LOG)
