from __future__ import annotations

import pytest
from tests.sim.checkers.conftest import Breaks, claim, decision, rows, story, view

from semel.core.sink.journal import Decision
from semel.sim.checkers.sink_decided_is_stored import SinkDecidedIsStored
from semel.sim.sinks.view import SinkView


def judge(names: tuple[str, ...], *decisions: Decision) -> None:
    seen = view(story(), [rows(0, *names)] if names else [], claim(), *decisions)
    SinkDecidedIsStored().sink_logs([seen])


@pytest.mark.parametrize("decisions", [(), (decision(1),), (decision(1), decision(2))])
def test_all_that_is_decided_is_there(decisions: tuple[Decision, ...]) -> None:
    judge(("0", "1", "2"), *decisions)


@pytest.mark.parametrize(
    ("names", "decisions"),
    [
        pytest.param((), (decision(1),), id="no row"),
        pytest.param(("0", "2"), (decision(3),), id="a hole"),
        pytest.param(("0", "1x"), (decision(2),), id="one too many in its place"),
        pytest.param(("0", "1"), (decision(2), decision(1)), id="taken back"),
    ],
)
def test_a_decided_row_is_missing(
    breaks: Breaks, names: tuple[str, ...], decisions: tuple[Decision, ...]
) -> None:
    with breaks():
        judge(names, *decisions)


def test_nothing_is_missing_from_a_log_that_cannot_be_read() -> None:
    seen = view(story(), [], claim(), decision(1))
    journal = {tp: log for tp, log in seen._logs.items() if tp.topic != "out"}
    SinkDecidedIsStored().sink_logs([SinkView(seen.story, journal, {})])
