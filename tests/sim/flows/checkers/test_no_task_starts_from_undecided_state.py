from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from tests.sim.conftest import Breaks
from tests.sim.flows.smallest import LEFT, story, view

from semel.sim.flows.checkers import NoTaskStartsFromUndecidedState
from semel.sim.flows.story import FlowStory, Loaded


def loaded(decided_end: int, state: Mapping[str, Any] | None) -> FlowStory:
    of = story()
    rows = {} if state is None else {b"\0\0u": msgspec.msgpack.encode(state)}
    of.stages[1].loaded.append(Loaded(0, decided_end, rows, "d0.t0"))
    return of


def test_tasks_start_from_nothing_or_from_what_is_decided() -> None:
    NoTaskStartsFromUndecidedState().flow_logs([view(loaded(0, None))])
    of = loaded(3, LEFT[1])
    NoTaskStartsFromUndecidedState().flow_logs([view(of)])
    assert not of.stages[1].loaded


def test_not_from_another_state_nor_from_an_end_that_was_not_decided(breaks: Breaks) -> None:
    for wrong in (loaded(3, LEFT[0]), loaded(0, LEFT[0]), loaded(2, LEFT[0])):
        with breaks():
            NoTaskStartsFromUndecidedState().flow_logs([view(wrong)])
