from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.flows.smallest import driver, story

from semel.errors import (
    BrokerError,
    ConnectionLost,
    ErrorCode,
    NonDeterministicReplay,
    ReplayDiffers,
    ReplayUnprovable,
    SemelError,
    SinkFenced,
    StepFailed,
    StorageError,
)
from semel.sim.flows.checkers import FlowStopsAreRight

FAILED = StepFailed("fold", "row 1", "no such row")


def stop(
    error: SemelError, *, breaks: bool = False, was_mended: bool = False, had_rival: bool = False
) -> None:
    stage = story(breaks=breaks).stages[1]
    stage.was_mended = was_mended
    FlowStopsAreRight().flow_stopped(stage, driver(stage, had_rival=had_rival), error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SinkFenced("a newer one"), {"had_rival": True}),
        (ReplayDiffers("another plan"), {"was_mended": True}),
        (FAILED, {"breaks": True}),
    ],
)
def test_a_named_error_needs_its_reason(breaks: Breaks, error: SemelError, reason: dict[str, bool]) -> None:
    stop(error, **reason)
    with breaks():
        stop(error)


@pytest.mark.parametrize(
    "error", [ConnectionLost("gone"), BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "rows")]
)
def test_what_passes_needs_none(error: SemelError) -> None:
    stop(error)


@pytest.mark.parametrize(
    "error",
    [
        NonDeterministicReplay("other rows"),
        ReplayUnprovable("a changelog"),
        StorageError("no copy is free"),
        BrokerError(ErrorCode.INVALID_RECORD, "rows"),
    ],
)
def test_nothing_is_a_reason_for_others(breaks: Breaks, error: SemelError) -> None:
    with breaks():
        stop(error, breaks=True, was_mended=True, had_rival=True)


def test_no_stage_is_left(breaks: Breaks) -> None:
    stage = story(breaks=True).stages[0]
    with breaks():
        FlowStopsAreRight().flow_left(stage, driver(stage), FAILED)
