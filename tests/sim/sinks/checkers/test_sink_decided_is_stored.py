from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import SOURCE, claim, decision, rows, story, view

from semel.core.sink.journal import Decision
from semel.sim.sinks.checkers import SinkDecidedIsStored
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


def test_rows_that_went_with_their_topic_before_they_were_decided_may_be_missing(breaks: Breaks) -> None:
    """Decided up to row 2 when it was made anew; it had four rows then."""
    told = story(finished_at=4)
    told.decided("0", {SOURCE: 2})
    told.make_source_anew(9)
    anew = replace(decision(3), source_ids={SOURCE.topic: "1"})
    for numbers, holds in ((("0", "1", "4", "5", "6"), True), (("0", "1", "4", "6"), False)):
        seen = view(told, [rows(0, *numbers)], claim(), decision(2), anew)
        with nullcontext() if holds else breaks():
            SinkDecidedIsStored().sink_logs([seen])
    with breaks():
        SinkDecidedIsStored().sink_logs([view(told, [rows(0, "0", "4", "5", "6")], claim(), anew)])
