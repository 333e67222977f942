from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.sinks.smallest import OUT, SOURCE, claim, decision, driver, story, view

from semel.core.sink.journal import Begin, Fence
from semel.errors import (
    BrokerError,
    ConnectionLost,
    DataLoss,
    ErrorCode,
    NonDeterministicReplay,
    PlanNotSupported,
    ReplayDiffers,
    ReplayUnprovable,
    SemelError,
    SinkFenced,
)
from semel.sim.sinks.checkers import SinkStopsAreRight


def stop(error: SemelError, *, rows_differ: bool = False, **had: bool) -> None:
    stopped = driver(story(rows_differ=rows_differ), **had)
    SinkStopsAreRight().sink_stopped(stopped.story, stopped, error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SinkFenced("a newer one"), {"had_rival": True}),
        (ReplayDiffers("other ranges"), {"is_tampered": True}),
        (NonDeterministicReplay("other rows"), {"rows_differ": True}),
    ],
)
def test_a_named_error_needs_its_reason(breaks: Breaks, error: SemelError, reason: dict[str, bool]) -> None:
    stop(error, **reason)
    with breaks():
        stop(error)


def test_a_loss_needs_a_source_that_was_made_anew(breaks: Breaks) -> None:
    stopped = driver(story())
    loss = DataLoss(SOURCE, 3, 4, "made anew")
    with breaks():
        SinkStopsAreRight().sink_stopped(stopped.story, stopped, loss)
    stopped.story.make_source_anew(5)
    SinkStopsAreRight().sink_stopped(stopped.story, stopped, loss)


def test_a_rival_that_decided_rows_of_a_topic_made_anew_is_a_reason_to_stop(breaks: Breaks) -> None:
    stopped = driver(story(), had_rival=True)
    with breaks():
        SinkStopsAreRight().sink_stopped(stopped.story, stopped, ReplayDiffers("of another topic"))
    stopped.story.make_source_anew(5)
    SinkStopsAreRight().sink_stopped(stopped.story, stopped, ReplayDiffers("of another topic"))


@pytest.mark.parametrize(
    "error", [ConnectionLost("closed"), BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "out", "full")]
)
def test_what_passes_needs_none(error: SemelError) -> None:
    stop(error)


@pytest.mark.parametrize(
    "error",
    [PlanNotSupported("a shuffle"), BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "out", "gap")],
)
def test_nothing_excuses_another(breaks: Breaks, error: SemelError) -> None:
    with breaks():
        stop(error, had_rival=True, is_tampered=True, rows_differ=True)


@pytest.mark.parametrize("log_start", [4, 3])
def test_unprovable_needs_a_trim_of_what_it_had_to_scan(breaks: Breaks, log_start: int) -> None:
    stopped = driver(story())
    checker = SinkStopsAreRight()
    checker.log_start(OUT, log_start)
    checker.sink_stopped(stopped.story, stopped, ReplayUnprovable("rows are gone"))
    journal = Fence("k0", 0, "k0.d0.planner"), claim(), Begin("k0", 0, (), {OUT: 3})
    seen = [view(stopped.story, [], *journal)]
    if log_start > 3:
        checker.sink_logs(seen)
    else:
        with breaks():
            checker.sink_logs(seen)


def test_decided_rows_need_no_scan(breaks: Breaks) -> None:
    stopped = driver(story())
    checker = SinkStopsAreRight()
    checker.log_start(OUT, 4)
    checker.sink_stopped(stopped.story, stopped, ReplayUnprovable("rows are gone"))
    journal = Fence("k0", 0, "k0.d0.planner"), Begin("k0", 0, (), {OUT: 3}), decision(4, output_end=4)
    with breaks():
        checker.sink_logs([view(stopped.story, [], *journal)])


def test_a_way_out_is_missing_only_where_rows_differ(breaks: Breaks) -> None:
    for rows_differ in (True, False):
        left = driver(story(rows_differ=rows_differ))
        if rows_differ:
            SinkStopsAreRight().sink_left(left.story, left, NonDeterministicReplay("other rows"))
        else:
            with breaks():
                SinkStopsAreRight().sink_left(left.story, left, NonDeterministicReplay("other rows"))
