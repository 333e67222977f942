from __future__ import annotations

from tests.sim.conftest import Breaks
from tests.sim.flows.smallest import LEFT, entry, head, story, view

from semel.sim.flows.checkers import EachInputCountedOnce


def test_every_row_once() -> None:
    EachInputCountedOnce().flow_logs([view()])
    EachInputCountedOnce().flow_logs([view(decided=2, state=LEFT[0])])


def test_a_row_twice_or_never(breaks: Breaks) -> None:
    with breaks():
        EachInputCountedOnce().flow_logs([view(state={"count": 3, "mixed": 0})])
    with breaks():
        EachInputCountedOnce().flow_logs([view(state=LEFT[0])])


def test_no_entry_has_what_is_behind_the_end_of_its_input(breaks: Breaks) -> None:
    with breaks():
        EachInputCountedOnce().flow_logs([view(entries=(head(), entry(0, 0, 3)), decided=None)])


def test_a_finished_stage_has_decided_all(breaks: Breaks) -> None:
    for finished in (0, 1):
        of = story()
        of.stages[finished].is_finished = True
        EachInputCountedOnce().flow_logs([view(of)])
    of = story()
    of.stages[1].is_finished = True
    with breaks():
        EachInputCountedOnce().flow_logs([view(of, decided=2, state=LEFT[0])])
    with breaks():
        EachInputCountedOnce().flow_logs([view(of, rows=(3, 4, 7))])
