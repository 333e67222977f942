from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.flows.smallest import LEFT, view

from semel.sim.flows.checkers import StageStateIsReplay


def test_the_decided_state_is_that_of_a_replay() -> None:
    StageStateIsReplay().flow_logs([view()])
    StageStateIsReplay().flow_logs([view(decided=2, state=LEFT[0])])


def test_another_state_is_not(breaks: Breaks) -> None:
    for wrong in (LEFT[0], None):
        with breaks():
            StageStateIsReplay().flow_logs([view(state=wrong)])


def test_an_end_at_which_no_entry_ends_has_no_state(breaks: Breaks) -> None:
    with breaks():
        StageStateIsReplay().flow_logs([view(decided=1, state=None)])
