from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import LEASE, OTHER, TP, WRITER, batch, history, marker
from tests.sim.conftest import Breaks

from semel.sim.checkers.producers import FenceHolds


def fenced_to(epoch: int, *, producer_id: int = WRITER) -> FenceHolds:
    checker = FenceHolds()
    checker.fenced(TP, producer_id, epoch)
    return checker


@pytest.mark.parametrize("log", [[marker(0, epoch=2)], [batch(0, "a:0", epoch=3)]])
def test_the_log_has_that_epoch_or_a_higher_one(log) -> None:
    fenced_to(2).logs(history(), {TP: log, OTHER: []})


@pytest.mark.parametrize("log", [[], [marker(0, epoch=1)], [marker(0, epoch=2, by=WRITER + 1)]])
def test_the_log_has_no_such_epoch(breaks: Breaks, log) -> None:
    with breaks():
        fenced_to(2).logs(history(), {TP: log})


def test_a_trim_may_take_the_marker_and_the_server_still_knows_it(breaks: Breaks) -> None:
    checker = fenced_to(2)
    checker.logs(history(log_start=1), {TP: []})
    checker.described(TP, [(WRITER, 2)])
    checker.described(OTHER, [])
    for said in ([(WRITER, 1)], []):
        with breaks():
            checker.described(TP, said)


def test_an_older_fence_takes_nothing_back(breaks: Breaks) -> None:
    checker = fenced_to(2)
    checker.fenced(TP, WRITER, 1)
    with breaks():
        checker.logs(history(), {TP: [marker(0, epoch=1)]})


def test_a_lease_needs_its_fence_until_it_is_over(breaks: Breaks) -> None:
    checker = fenced_to(2, producer_id=LEASE)
    with breaks():
        checker.logs(history(), {TP: []})
    checker.leases_over(LEASE + 1)
    checker.fenced(TP, LEASE, 3)
    checker.logs(history(), {TP: []})
