from __future__ import annotations

import pytest
from tests.sim.checkers.smallest import LEASE, WRITER
from tests.sim.conftest import Breaks

from semel.sim.checkers.producers import GrantedOnce
from semel.types import ProducerGrant


def granted(*epochs: int) -> GrantedOnce:
    checker = GrantedOnce()
    for epoch in epochs:
        checker.granted(ProducerGrant(WRITER, epoch), is_fresh=False)
    return checker


def test_each_epoch_to_one_caller() -> None:
    checker = granted(0, 2, 1)
    checker.granted(ProducerGrant(WRITER + 1, 0), is_fresh=True)


@pytest.mark.parametrize(("epoch", "is_fresh"), [(1, False), (1, True), (3, True)])
def test_an_epoch_twice_or_an_id_as_a_fresh_one(breaks: Breaks, epoch: int, is_fresh: bool) -> None:
    with breaks():
        granted(0, 1).granted(ProducerGrant(WRITER, epoch), is_fresh=is_fresh)


def test_a_restart_finds_the_leases_as_they_were_told(breaks: Breaks) -> None:
    checker = GrantedOnce()
    checker.granted(ProducerGrant(LEASE, 5), is_fresh=True)
    checker.leases_found({LEASE: 6, LEASE + 1: 0})  # told to nobody
    with breaks():
        checker.leases_found({LEASE: 4})
