from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.sim.conftest import Breaks
from tests.sim.copies.smallest import OUTPUT, SOURCE, story

from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    DataLoss,
    ErrorCode,
    ProducerFenced,
    ReplayUnprovable,
    SemelError,
    StorageError,
)
from semel.sim.copies.checkers import CopyStopsAreRight

AWAY = ConfigError("there is no topic 'a' at source:9092")


def stop(error: SemelError, *, had_rival: bool = False, source: bool = False, output: bool = False) -> None:
    of = story()
    of.source_was_changed, of.job.output_was_changed = source, output
    life: Any = SimpleNamespace(name="c0.0", job=of.job, had_rival=had_rival)
    CopyStopsAreRight().copy_stopped(of, life, error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ProducerFenced("a newer one"), {"had_rival": True}),
        (DataLoss(SOURCE, 0, 1, "trimmed", "go on"), {"source": True}),
        (DataLoss(OUTPUT, 0, 1, "put back", "go on"), {"output": True}),
        (AWAY, {"source": True}),
        (ReplayUnprovable("made anew"), {"output": True}),
        (BrokerError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "writing"), {"output": True}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_named_error_needs_its_reason(breaks: Breaks, error: SemelError, reason: dict[str, bool]) -> None:
    stop(error, **reason)
    others = {"had_rival", "source", "output"} - reason.keys()
    with breaks():
        stop(error, **dict.fromkeys(others, True))


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("no answer"),
        BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "a full disk"),
    ],
    ids=str,
)
def test_what_passes_needs_none(error: SemelError) -> None:
    stop(error)


@pytest.mark.parametrize(
    "error", [StorageError("?"), ConfigError("has records already")], ids=lambda value: type(value).__name__
)
def test_nothing_else_is_right(breaks: Breaks, error: SemelError) -> None:
    with breaks():
        stop(error, had_rival=True, source=True, output=True)


def test_times_are_refused_by_an_output_that_is_not_the_copys_own(breaks: Breaks) -> None:
    error = ConfigError("it does not take a batch of the source's for its rows' times")
    stop(error, output=True)
    with breaks():
        stop(error, had_rival=True, source=True)


def test_what_one_job_has_copied_may_be_trimmed_before_another_has(breaks: Breaks) -> None:
    error = DataLoss(SOURCE, 0, 1, "trimmed", "go on")
    of = story()
    of.source_was_trimmed = True
    first, second = (SimpleNamespace(name="c", job=job, had_rival=False) for job in (of.job, of.begin_job()))
    CopyStopsAreRight().copy_stopped(of, second, error)  # type: ignore[arg-type]
    with breaks():
        CopyStopsAreRight().copy_stopped(of, first, error)  # type: ignore[arg-type]


def test_what_was_copied_and_trimmed_may_be_missing_from_an_output_that_is_put_back() -> None:
    of = story()
    of.source_was_trimmed, of.job.output_was_changed = True, True
    life: Any = SimpleNamespace(name="c0.0", job=of.job, had_rival=False)
    CopyStopsAreRight().copy_stopped(of, life, DataLoss(SOURCE, 0, 1, "trimmed", "go on"))
