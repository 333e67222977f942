from __future__ import annotations

from tests.sim.checkers.smallest import LEASE
from tests.sim.conftest import Breaks

from semel.sim.checkers.leases import LeaseOverForEver


def over_below(producer_id: int) -> LeaseOverForEver:
    checker = LeaseOverForEver()
    checker.leases_over(LEASE)
    checker.leases_over(producer_id)
    return checker


def test_nothing_is_appended_under_it(breaks: Breaks) -> None:
    checker = over_below(LEASE + 2)
    checker.lease_used(LEASE + 2)
    with breaks():
        checker.lease_used(LEASE + 1)


def test_none_lives_again(breaks: Breaks) -> None:
    checker = over_below(LEASE + 2)
    checker.leases_over(LEASE + 2)
    with breaks():
        checker.leases_over(LEASE + 1)
