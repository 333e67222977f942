from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import JOURNAL, claim, decision, rows, story, ticket, view

from semel.core.sink.journal import Attempt, JournalRecord
from semel.sim.sinks.checkers import SinkTwinsShutOut

TWIN = Attempt("k0", "w", 0, 1)
OUTPUT = [rows(0, "0", "1", sequence=0), rows(2, "2", sequence=2)]


def judge(*journal: JournalRecord, commit_begins_at: int) -> None:
    checker = SinkTwinsShutOut()
    checker.watermark(JOURNAL, commit_begins_at, commit_begins_at)
    checker.sink_commits(ticket(0), 0)
    checker.sink_logs([view(story(), OUTPUT, *journal)])


@pytest.mark.parametrize(
    ("journal", "commit_begins_at"),
    [
        pytest.param((claim(), TWIN, decision(3, next_sequence=3)), 2, id="all its rows are known"),
        pytest.param((claim(), decision(2, next_sequence=2), TWIN), 1, id="it came behind the decision"),
        pytest.param((claim(), TWIN, decision(2, next_sequence=2)), 1, id="it came amid the commit"),
    ],
)
def test_no_row_of_a_known_twin_is_unknown(journal, commit_begins_at: int) -> None:
    judge(*journal, commit_begins_at=commit_begins_at)


def test_a_known_twin_has_a_row_that_the_decision_does_not_know(breaks: Breaks) -> None:
    with breaks():
        judge(claim(), TWIN, decision(2, next_sequence=2), commit_begins_at=2)
