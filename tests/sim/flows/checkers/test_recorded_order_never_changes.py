from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.flows.smallest import entry, head, story, task, view

from semel.sim.flows.checkers import RecordedOrderNeverChanges


def test_entries_stay_and_others_come_behind_them() -> None:
    checker = RecordedOrderNeverChanges()
    checker.flow_logs([view(entries=(head(), entry(0, 0, 1)))])
    checker.flow_logs(
        [view(entries=(head(), entry(0, 0, 1), head(2), entry(1, 1, 2), entry(1, 1, 2, epoch=2)))]
    )


def test_an_entry_that_is_gone_or_another(breaks: Breaks) -> None:
    for other in ((head(),), (head(), entry(0, 0, 2)), (head(), head(2), entry(0, 0, 1, epoch=2))):
        checker = RecordedOrderNeverChanges()
        checker.flow_logs([view(entries=(head(), entry(0, 0, 1)))])
        with breaks():
            checker.flow_logs([view(entries=other)])


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        ([(1, 0, 0, 1), (2, 1, 1, 2)], True),
        ([(1, 0, 0, 1)], False),
        ([(1, 0, 0, 2), (2, 1, 1, 2)], False),
        ([], False),
    ],
)
def test_a_task_is_given_what_is_recorded(
    breaks: Breaks, given: list[tuple[int, int, int, int]], is_right: bool
) -> None:
    of = story()
    of.stages[1].planned.append(task(0, 3, *given))
    if is_right:
        RecordedOrderNeverChanges().flow_logs([view(of)])
        assert not of.stages[1].planned
        return
    with breaks():
        RecordedOrderNeverChanges().flow_logs([view(of)])
