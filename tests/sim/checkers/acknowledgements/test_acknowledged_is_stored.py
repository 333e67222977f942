from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import TP, batch, history
from tests.sim.conftest import Breaks

from semel.sim.checkers.acknowledgements import AcknowledgedIsStored
from semel.sim.world.history import Promise

LOG = [batch(3, "a:0", "a:1")]


@pytest.mark.parametrize(
    ("promise", "told_offset", "log_start"),
    [
        pytest.param(Promise.STORED, 4, 0, id="where it was told"),
        pytest.param(Promise.STORED, None, 0, id="somewhere, for a duplicate's answer names no offset"),
        pytest.param(Promise.UNKNOWN, 7, 0, id="nothing was promised"),
    ],
)
def test_it_is_there(promise: Promise, told_offset: int | None, log_start: int) -> None:
    told = history({"a:1": promise}, log_start=log_start)
    told.records[b"a:1"].record_offset = told_offset
    AcknowledgedIsStored().logs(told, {TP: LOG})


def test_it_is_gone(breaks: Breaks) -> None:
    with breaks():
        AcknowledgedIsStored().logs(history({"a:2": Promise.STORED}), {TP: LOG})


def test_it_lies_elsewhere(breaks: Breaks) -> None:
    told = history({"a:1": Promise.STORED})
    told.records[b"a:1"].record_offset = 3
    with breaks():
        AcknowledgedIsStored().logs(told, {TP: LOG})


@pytest.mark.parametrize("told_offset", [4, None])
def test_what_was_trimmed_may_be_gone(breaks: Breaks, told_offset: int | None) -> None:
    """And what lay behind the trim may not, though its producer was told no offset."""
    checker, told = AcknowledgedIsStored(), history({"a:1": Promise.STORED})
    told.records[b"a:1"].record_offset = told_offset
    checker.logs(told, {TP: LOG})
    told.log_starts[TP] = 5
    checker.logs(told, {TP: []})
    told.log_starts[TP] = 4
    with breaks():
        checker.logs(told, {TP: []})
