from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import WRITER
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import OUT, claim, decision, rows, story, view

from semel.sim.sinks.checkers import SinkRowsOnce
from semel.sim.sinks.view import SinkView


def test_each_row_once() -> None:
    SinkRowsOnce().sink_logs([view(story(), [rows(0, "0", "1", "1x")], claim())])


@pytest.mark.parametrize("again", ["1", "1~2"])
def test_a_row_twice_whatever_its_version(breaks: Breaks, again: str) -> None:
    output = [rows(0, "0", "1"), rows(2, again, by=WRITER + 1)]
    with breaks():
        SinkRowsOnce().sink_logs([view(story(), output, claim())])


def test_what_was_trimmed_counts(breaks: Breaks) -> None:
    whole = view(story(), [rows(1, "0")], claim())
    SinkRowsOnce().sink_logs([whole])
    with breaks():
        SinkRowsOnce().sink_logs([SinkView(whole.story, whole._logs, {OUT: {0: rows(0, "0")}})])


def test_a_finished_query_has_all_of_them(breaks: Breaks) -> None:
    journal = claim(), decision(2)
    SinkRowsOnce().sink_logs([view(story(finished_at=2), [rows(0, "0", "1")], *journal)])
    with breaks():
        SinkRowsOnce().sink_logs([view(story(finished_at=2), [rows(0, "0")], *journal)])
