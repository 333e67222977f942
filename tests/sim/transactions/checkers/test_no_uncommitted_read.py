from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import TP, begun, committed, read, story

from semel.sim.transactions.checkers import NoUncommittedRead
from semel.sim.transactions.story import Row


def test_a_row_may_be_read_once_its_commit_is_asked_for() -> None:
    of = story()
    txn = begun(of, (TP, 0), asked=True)
    NoUncommittedRead().polled(of, read(of, *txn.rows))
    NoUncommittedRead().polled(of, read(of, *committed(of, (TP, 1)).rows))


@pytest.mark.parametrize(("asked", "told"), [(None, None), (False, None), (False, False)])
def test_not_before_and_not_of_one_that_aborts(breaks: Breaks, asked: bool | None, told: bool | None) -> None:
    of = story()
    txn = begun(of, (TP, 0), asked=asked, told=told)
    with breaks():
        NoUncommittedRead().polled(of, read(of, *txn.rows))


def test_a_row_is_somebodys(breaks: Breaks) -> None:
    of = story()
    with breaks():
        NoUncommittedRead().polled(of, read(of, Row(TP, b"nobody:0", 0)))


def test_who_reads_all_may_read_it() -> None:
    of = story()
    txn = begun(of, (TP, 0))
    NoUncommittedRead().polled(of, read(of, *txn.rows, is_committed=False))
