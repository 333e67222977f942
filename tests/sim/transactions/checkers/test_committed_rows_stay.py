from __future__ import annotations

import pytest
from tests.sim.conftest import Breaks
from tests.sim.transactions.smallest import TP, begun, committed, read, story

from semel.sim.transactions.checkers import CommittedRowsStay
from semel.sim.transactions.log import Decided


@pytest.mark.parametrize(
    ("decided", "is_right"),
    [(Decided(True, 3), True), (Decided(True, 4), False), (Decided(False, 3), False), (None, False)],
)
def test_a_commit_that_is_acknowledged_is_durable(
    breaks: Breaks, decided: Decided | None, is_right: bool
) -> None:
    of = story()
    txn = committed(of, (TP, 0))
    of.log.durable_end = 4
    if decided is not None:
        of.log.decided[txn.name] = decided
    if is_right:
        CommittedRowsStay().transaction_ended(of, txn)
    else:
        with breaks():
            CommittedRowsStay().transaction_ended(of, txn)


def test_an_abort_that_is_acknowledged_is_none(breaks: Breaks) -> None:
    of = story()
    txn = begun(of, (TP, 0), asked=False, told=False)
    CommittedRowsStay().transaction_ended(of, txn)
    of.log.decided[txn.name] = Decided(True, 0)
    with breaks():
        CommittedRowsStay().transaction_ended(of, txn)


def test_a_start_finds_what_was_durable(breaks: Breaks) -> None:
    CommittedRowsStay().found_at_start(story(), TP, 5, 5)
    with breaks():
        CommittedRowsStay().found_at_start(story(), TP, 5, 4)


def test_its_rows_are_read_in_their_order(breaks: Breaks) -> None:
    of = story()
    txn = committed(of, (TP, 3), (TP, 4))
    read(of, *txn.rows)
    CommittedRowsStay().history_ended(of)
    txn.rows.reverse()
    with breaks():
        CommittedRowsStay().history_ended(of)


def test_once(breaks: Breaks) -> None:
    of = story()
    txn = committed(of, (TP, 3))
    read(of, *txn.rows)
    txn.rows[0].record_offset = 5
    read(of, *txn.rows)
    with breaks():
        CommittedRowsStay().history_ended(of)


def test_and_none_is_lost(breaks: Breaks) -> None:
    of = story()
    committed(of, (TP, 3))
    with breaks():
        CommittedRowsStay().history_ended(of)
    of.log_starts[TP] = 4
    CommittedRowsStay().history_ended(of)
