from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import GROUP, begun, committed, story

from semel.sim.transactions.checkers import OffsetsFollowTheTransaction


def test_an_offset_is_of_who_may_be_committed() -> None:
    of = story()
    txn = begun(of, asked=True, offsets=(0, 3))
    OffsetsFollowTheTransaction().position_told(of, GROUP, 3, txn.name, 5)
    OffsetsFollowTheTransaction().position_told(of, GROUP, -1, None, 5)


@pytest.mark.parametrize(("asked", "told"), [(None, None), (False, None), (False, False)])
def test_and_of_nobody_else(breaks: Breaks, asked: bool | None, told: bool | None) -> None:
    of = story()
    txn = begun(of, asked=asked, told=told, offsets=(0, 3))
    with breaks():
        OffsetsFollowTheTransaction().position_told(of, GROUP, 3, txn.name, 5)


def test_it_is_that_ones_offset(breaks: Breaks) -> None:
    of = story()
    txn = committed(of, offsets=(0, 3))
    with breaks():
        OffsetsFollowTheTransaction().position_told(of, GROUP, 2, txn.name, 5)


@pytest.mark.parametrize("is_none", [False, True])
def test_it_is_not_older_than_what_was_told(breaks: Breaks, is_none: bool) -> None:
    of, checker = story(), OffsetsFollowTheTransaction()
    older, newer = committed(of, offsets=(0, 3)), committed(of, epoch=1, offsets=(3, 4))
    newer.told_ms = 5
    checker.transaction_ended(of, newer)
    note, offset = (None, -1) if is_none else (older.name, 3)
    checker.position_told(of, GROUP, offset, note, 5)  # it was asked before
    with breaks():
        checker.position_told(of, GROUP, offset, note, 6)
