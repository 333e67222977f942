from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.flows.smallest import TOLD, view

from semel.sim.flows.checkers import StageOutputIsReplay


def test_rows_are_those_of_a_replay() -> None:
    StageOutputIsReplay().flow_logs([view()])


def test_what_is_not_decided_may_be_missing() -> None:
    StageOutputIsReplay().flow_logs([view(output=TOLD[:1], decided=2)])
    StageOutputIsReplay().flow_logs([view(output=(), decided=None)])


@pytest.mark.parametrize(
    "output",
    [
        [*TOLD, TOLD[1]],
        [TOLD[1], TOLD[0]],
        [TOLD[0], {**TOLD[1], "count": 3}],
        TOLD[:1],
    ],
    ids=["one too many", "turned round", "another", "a decided one is missing"],
)
def test_other_rows_are_not(breaks: Breaks, output: list[dict[str, object]]) -> None:
    with breaks():
        StageOutputIsReplay().flow_logs([view(output=output)])
