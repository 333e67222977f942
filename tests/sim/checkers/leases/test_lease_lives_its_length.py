from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import LEASE
from tests.sim.conftest import Breaks

from semel.sim.checkers.leases import LeaseLivesItsLength

LENGTH_MS = 4_000


def issued_at(now_ms: int) -> LeaseLivesItsLength:
    checker = LeaseLivesItsLength()
    checker.lease_issued(LEASE, now_ms)
    return checker


@pytest.mark.parametrize(
    ("expired_below", "good_ms", "bad_ms"),
    [
        pytest.param(LEASE + 1, LENGTH_MS, LENGTH_MS - 1, id="over too early"),
        pytest.param(LEASE, LENGTH_MS, LENGTH_MS + 5, id="spared"),
    ],
)
def test_over_when_its_length_has_passed(
    breaks: Breaks, expired_below: int, good_ms: int, bad_ms: int
) -> None:
    issued_at(100).leases_looked_at(expired_below, LENGTH_MS, 100 + good_ms)
    with breaks():
        issued_at(100).leases_looked_at(expired_below, LENGTH_MS, 100 + bad_ms)


def test_a_restart_begins_its_life_anew(breaks: Breaks) -> None:
    checker = issued_at(0)
    checker.lives_begin_anew(LEASE + 1, 3_000)
    checker.leases_looked_at(LEASE, LENGTH_MS, 3_000 + LENGTH_MS)
    with breaks():
        checker.leases_looked_at(LEASE + 1, LENGTH_MS, 2_999 + LENGTH_MS)


def test_what_is_over_is_not_said_to_live(breaks: Breaks) -> None:
    checker = issued_at(0)
    checker.lease_told_of(LEASE, 1)
    checker.leases_looked_at(LEASE + 1, LENGTH_MS, LENGTH_MS)
    checker.lease_told_of(LEASE, 0)
    with breaks():
        checker.lease_told_of(LEASE, 1)
